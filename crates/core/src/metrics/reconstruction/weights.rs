//! Statistics of the weights of single latents.

use etalon_kernel::product::dot;
use serde::{Deserialize, Serialize};

use crate::codes::Latent;
use crate::error::Result;
use crate::run::Work;
use crate::sae::Dictionary;

/// Latents per block.
const BLOCK: usize = 1024;

/// Statistics of the weights of one latent.
#[derive(Serialize, Deserialize)]
pub(super) struct LatentWeights {
    /// Its encoder bias.
    pub encoder_bias: f64,
    /// Length of its encoder row.
    pub encoder_norm: f64,
    /// Cosine of encoder and decoder row.
    pub cosine: Option<f64>,
    /// Whether both rows are the same.
    pub tied: bool,
}

/// Computes the statistics of all latents.
pub(super) fn latent_weights(dictionary: &dyn Dictionary, work: &mut Work<'_>) -> Result<Vec<LatentWeights>> {
    let (latents, width) = (dictionary.card().latents, dictionary.card().width);
    let (blocks, _memory) = work
        .blocks("weights", latents.div_ceil(BLOCK), |block| {
            let mut row = vec![0.0; width];
            let latents = block * BLOCK..((block + 1) * BLOCK).min(latents);
            Ok(latents.map(|latent| LatentWeights::of(latent, dictionary, &mut row)).collect::<Vec<_>>())
        })?
        .into_parts();
    Ok(blocks.into_iter().flatten().collect())
}

impl LatentWeights {
    fn of(latent: usize, dictionary: &dyn Dictionary, row: &mut [f32]) -> LatentWeights {
        let direction = dictionary.direction(Latent(latent as u32));
        dictionary.encoder_row(Latent(latent as u32), row);
        let lengths = dot(row, row).sqrt() * dot(direction, direction).sqrt();
        LatentWeights {
            encoder_bias: f64::from(dictionary.encoder_bias()[latent]),
            encoder_norm: dot(row, row).sqrt(),
            cosine: (lengths > 0.0).then(|| (dot(row, direction) / lengths).clamp(-1.0, 1.0)),
            tied: row == direction,
        }
    }
}
