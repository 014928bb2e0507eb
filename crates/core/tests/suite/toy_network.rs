//! A tiny language model, for metrics that run one.

use std::ops::Range;
use std::sync::Arc;

use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::labels::EntitySet;
use etalon::network::{
    Batch, Generation, Kept, LanguageModel, LastNorm, Layout, Message, Network, NetworkCard, RowKind, SentenceEncoder,
    Site, SiteId, State, Tap, TextRun, Tokenize,
};
use etalon::run::{ChoiceQuestion, ChoiceQuestions, TextList};

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

    fn last_norm(&self) -> LastNorm {
        LastNorm { weight: (0..WIDTH).map(|i| 1.0 + i as f32).collect(), centres: false }
    }

    fn written(&self, _: SiteId, vectors: &[f32], _: bool) -> Result<Option<Vec<f32>>> {
        Ok(Some(vectors.to_vec()))
    }
}

/// Every word is one of four tokens: the numbers 1 to 4, the letters A to D, and other words by their bytes. Token 0 begins a
/// text.
struct WordTokenizer;

impl Tokenize for WordTokenizer {
    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let token = |word: &str| match word {
            "A" | "B" | "C" | "D" => u32::from(word.as_bytes()[0] - b'A') + 1,
            "1" | "2" | "3" | "4" => u32::from(word.as_bytes()[0] - b'0'),
            word => word.bytes().fold(7u32, |sum, byte| sum * 31 % 1009 + u32::from(byte)) % 4 + 1,
        };
        Ok(special.then_some(0).into_iter().chain(text.split_whitespace().map(token)).collect())
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        Ok(tokens.iter().filter(|token| **token != 0).map(|token| format!(" {token}")).collect())
    }

    fn token_text(&self, token: u32) -> Result<String> {
        Ok(format!(" {token}"))
    }

    fn bos(&self) -> Option<u32> {
        Some(0)
    }

    fn eos(&self) -> Option<u32> {
        None
    }

    fn pad(&self) -> Option<u32> {
        None
    }

    fn is_special(&self, token: u32) -> bool {
        token == 0
    }

    fn size(&self) -> usize {
        VOCABULARY
    }

    fn chat(&self, _: &[Message]) -> Result<Option<String>> {
        Ok(None)
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
    let card = NetworkCard { width: WIDTH, layers: 1, context: 64, vocabulary: VOCABULARY, ..NetworkCard::new("toy") };
    let sites = vec![Site::new("blocks.0.hook_resid_post", WIDTH, RowKind::Token, 0)];
    let tokens = (0..80u32).map(|i| i * i % 7 % VOCABULARY as u32).collect();
    let (network, tokenizer) = (Arc::new(Toy { card, sites }), Arc::new(WordTokenizer));
    TextRun { network, site: SiteId(0), tokenizer, tokens, length: 4, special: vec![0] }
}

/// Texts of a few words.
pub fn texts(step: usize) -> TextList {
    let text = |number: usize| (0..30).map(|word| format!("w{} ", (number + word) * step % 17)).collect();
    TextList::new((0..8).map(text).collect(), &Budget::new(1 << 24)).unwrap()
}

/// Questions whose right choices are arbitrary.
pub fn questions(step: usize) -> ChoiceQuestions {
    let question = |number: usize| ChoiceQuestion {
        subject: format!("s{step}"),
        question: format!("q{} q{}", number * step, number),
        choices: (0..4).map(|choice| format!("c{}", number * choice * step)).collect(),
        answer: number * step % 4,
    };
    ChoiceQuestions { questions: (0..12).map(question).collect() }
}

/// An encoder that counts letters.
struct LetterEncoder;

impl SentenceEncoder for LetterEncoder {
    fn id(&self) -> String {
        "letters".into()
    }

    fn embed(&self, text: &str, _: &Context) -> Result<Vec<f32>> {
        let mut counts = [1.0f32; 5];
        text.bytes().for_each(|byte| counts[byte as usize % 5] += 1.0);
        let length = counts.iter().map(|count| count * count).sum::<f32>().sqrt();
        Ok(counts.iter().map(|count| count / length).collect())
    }
}

/// An encoder that counts letters.
pub fn encoder() -> Arc<dyn SentenceEncoder> {
    Arc::new(LetterEncoder)
}
