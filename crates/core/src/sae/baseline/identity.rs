//! `identity`: the neurons themselves.

use super::{Baseline, BaselineParams, reserve};
use crate::context::Context;
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::card::ArchCard;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;
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
    params: &[],
    presets: "no preset changes it",
    source: "common practice: a dictionary should be easier to read than what it was made from",
};

impl Baseline for Identity {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(
        &self,
        store: &ActivationStore,
        params: &BaselineParams<'_>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        let width = store.width();
        let same = params.latents == Some(width);
        params.refuse(CARD.name, !same, true, true)?;
        let memory = reserve(width, width, context)?;
        let mut identity = vec![0.0; width * width];
        identity.iter_mut().step_by(width + 1).for_each(|value| *value = 1.0);
        let dictionary = Linear::new(Parts {
            arch: CARD.name.into(),
            encoder: identity.clone(),
            encoder_bias: vec![0.0; width],
            decoder: identity,
            bias: vec![0.0; width],
            subtract_bias: false,
            input: Normalisation::None,
            activation: Activation::Signed,
        })?;
        Ok(Box::new(dictionary.holding(memory)))
    }
}
