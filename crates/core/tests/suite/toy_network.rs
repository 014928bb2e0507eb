//! A tiny language model, for metrics that run one.

use std::ops::Range;
use std::sync::Arc;

use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::network::{
    Batch, Generation, Kept, LanguageModel, Layout, Network, NetworkCard, NumberTokenizer, RowKind, Site, SiteId,
    State, Tap, TextRun,
};

const WIDTH: usize = 6;
const VOCABULARY: usize = 5;

/// Embeddings, a stage that changes nothing and has the site, a stage that mixes values, a linear head.
struct Toy {
    card: NetworkCard,
    sites: Vec<Site>,
}

fn number(index: usize) -> f32 {
    (index * 7919 % 101) as f32 / 50.0 - 1.0
}

impl Network for Toy {
    fn card(&self) -> &NetworkCard {
        &self.card
    }

    fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn stages(&self) -> usize {
        2
    }

    fn begin(&self, batch: &Batch<'_>, context: &Context) -> Result<State> {
        let Batch::Tokens { tokens, length } = *batch else { return Err(Error::Bug("images".into())) };
        let values = tokens.iter().flat_map(|token| (0..WIDTH).map(move |i| number(*token as usize * WIDTH + i)));
        let layout = Layout { samples: tokens.len() / length, rows: length, width: WIDTH, grid: None };
        State::new(values.collect(), layout, 0, context)
    }

    fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, _: &Context) -> Result<()> {
        for stage in stages {
            match stage {
                0 if tap.wants(SiteId(0)) => tap.visit(SiteId(0), state.layout, &mut state.values)?,
                0 => {}
                _ => state.values.chunks_exact_mut(WIDTH).for_each(|row| {
                    let mixed: Vec<f32> = (0..WIDTH).map(|i| row[i] + 0.5 * row[(i + 1) % WIDTH]).collect();
                    row.copy_from_slice(&mixed);
                }),
            }
        }
        Ok(())
    }
}

impl LanguageModel for Toy {
    fn logits(&self, state: &State, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        for (row, out) in rows.zip(out.chunks_exact_mut(VOCABULARY)) {
            let values = &state.values[row * WIDTH..][..WIDTH];
            for (token, logit) in out.iter_mut().enumerate() {
                *logit = values.iter().enumerate().map(|(i, value)| value * number(100 + token * WIDTH + i)).sum();
            }
        }
        Ok(())
    }

    fn run_kept(&self, _: Range<usize>, _: &mut State, _: &mut dyn Tap, _: &Context) -> Result<Kept> {
        Err(Error::Bug("the toy has no gradients".into()))
    }

    fn loss_gradient(&self, _: &State, _: &[Option<u32>], _: &Context) -> Result<(Vec<f32>, Vec<f32>)> {
        Err(Error::Bug("the toy has no gradients".into()))
    }

    fn backward(&self, _: &Kept, _: &mut [f32], _: &Context) -> Result<()> {
        Err(Error::Bug("the toy has no gradients".into()))
    }

    fn generate(
        &self,
        prompt: &[u32],
        settings: &Generation,
        tap: &mut dyn Tap,
        context: &Context,
    ) -> Result<Vec<u32>> {
        let mut tokens = prompt.to_vec();
        for _ in 0..settings.tokens {
            let mut state = self.begin(&Batch::Tokens { tokens: &tokens, length: tokens.len() }, context)?;
            self.run(0..2, &mut state, tap, context)?;
            let mut logits = [0.0; VOCABULARY];
            self.logits(&state, tokens.len() - 1..tokens.len(), &mut logits)?;
            let best = (0..VOCABULARY).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)));
            tokens.push(best.unwrap_or(0) as u32);
        }
        Ok(tokens.split_off(prompt.len()))
    }

    fn unembedding(&self, token: u32, out: &mut [f32]) -> Result<()> {
        out.iter_mut().enumerate().for_each(|(i, value)| *value = number(100 + token as usize * WIDTH + i));
        Ok(())
    }
}

/// Twenty sequences of four tokens; token 0 is special.
pub fn text_run() -> TextRun {
    let card = NetworkCard { width: WIDTH, layers: 1, context: 8, vocabulary: VOCABULARY, ..NetworkCard::new("toy") };
    let sites = vec![Site::new("blocks.0.hook_resid_post", WIDTH, RowKind::Token, 0)];
    let tokens = (0..80u32).map(|i| i * i % 7 % VOCABULARY as u32).collect();
    let tokenizer = Arc::new(NumberTokenizer { size: VOCABULARY, bos: Some(0) });
    TextRun { network: Arc::new(Toy { card, sites }), site: SiteId(0), tokenizer, tokens, length: 4, special: vec![0] }
}
