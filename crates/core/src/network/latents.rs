//! Patches of latents: the codes that a dictionary gives to the rows of a site are changed, and the rows follow.

use super::site::SiteId;
use super::state::Layout;
use super::tap::Tap;
use crate::codes::{CodesBuilder, Latent};
use crate::context::Budget;
use crate::error::{InputError, Result};
use crate::sae::Dictionary;
use crate::store::ActivationStore;

/// What happens to the code of a latent.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LatentEdit {
    /// It becomes this number, also where the latent does not fire.
    Set(f32),
    /// This number is added to it, also where the latent does not fire.
    Add(f32),
    /// It is multiplied; 0 ablates the latent.
    Scale(f32),
    /// It becomes this number where it is positive.
    SetPositive(f32),
}

impl LatentEdit {
    fn apply(self, code: f32) -> f32 {
        match self {
            LatentEdit::Set(value) => value,
            LatentEdit::Add(value) => code + value,
            LatentEdit::Scale(by) => code * by,
            LatentEdit::SetPositive(value) => {
                if code > 0.0 {
                    value
                } else {
                    code
                }
            }
        }
    }
}

/// Changes latents of a dictionary at a site. What the dictionary does not reconstruct stays: a row changes by the difference of
/// the reconstructions after and before the edits, and by nothing if no code changes.
pub struct LatentPatch<'a> {
    site: SiteId,
    dictionary: &'a dyn Dictionary,
    edits: Vec<(Latent, LatentEdit)>,
    first: usize,
    budget: Budget,
}

impl<'a> LatentPatch<'a> {
    /// Applies edits in order. Refuses latents that the dictionary does not have, and dictionaries that write another site than
    /// they read.
    pub fn new(
        site: SiteId,
        dictionary: &'a dyn Dictionary,
        edits: Vec<(Latent, LatentEdit)>,
        budget: &Budget,
    ) -> Result<LatentPatch<'a>> {
        let card = dictionary.card();
        if let Some((latent, _)) = edits.iter().find(|(latent, _)| latent.0 as usize >= card.latents) {
            return Err(InputError::new("the dictionary has no such latent")
                .expected(format!("less than {}", card.latents))
                .found(latent.0)
                .into());
        }
        if card.output.is_some() {
            return Err(InputError::new("latents of a transcoder cannot be patched at the site that it reads")
                .expected("a dictionary that reconstructs what it reads")
                .into());
        }
        Ok(LatentPatch { site, dictionary, edits, first: 0, budget: budget.clone() })
    }

    /// Leaves the rows of every sample before this one as they are.
    #[must_use]
    pub fn starting_at(mut self, first: usize) -> LatentPatch<'a> {
        self.first = first;
        self
    }

    /// The codes of a row after the edits, by latent.
    fn edited(&self, latents: &[u32], values: &[f32]) -> Vec<(u32, f32)> {
        let mut codes: Vec<(u32, f32)> = latents.iter().copied().zip(values.iter().copied()).collect();
        for (latent, edit) in &self.edits {
            match codes.binary_search_by_key(&latent.0, |(latent, _)| *latent) {
                Ok(at) => codes[at].1 = edit.apply(codes[at].1),
                Err(at) => codes.insert(at, (latent.0, edit.apply(0.0))),
            }
        }
        codes.retain(|(_, value)| *value != 0.0);
        codes
    }
}

impl Tap for LatentPatch<'_> {
    fn wants(&self, site: SiteId) -> bool {
        site == self.site
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        let (width, latents) = (layout.width, self.dictionary.card().latents);
        let store = ActivationStore::from_rows(rows.to_vec(), width)?;
        let tile = store.tile(0..store.rows())?;
        let mut before = CodesBuilder::within(latents, &self.budget);
        self.dictionary.encode(&tile, &mut before)?;
        let before = before.finish();
        let mut after = CodesBuilder::within(latents, &self.budget);
        let mut changed = Vec::with_capacity(before.rows());
        for (index, (_, latents, values)) in before.all()?.iter().enumerate() {
            if index % layout.rows.max(1) < self.first {
                after.push(latents, values)?;
                changed.push(false);
                continue;
            }
            let (latents_after, values_after): (Vec<u32>, Vec<f32>) = self.edited(latents, values).into_iter().unzip();
            after.push(&latents_after, &values_after)?;
            changed.push(latents_after != latents || values_after != values);
        }
        let after = after.finish();
        let (mut old, mut new) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
        self.dictionary.decode(&before.all()?, Some(&tile), &mut old)?;
        self.dictionary.decode(&after.all()?, Some(&tile), &mut new)?;
        let parts = old.chunks_exact(width).zip(new.chunks_exact(width)).zip(changed);
        for (row, ((old, new), changed)) in rows.chunks_exact_mut(width).zip(parts) {
            if changed {
                row.iter_mut().zip(old.iter().zip(new)).for_each(|(value, (old, new))| *value += new - old);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sae::{Activation, Linear, Normalisation, Parts};

    /// Two latents that read the two values of a row, with directions (2, 0) and (0, 3).
    fn dictionary() -> Linear {
        Linear::new(Parts {
            arch: "relu".into(),
            encoder: vec![1.0, 0.0, 0.0, 1.0],
            encoder_bias: vec![0.0; 2],
            decoder: vec![2.0, 0.0, 0.0, 3.0],
            bias: vec![0.0; 2],
            subtract_bias: false,
            input: Normalisation::default(),
            activation: Activation::Relu,
        })
        .unwrap()
    }

    #[test]
    fn rows_change_by_the_change_of_their_codes() {
        let dictionary = dictionary();
        let layout = Layout { samples: 1, rows: 3, width: 2, grid: None };
        let start = [1.0, -1.0, 4.0, 5.0, -2.0, -2.0];
        let run = |edits: &[(u32, LatentEdit)]| {
            let edits = edits.iter().map(|(latent, edit)| (Latent(*latent), *edit)).collect();
            let mut patch = LatentPatch::new(SiteId(0), &dictionary, edits, &Budget::new(1 << 20)).unwrap();
            let mut rows = start;
            patch.visit(SiteId(0), layout, &mut rows).unwrap();
            rows
        };
        // Codes: (1, 0), (4, 5), (0, 0).
        assert_eq!(run(&[]), start);
        // Without latent 0 a row loses code · 2 of its first value; the third row has no such code.
        assert_eq!(run(&[(0, LatentEdit::Scale(0.0))]), [-1.0, -1.0, -4.0, 5.0, -2.0, -2.0]);
        // Latent 1 becomes 1 everywhere: from 0, 5 and 0.
        assert_eq!(run(&[(1, LatentEdit::Set(1.0))]), [1.0, 2.0, 4.0, -7.0, -2.0, 1.0]);
        assert_eq!(run(&[(1, LatentEdit::Add(2.0)), (1, LatentEdit::Scale(0.5))]), [1.0, 2.0, 4.0, 0.5, -2.0, 1.0]);
        // Latent 1 becomes −1 where it fires, which is in the second row.
        let clamped = [1.0, -1.0, 4.0, -13.0, -2.0, -2.0];
        assert_eq!(run(&[(1, LatentEdit::SetPositive(-1.0))]), clamped);
        let edits = || vec![(Latent(0), LatentEdit::Scale(0.0)), (Latent(1), LatentEdit::SetPositive(-1.0))];
        let mut patch =
            LatentPatch::new(SiteId(0), &dictionary, edits(), &Budget::new(1 << 20)).unwrap().starting_at(1);
        let mut rows = start;
        patch.visit(SiteId(0), layout, &mut rows).unwrap();
        assert_eq!(rows, [1.0, -1.0, -4.0, -13.0, -2.0, -2.0]);
        assert!(
            LatentPatch::new(SiteId(0), &dictionary, vec![(Latent(2), LatentEdit::Set(1.0))], &Budget::new(1)).is_err()
        );
    }
}
