//! Encoding by matching pursuit, in groups of rows.

pub use etalon_kernel::matching_pursuit::MatchingPursuit;

use crate::codes::CodesBuilder;
use crate::error::Result;
use etalon_kernel::matching_pursuit::sum_choices;
use etalon_kernel::packed::{Panels, TILE_ROWS};
use etalon_kernel::vector::RowView;

/// Rows that are multiplied with all panels together.
pub(super) const GROUP: usize = 8 * TILE_ROWS;

/// Appends the codes of `rows` rows. `prepare` writes a row as the encoder reads it; `decoder` has one direction per
/// latent.
pub(super) fn encode(
    pursuit: MatchingPursuit,
    encoder: &Panels,
    decoder: &[f32],
    rows: usize,
    prepare: impl Fn(usize, &mut [f32]),
    out: &mut CodesBuilder,
) -> Result<()> {
    let width = encoder.inner();
    let mut input = vec![0.0; GROUP.min(rows.next_multiple_of(TILE_ROWS)) * width];
    let mut choices = vec![Vec::new(); input.len() / width];
    let (mut latents, mut values) = (Vec::new(), Vec::new());
    for first in (0..rows).step_by(GROUP) {
        let rows = GROUP.min(rows - first);
        for (row, into) in input.chunks_exact_mut(width).take(rows).enumerate() {
            prepare(first + row, into);
        }
        pursuit.run(encoder.columns(), encoder, RowView::new(decoder, width), &mut input, &mut choices[..rows]);
        for row in &mut choices[..rows] {
            sum_choices(row);
            latents.clear();
            values.clear();
            latents.extend(row.iter().map(|entry| entry.1));
            values.extend(row.iter().map(|entry| entry.0));
            out.push(&latents, &values)?;
        }
    }
    Ok(())
}
