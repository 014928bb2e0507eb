//! Captures texts: tokens in sequences, sequences in batches of the same length.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

use etalon::context::Monitor;
use etalon::error::{InputError, Key, Result};
use etalon::network::{Batch, Capture};

use super::parts::Parts;
use super::records::Records;
use super::request::{RowChoice, Separator};
use super::{Run, Summary, rows};
use crate::data::{Content, FIRST_LETTERS, Input, Words};
use crate::text::{Pack, Packing, Remainder, Row, RowLayout, Special, Tokenizer, TooLong};
use crate::tokenizer_of::open_tokenizer;

/// Sequences per part.
const PART: usize = 64;

/// Tokens that are run at a time.
pub(super) const BATCH: usize = 2048;

/// A text whose tokens are not all captured yet.
struct Open {
    number: u32,
    id: String,
    text: String,
    words: Option<Words>,
    marked: Option<Range<usize>>,
    tokens: Vec<u32>,
}

/// What is known about the rows of sequences before the network runs.
struct NotedRows {
    /// The sample of every stored row, in order.
    samples: Vec<u32>,
    /// The row of the marked word of every sequence, if only those are stored.
    marked: Vec<Option<usize>>,
}

pub(super) fn run(
    run: &Run<'_>,
    parts: &Parts,
    model: &Path,
    (input, items): (&mut Input, u64),
    records: &mut Records,
) -> Result<Summary> {
    let tokenizer = open_tokenizer(model, run.context.budget())?;
    tokenizer.check_vocabulary(run.network.card().vocabulary)?;
    let packing = packing(run, &tokenizer)?;
    let context = packing.context;
    let shared = RefCell::new((input, records, VecDeque::<Open>::new()));
    let texts = std::iter::from_fn(|| next_text(&mut shared.borrow_mut()).transpose());
    let mut sequences = Pack::new(&tokenizer, packing, texts)?;
    let (mut summary, mut part) = (Summary::default(), 0);
    let _memory = run.reserve_part(if run.by_token() { PART * context } else { PART })?;
    let (mut all_tokens, mut same_length, mut done_tokens) = (Vec::new(), true, 0);
    loop {
        run.context.check()?;
        let batch = sequences.by_ref().take(PART).collect::<Result<Vec<Row>>>()?;
        if batch.is_empty() {
            break;
        }
        let NotedRows { samples, marked } = note_tokens(run, &batch, &mut shared.borrow_mut())?;
        summary.rows += samples.len() as u64;
        // Sequences of different lengths are no array.
        same_length &= batch.iter().all(|row| row.ids.len() == context);
        if same_length {
            batch.iter().for_each(|row| all_tokens.extend_from_slice(&row.ids));
        }
        let tokens = batch.iter().map(|row| row.ids.len() as u64).sum::<u64>();
        if parts.rows(part) != Some(samples.len()) {
            parts.write(part, &samples, &activations(run, &batch, &marked, &|count| run.context.advance(count))?)?;
        } else {
            run.context.advance(tokens);
        }
        part += 1;
        done_tokens += tokens;
        // From the share of the texts that were read.
        let read = shared.borrow().0.position().max(1);
        run.context.estimate((done_tokens as f64 * items as f64 / read as f64) as u64);
        let done = batch.last().and_then(|row| row.texts.last()).copied().unwrap_or(0) as u32;
        write_lines(run, &tokenizer, &mut shared.borrow_mut(), Some(done))?;
    }
    let mut shared = shared.borrow_mut();
    write_lines(run, &tokenizer, &mut shared, None)?;
    summary.samples = u64::from(shared.1.count());
    if same_length && !all_tokens.is_empty() {
        shared.1.tokens(&all_tokens, context)?;
    }
    if summary.rows == 0 {
        return Err(InputError::new("the input has no texts to capture")
            .expected("at least one text with tokens")
            .into());
    }
    Ok(summary)
}

type Shared<'a> = (&'a mut Input, &'a mut Records, VecDeque<Open>);

/// The next text of the input, with its number.
fn next_text(shared: &mut Shared<'_>) -> Result<Option<(u64, String)>> {
    while let Some(sample) = shared.0.next()? {
        let Content::Text(text) = &sample.content else {
            shared.0.reject(&sample, "not a text");
            continue;
        };
        let number = shared.1.sample(&sample)?;
        let text = text.clone();
        let (id, words, marked) = (sample.id, sample.words, sample.marked);
        shared.2.push_back(Open { number, id, text: text.clone(), words, marked, tokens: Vec::new() });
        return Ok(Some((u64::from(number), text)));
    }
    Ok(None)
}

/// How texts become sequences.
pub(super) fn packing(run: &Run<'_>, tokenizer: &Tokenizer) -> Result<Packing> {
    let limit = run.network.card().context;
    let context = run.settings.context;
    if context > limit {
        return Err(InputError::new("the sequences are longer than the context of the network")
            .expected(format!("at most {limit} tokens"))
            .found(format!("{context} tokens"))
            .into());
    }
    let start = run.settings.bos.unwrap_or_else(|| tokenizer.adds_bos());
    if run.settings.packed {
        let separator = match run.settings.separator {
            Separator::Bos => tokenizer.bos(),
            Separator::None => None,
            Separator::Eos => Some(tokenizer.eos().ok_or_else(|| {
                InputError::new("the tokenizer has no end-of-text token").advice(format!(
                    "use {} or {}",
                    Key("separator bos"),
                    Key("separator none")
                ))
            })?),
        };
        let layout = RowLayout::Packed { separator };
        return Ok(Packing { layout, ..Packing::saelens(tokenizer, context, start) });
    }
    Ok(Packing {
        context,
        layout: RowLayout::OneText { too_long: TooLong::Cut },
        special: Special::Add,
        row_start: tokenizer.bos().filter(|_| start),
        text_start: None,
        remainder: Remainder::Keep,
    })
}

/// Whether the row of a token may be stored.
fn is_kept(run: &Run<'_>, sequence: &Row, row: usize) -> bool {
    row < sequence.length && (run.settings.keep_special || !sequence.special[row])
}

/// The sample of every stored row, in order; adds stored tokens to their texts, and their labels.
fn note_tokens(run: &Run<'_>, sequences: &[Row], shared: &mut Shared<'_>) -> Result<NotedRows> {
    let (_, records, open) = shared;
    let (mut samples, mut marked) = (Vec::new(), Vec::new());
    for sequence in sequences {
        let kept: Vec<usize> = (0..sequence.ids.len()).filter(|row| is_kept(run, sequence, *row)).collect();
        if run.by_token() {
            for &row in &kept {
                let text = sequence.texts[row] as u32;
                samples.push(text);
                let mut open = open.iter_mut().find(|open| open.number == text);
                if let Some(open) = &mut open {
                    open.tokens.push(sequence.ids[row]);
                }
                let words = open.as_ref().and_then(|open| open.words.as_ref());
                records.token(words, sequence.spans[row], run.context.budget())?;
            }
        } else {
            samples.extend(kept.first().map(|row| sequence.texts[*row] as u32));
        }
        if run.settings.rows == RowChoice::Word {
            let row = (!kept.is_empty()).then(|| marked_row(sequence, &kept, open));
            marked.push(row.transpose()?);
        }
    }
    Ok(NotedRows { samples, marked })
}

/// The last token of the word that the text of a sequence is about.
fn marked_row(sequence: &Row, kept: &[usize], open: &VecDeque<Open>) -> Result<usize> {
    let number = kept.first().map_or(0, |row| sequence.texts[*row] as u32);
    let text = open.iter().find(|open| open.number == number);
    let Some((text, marked)) = text.and_then(|text| Some((text, text.marked.as_ref()?))) else {
        return Err(InputError::new("the texts mark no words")
            .expected(format!("an input that marks a word of every text, such as `{FIRST_LETTERS}`"))
            .advice(format!("choose other rows than {}", Key("rows word")))
            .into());
    };
    let found = kept.iter().rev().find(|row| sequence.spans[**row].overlaps(marked)).copied();
    found.ok_or_else(|| {
        InputError::new("the marked word of a text is behind the end of its sequence")
            .found(format!("{} tokens without the word of the text `{}`", sequence.ids.len(), text.id))
            .advice(format!("raise {}, or use shorter prompts ({})", Key("context"), Key("examples")))
            .into()
    })
}

/// Runs the network on sequences and tells how many tokens are done; returns the stored rows of every site.
/// `marked` are the rows of marked words, if only those are stored.
pub(super) fn activations(
    run: &Run<'_>,
    sequences: &[Row],
    marked: &[Option<usize>],
    done: &dyn Fn(u64),
) -> Result<Vec<Vec<f32>>> {
    // By sequence and site: sequences of the same length are run together, but stored in their order.
    let mut found: Vec<Vec<Vec<f32>>> = vec![Vec::new(); sequences.len()];
    let mut lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.ids.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for length in lengths {
        let same: Vec<usize> = (0..sequences.len()).filter(|index| sequences[*index].ids.len() == length).collect();
        for group in same.chunks((BATCH / length).max(1)) {
            run.context.check()?;
            let tokens: Vec<u32> = group.iter().flat_map(|index| &sequences[*index].ids).copied().collect();
            let mut capture = Capture::new(run.sites);
            run.context.install(|| {
                let mut state = run.network.begin(&Batch::Tokens { tokens: &tokens, length }, run.context)?;
                run.network.run(0..run.stages(), &mut state, &mut capture, run.context)
            })?;
            for site in run.sites {
                let Some((layout, values)) = capture.of(*site) else { continue };
                for (index, rows) in group.iter().zip(values.chunks_exact(layout.rows * layout.width)) {
                    let mut stored = Vec::new();
                    // A site with one row per sample has no rows of special tokens.
                    let keep = |row: usize| match run.settings.rows {
                        _ if run.is_of_samples() => true,
                        RowChoice::Word => marked.get(*index) == Some(&Some(row)),
                        _ => is_kept(run, &sequences[*index], row),
                    };
                    rows::of_sample(rows, layout, run.settings.rows, &keep, &mut stored);
                    found[*index].push(stored);
                }
            }
            done(tokens.len() as u64);
        }
    }
    Ok((0..run.sites.len()).map(|site| found.iter().flat_map(|sites| &sites[site]).copied().collect()).collect())
}

/// Writes the lines of texts that are complete: all before number `before`, or all.
fn write_lines(run: &Run<'_>, tokenizer: &Tokenizer, shared: &mut Shared<'_>, before: Option<u32>) -> Result<()> {
    while shared.2.front().is_some_and(|open| before.is_none_or(|before| open.number < before)) {
        let Some(open) = shared.2.pop_front() else { break };
        let words = run
            .by_token()
            .then(|| open.tokens.iter().map(|token| tokenizer.token_text(*token)).collect::<Result<Vec<_>>>())
            .transpose()?;
        shared.1.text(open.number, &open.id, &open.text, words)?;
    }
    Ok(())
}
