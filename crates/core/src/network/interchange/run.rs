//! Runs a network with exchanged activations, and trains what is exchanged.

use rayon::prelude::*;

use super::{EncodedRow, Gates};
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::network::{Batch, LanguageModel, Layout, SiteId, State, Tap, Untouched};

/// A base text, what is exchanged in it, and the token that should follow it then.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The tokens of the base.
    pub tokens: &'a [u32],
    /// The residual stream of the base at the site, a row per token: see [`Interchange::stream`].
    pub stream: &'a [f32],
    /// The token whose activation is exchanged.
    pub position: usize,
    /// The token that should follow.
    pub target: u32,
    /// The activation of the base there.
    pub base: &'a EncodedRow,
    /// The activation of the source at its own position.
    pub source: &'a EncodedRow,
}

/// A network that is cut at a site of its residual stream.
pub struct Interchange<'a> {
    network: &'a dyn LanguageModel,
    /// The first stage behind the site.
    stage: usize,
    context: &'a Context,
}

impl<'a> Interchange<'a> {
    /// Cuts a network. Refuses sites that are not the residual stream between blocks: gradients are known there only.
    pub fn new(network: &'a dyn LanguageModel, site: SiteId, context: &'a Context) -> Result<Interchange<'a>> {
        let site = network.sites().get(site.0 as usize).ok_or_else(|| Error::Bug("the site of a text run".into()))?;
        let stage = match site.name.rsplit('.').next() {
            Some("hook_resid_post") => site.stage + 1,
            Some("hook_resid_pre") => site.stage,
            _ => {
                return Err(InputError::new("activations can be exchanged in the residual stream between blocks only")
                    .expected("a site such as `blocks.7.hook_resid_post`")
                    .found(format!("`{}`", site.name))
                    .into());
            }
        };
        Ok(Interchange { network, stage, context })
    }

    /// The residual stream of a text at the site: a row per token.
    pub fn stream(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut state = self.begin(tokens)?;
        self.network.run(0..self.stage, &mut state, &mut Untouched, self.context)?;
        Ok(state.values)
    }

    fn begin(&self, tokens: &[u32]) -> Result<State> {
        self.network.begin(&Batch::Tokens { tokens, length: tokens.len() }, self.context)
    }

    /// The loss of the target after an exchange, and its gradient with respect to the row that was put in.
    pub fn slope(&self, exchange: &Exchange<'_>, row: &[f32]) -> Result<(f64, Vec<f32>)> {
        let (network, width) = (self.network, row.len());
        let mut state = self.begin(exchange.tokens)?;
        state.values.copy_from_slice(exchange.stream);
        let changed = exchange.position * width..(exchange.position + 1) * width;
        state.values[changed.clone()].copy_from_slice(row);
        let kept = network.run_kept(self.stage..network.stages(), &mut state, &mut Untouched, self.context)?;
        // Only the last token has a target: the others need no logits.
        let last = state.values.len() - state.layout.width;
        let layout = Layout { samples: 1, rows: 1, ..state.layout };
        let end = State::new(state.values[last..].to_vec(), layout, 0, self.context)?;
        let (at_end, losses) = network.loss_gradient(&end, &[Some(exchange.target)], self.context)?;
        let mut gradient = vec![0.0; state.values.len()];
        gradient[last..].copy_from_slice(&at_end);
        network.backward(&kept, &mut gradient, self.context)?;
        let loss = losses.first().copied().ok_or_else(|| Error::Bug("a target without a loss".into()))?;
        Ok((f64::from(loss), gradient[changed].to_vec()))
    }

    /// The mean loss of a batch at a temperature, and its gradient with respect to the parameters of the gates.
    pub fn gradient(&self, gates: &dyn Gates, batch: &[Exchange<'_>], temperature: f64) -> Result<(f64, Vec<f64>)> {
        let slope = |exchange: &Exchange<'_>| {
            let row = gates.mix(exchange.base, exchange.source, Some(temperature))?;
            self.slope(exchange, &row)
        };
        let slopes: Vec<(f64, Vec<f32>)> = batch.par_iter().map(slope).collect::<Result<_>>()?;
        let share = 1.0 / batch.len().max(1) as f64;
        let mut gradient = vec![0.0; gates.parameters()];
        let mut mean = 0.0;
        for (Exchange { base, source, .. }, (loss, slope)) in batch.iter().zip(&slopes) {
            mean += share * loss;
            gates.add_gradient((base, source), temperature, slope, share, &mut gradient);
        }
        Ok((mean, gradient))
    }

    /// One training step on a batch; returns the mean loss before it.
    pub fn step(
        &self,
        gates: &mut dyn Gates,
        batch: &[Exchange<'_>],
        temperature: f64,
        learning_rate: f64,
    ) -> Result<f64> {
        let (loss, gradient) = self.gradient(gates, batch, temperature)?;
        gates.update(&gradient, learning_rate, self.context)?;
        Ok(loss)
    }
}

/// Replaces one row the first time that a site is visited: in the prompt, and not in the tokens that are generated after it.
pub struct ReplaceOnce {
    site: SiteId,
    position: usize,
    row: Option<Vec<f32>>,
}

impl ReplaceOnce {
    /// Puts a row at a position of a site.
    pub fn new(site: SiteId, position: usize, row: Vec<f32>) -> ReplaceOnce {
        ReplaceOnce { site, position, row: Some(row) }
    }
}

impl Tap for ReplaceOnce {
    fn wants(&self, site: SiteId) -> bool {
        site == self.site && self.row.is_some()
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        if let Some(row) = self.row.take() {
            let into = rows.chunks_exact_mut(layout.width).nth(self.position);
            let into = into.filter(|into| into.len() == row.len());
            into.ok_or_else(|| Error::Bug("a row to replace is outside of the prompt".into()))?.copy_from_slice(&row);
        }
        Ok(())
    }
}
