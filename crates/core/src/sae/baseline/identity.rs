//! `identity`: the neurons.

use super::{Baseline, BaselineParams, reserve};
use crate::context::Context;
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::card::ArchCard;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;

/// The baseline `identity`.
pub(super) struct Identity;

static CARD: ArchCard = ArchCard {
    name: "identity",
    summary: "The neurons: one latent per dimension of the row.",
    forward: "f = x, also negative values\n\
              x̂ = f",
    loss: "None: nothing is trained.",
    initialisation: "Encoder and decoder are the identity, biases are 0.",
    constraint: "None.",
    defaults: "As many latents as the width of the rows; no options.",
    params: &[],
    presets: "No preset changes it.",
    source: "Common practice: a dictionary should be easier to interpret than the neurons it was trained on",
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
