//! What vectors at a site add to the residual stream of a transformer.

use etalon::error::Result;
use etalon::network::SiteId;
use etalon_kernel::product::rows_by_columns;

use crate::layer::{Linear, Norm};
use crate::transformer::{Block, Point, Transformer};

/// What follows a site up to the stream: a map, then a norm of which only the factors count.
struct Path<'a> {
    map: Option<&'a Linear>,
    norm: Option<&'a Norm>,
}

impl Path<'_> {
    /// The path from a point; `None` if the point is not in front of the stream.
    fn of(point: Point, block: &Block) -> Option<Path<'_>> {
        let (attention, perceptron) = (block.attention_norm.as_ref(), block.mlp_norm.as_ref());
        Some(match point {
            Point::ResidualPre | Point::ResidualMid | Point::ResidualPost | Point::AttentionOut | Point::MlpOut => {
                Path { map: None, norm: None }
            }
            Point::Z => Path { map: Some(&block.out), norm: attention },
            Point::AttentionRaw => Path { map: None, norm: attention },
            Point::MlpPost => Path { map: Some(&block.down), norm: perceptron },
            Point::MlpRaw => Path { map: None, norm: perceptron },
            _ => return None,
        })
    }

    fn apply(&self, vectors: &[f32], factors: bool) -> Vec<f32> {
        let mut written = match self.map {
            None => vectors.to_vec(),
            Some(map) => {
                let mut out = vec![0.0; vectors.len() / map.from().max(1) * map.to()];
                rows_by_columns(vectors, &map.weight(), map.from(), map.to(), &mut out);
                out
            }
        };
        if let Some(norm) = self.norm.filter(|_| factors) {
            for row in written.chunks_exact_mut(norm.width()) {
                row.iter_mut().zip(norm.weight()).for_each(|(value, weight)| *value *= weight);
            }
        }
        written
    }
}

/// What vectors that are added at a site add to the stream; `None` if the site is not in front of it.
pub(super) fn written(
    transformer: &Transformer,
    site: SiteId,
    vectors: &[f32],
    factors: bool,
) -> Result<Option<Vec<f32>>> {
    let Some((layer, point)) = transformer.points.find(site) else { return Ok(None) };
    transformer.blocks.with(layer, |block| Ok(Path::of(point, block).map(|path| path.apply(vectors, factors))))
}
