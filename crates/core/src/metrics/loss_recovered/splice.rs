//! A tap that replaces activations by a dictionary's reconstructions.

use crate::codes::CodesBuilder;
use crate::context::Context;
use crate::error::Result;
use crate::network::{Layout, SiteId, Tap};
use crate::sae::Dictionary;
use crate::store::ActivationStore;

/// Replaces the rows of a site by their reconstructions.
pub(super) struct Splice<'a> {
    pub site: SiteId,
    pub dictionary: &'a dyn Dictionary,
    /// Rows that stay as they are.
    pub kept: &'a [bool],
    pub context: &'a Context,
}

impl Tap for Splice<'_> {
    fn wants(&self, site: SiteId) -> bool {
        site == self.site
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        let width = layout.width;
        let store = ActivationStore::from_rows(rows.to_vec(), width)?;
        let tile = store.tile(0..store.rows())?;
        let mut codes = CodesBuilder::within(self.dictionary.card().latents, self.context.budget());
        self.dictionary.encode(&tile, &mut codes)?;
        let codes = codes.finish();
        let mut decoded = vec![0.0; rows.len()];
        self.dictionary.decode(&codes.view(0..codes.rows())?, Some(&tile), &mut decoded)?;
        for ((row, decoded), kept) in rows.chunks_exact_mut(width).zip(decoded.chunks_exact(width)).zip(self.kept) {
            if !kept {
                row.copy_from_slice(decoded);
            }
        }
        Ok(())
    }
}
