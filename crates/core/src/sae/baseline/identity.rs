//! `identity`: the neurons themselves.

use super::{Baseline, Wish};
use crate::budget::Budget;
use crate::error::Result;
use crate::progress::Watch;
use crate::sae::arch::ArchCard;
use crate::sae::{Activation, Linear, Normalisation, Parts};
use crate::store::ActivationStore;

/// The neurons.
pub(super) struct Identity;

static CARD: ArchCard = ArchCard {
    name: "identity",
    summary: "the neurons: one latent per value of the row",
    forward: "f = x, negative values too; x̂ = f",
    loss: "none: nothing is trained",
    initialisation: "encoder and decoder are the identity, biases are 0",
    constraint: "none",
    defaults: "as many latents as the rows are wide; no options",
    presets: "no preset changes it",
    source: "common practice: a dictionary should be easier to read than what it was made from",
};

impl Baseline for Identity {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(&self, store: &ActivationStore, wish: &Wish<'_>, budget: &Budget, _: &Watch<'_>) -> Result<Linear> {
        let width = store.width();
        let same = wish.latents == Some(width);
        wish.refuse(CARD.name, !same, true, true)?;
        let bytes = (width as u64).saturating_mul(width as u64).saturating_mul(8);
        budget.take(bytes, format!("the identity of {width} neurons"))?.for_good();
        let mut identity = vec![0.0; width * width];
        identity.iter_mut().step_by(width + 1).for_each(|value| *value = 1.0);
        Linear::new(Parts {
            arch: CARD.name.into(),
            encoder: identity.clone(),
            encoder_bias: vec![0.0; width],
            decoder: identity,
            bias: vec![0.0; width],
            subtract_bias: false,
            input: Normalisation::None,
            activation: Activation::Signed,
        })
    }
}
