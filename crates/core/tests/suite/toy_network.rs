//! A tiny language model, for metrics that run one.

use std::ops::Range;
use std::sync::Arc;

use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::labels::EntitySet;
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

    fn run_kept(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<Kept> {
        self.run(stages.clone(), state, tap, context)?;
        Ok(Kept { stages, layout: state.layout, values: Vec::new(), memory: Vec::new() })
    }

    fn loss_gradient(&self, state: &State, targets: &[Option<u32>], _: &Context) -> Result<(Vec<f32>, Vec<f32>)> {
        let (mut gradient, mut losses) = (vec![0.0; state.values.len()], Vec::new());
        let share = 1.0 / targets.iter().flatten().count().max(1) as f32;
        for (row, target) in targets.iter().enumerate().filter_map(|(row, target)| Some((row, (*target)? as usize))) {
            let mut logits = [0.0; VOCABULARY];
            self.logits(state, row..row + 1, &mut logits)?;
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            losses.push(sum.ln() - logits[target]);
            for (token, logit) in logits.iter().enumerate() {
                let slope = share * (logit.exp() / sum - f32::from(u8::from(token == target)));
                let into = gradient[row * WIDTH..][..WIDTH].iter_mut().enumerate();
                into.for_each(|(i, into)| *into += slope * number(100 + token * WIDTH + i));
            }
        }
        Ok((gradient, losses))
    }

    fn backward(&self, kept: &Kept, gradient: &mut [f32], _: &Context) -> Result<()> {
        for _ in kept.stages.clone().filter(|stage| *stage == 1) {
            gradient.chunks_exact_mut(WIDTH).for_each(|row| {
                let mixed: Vec<f32> = (0..WIDTH).map(|i| row[i] + 0.5 * row[(i + WIDTH - 1) % WIDTH]).collect();
                row.copy_from_slice(&mixed);
            });
        }
        Ok(())
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

/// Four entities with two attributes of two templates each. The toy continues 1, 2, 3 and 4 with the next number, and leaves 0 out
/// of texts: all of its answers are right.
pub fn entities() -> EntitySet {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        (
            "entity_attributes",
            r#"{"1": {"A": "2", "B": "2 3"}, "2": {"A": "3", "B": "3 4"}, "3": {"A": "4", "B": "4"}, "4": {"A": "1", "B": "1 2"}}"#,
        ),
        ("attribute_to_prompts", r#"{"A": ["%s", "2 %s"], "B": ["3 %s", "1 %s"]}"#),
        ("entity_to_split", r#"{"1": "train", "2": "train", "3": "val", "4": "test"}"#),
        ("prompt_to_split", r#"{"%s": "train", "2 %s": "val", "3 %s": "train", "1 %s": "val"}"#),
    ];
    for (part, text) in files {
        std::fs::write(directory.path().join(format!("ravel_number_{part}.json")), text).unwrap();
    }
    EntitySet::read(directory.path(), &Budget::new(1 << 20)).unwrap()
}

/// Twenty sequences of four tokens; token 0 is special.
pub fn text_run() -> TextRun {
    let card = NetworkCard { width: WIDTH, layers: 1, context: 8, vocabulary: VOCABULARY, ..NetworkCard::new("toy") };
    let sites = vec![Site::new("blocks.0.hook_resid_post", WIDTH, RowKind::Token, 0)];
    let tokens = (0..80u32).map(|i| i * i % 7 % VOCABULARY as u32).collect();
    let tokenizer = Arc::new(NumberTokenizer { size: VOCABULARY, bos: Some(0) });
    TextRun { network: Arc::new(Toy { card, sites }), site: SiteId(0), tokenizer, tokens, length: 4, special: vec![0] }
}
