//! Writes `samples.jsonl` and `images/` for the explorer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::arrangement::{Arrangement, PatchGrid};
use super::ranking::{Chosen, Rank};
use super::tables::{REAL, boxes, described, empty};
use crate::codes::Codes;
use crate::context::Budget;
use crate::error::{Error, InputError, Result};
use crate::input::{Firing, LONGEST_SAMPLE, Sample, read_picture};
use crate::labels::{Annotations, Concept, Label};
use crate::load::{Tokens, TokensOfSets};
use crate::run::{CODES, GENERATED, Inputs, LABELS};
use crate::store::disk;

/// The maximum number of values per token that a sample stores: 64 latents on 16 × 16 patches.
const MAX_VALUES: usize = 1 << 14;

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct SampleSettings<'a> {
    /// A table with columns `image` (a path relative to the table), `text`, `words`, `caption`, `id`; `row`, unless
    /// lines are rows in order; `set`, the name of the generator, unless it is a real row; `grid`, the patches of the image.
    pub rows: Option<&'a Path>,
    /// A table with columns `row`, `concept`, and `x`, `y`, `width`, `height` as fractions of the image.
    pub boxes: Option<&'a Path>,
    /// The grid of the patches of all images, instead of those of the table, or of a square.
    pub grid: Option<PatchGrid>,
    /// The maximum number of rows to write, of real rows and of each generator.
    pub most: usize,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenSamples {
    /// Number of lines of `samples.jsonl`.
    pub samples: usize,
    /// Number of distinct images.
    pub images: usize,
    /// Number of activations with a value for every patch or word.
    pub maps: usize,
    /// Number of samples with an image or text whose token positions are unknown.
    pub unplaced: usize,
}

/// The real rows, or the rows of a generator.
struct Side<'a> {
    /// Its name in tables: empty for the real rows.
    key: String,
    /// Its name in samples: `None` if there are only real rows.
    set: Option<String>,
    codes: &'a Codes,
    tokens: Option<&'a Tokens>,
}

/// Writes `samples.jsonl` and `images/` to a directory. `tokens` are the tokens that were pooled to the rows of the
/// inputs.
pub fn write_samples(
    inputs: &Inputs,
    tokens: &TokensOfSets,
    settings: &SampleSettings<'_>,
    out: &Path,
    budget: &Budget,
) -> Result<WrittenSamples> {
    let codes = inputs.get(&CODES)?;
    let generated: Vec<_> = inputs.all(&GENERATED).collect();
    let names: Vec<&str> = generated.iter().map(|(name, _)| *name).collect();
    let described =
        settings.rows.map(|path| described(path, codes.rows(), &names, budget)).transpose()?.unwrap_or_default();
    let boxes = settings.boxes.map(|path| boxes(path, codes.rows(), budget)).transpose()?.unwrap_or_default();
    let real = (!names.is_empty()).then(|| REAL.to_string());
    let mut sides = vec![Side { key: String::new(), set: real, codes, tokens: tokens.real.as_ref() }];
    for (index, (name, model)) in generated.iter().enumerate() {
        let (key, set) = (name.to_string(), Some(name.to_string()));
        sides.push(Side { key, set, codes: &model.codes, tokens: tokens.models.get(index) });
    }
    // If there are described rows, only those are written: the others have nothing to show.
    let described_rows: BTreeSet<usize> = described.keys().map(|(_, row)| *row).collect();
    let sets: Vec<&Codes> = sides.iter().map(|side| side.codes).collect();
    let chosen = Chosen::of(&sets, settings.most, &described_rows)?;
    let (mut written, mut images) = (WrittenSamples::default(), BTreeSet::new());
    let mut file = disk::NewFile::create(&out.join("samples.jsonl"))?;
    for (side, ranks) in sides.iter().zip(chosen.ranks(&sets)?) {
        let token_rows = side.tokens.map_or_else(Vec::new, |tokens| tokens.of(&chosen.rows));
        for (index, &row) in chosen.rows.iter().enumerate() {
            let (mut sample, grid) = match described.get(&(side.key.clone(), row)).cloned() {
                Some(description) => (description.sample, description.grid),
                None => (empty(row), None),
            };
            if side.key.is_empty() {
                sample.boxes = boxes.get(&row).cloned().unwrap_or_default();
                if let Some(labels) = inputs.find(&LABELS) {
                    let with = |label| concepts_with(labels, row, label);
                    (sample.concepts, sample.unknown) = (Some(with(Label::Yes)), with(Label::Unknown));
                }
            } else if sample.id == row.to_string() {
                sample.id = format!("{} {row}", side.key);
            }
            sample.set.clone_from(&side.set);
            sample.activations = firings(side.codes, row, &ranks[index], chosen.all)?;
            if let (Some(tokens), Some(rows)) = (side.tokens, token_rows.get(index)) {
                match Arrangement::of(&sample, rows.len(), settings.grid.or(grid))? {
                    Some(arrangement) => {
                        written.maps += add_maps(&mut sample, &ranks[index], tokens, rows, arrangement)?;
                    }
                    None => written.unplaced += usize::from(sample.image.is_some() || sample.text.is_some()),
                }
            }
            if written.samples == 0 {
                sample.codes = Some(side.codes.id()?);
                sample.token_codes = side.tokens.map(|tokens| tokens.codes.id()).transpose()?;
            }
            if let (Some(image), Some(table)) = (&sample.image, settings.rows) {
                let (bytes, ending) = read_picture(&table.parent().unwrap_or(Path::new("")).join(image))?;
                let hash = blake3::hash(&bytes).to_hex().to_string();
                if images.insert(hash.clone()) {
                    disk::write(&out.join("images").join(format!("{hash}.{ending}")), &bytes)?;
                }
                sample.image = Some(hash);
            }
            let line = serde_json::to_string(&sample).map_err(|error| Error::Bug(format!("a sample: {error}")))?;
            if line.len() as u64 >= LONGEST_SAMPLE {
                return Err(InputError::new("a sample is too long for the explorer")
                    .expected(format!("fewer than {LONGEST_SAMPLE} bytes"))
                    .found(format!("{} bytes, {} active latents", line.len(), sample.activations.len()))
                    .at(format!("row {row}"))
                    .advice("use codes with fewer active latents")
                    .into());
            }
            file.write(format!("{line}\n").as_bytes())?;
            written.samples += 1;
        }
    }
    file.finish()?;
    written.images = images.len();
    Ok(written)
}

/// The active latents of a row, with their ranks unless all rows are written: then the explorer computes the ranks
/// itself.
fn firings(codes: &Codes, row: usize, ranks: &[Rank], all: bool) -> Result<Vec<Firing>> {
    let (latents, values) = codes.view(row..row + 1)?.row(0);
    let firing = |((&latent, value), rank): ((&u32, &f32), &Rank)| Firing {
        latent,
        // The shortest decimal that reads back as this `f32`.
        value: value.to_string().parse().unwrap_or(f64::from(*value)),
        above: (!all).then_some(rank.above),
        tokens: Vec::new(),
        grid: Vec::new(),
    };
    Ok(latents.iter().zip(values).zip(ranks).map(firing).collect())
}

/// Adds values per patch or word to the activations of a sample, and returns to how many. Only latents that show the
/// sample, or a counterpart of it, get them; if these are too many, those with the lowest display order.
fn add_maps(
    sample: &mut Sample,
    ranks: &[Rank],
    tokens: &Tokens,
    rows: &[usize],
    arrangement: Arrangement,
) -> Result<usize> {
    let rows = &rows[arrangement.first()..];
    let mut shown: Vec<(u16, u32)> =
        sample.activations.iter().zip(ranks).filter_map(|(firing, rank)| Some((rank.order?, firing.latent))).collect();
    shown.sort_unstable();
    shown.truncate(MAX_VALUES / rows.len().max(1));
    let mut latents: Vec<u32> = shown.into_iter().map(|(_, latent)| latent).collect();
    latents.sort_unstable();
    let mut by_latent: BTreeMap<u32, Vec<f32>> = tokens.values(rows, &latents)?;
    let maps = by_latent.len();
    for firing in &mut sample.activations {
        let Some(values) = by_latent.remove(&firing.latent) else { continue };
        match arrangement {
            Arrangement::Patches { .. } => firing.grid = values,
            Arrangement::Words { .. } => firing.tokens = values,
        }
    }
    if let Arrangement::Patches { columns, .. } = arrangement {
        sample.columns = columns.filter(|_| maps > 0);
    }
    Ok(maps)
}

fn concepts_with(labels: &Annotations, row: usize, label: Label) -> Vec<String> {
    let has = |concept: &usize| labels.label(row, Concept(*concept as u32)) == label;
    (0..labels.concepts()).filter(has).map(|concept| labels.names()[concept].clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::codes::Pool;
    use crate::input::read_samples;
    use crate::load::pool;
    use crate::run::{Generated, POOLING, SAMPLES, Samples};

    /// Rows × latents: 1 0 | 3 2 | 0 4.
    fn inputs() -> Inputs {
        let codes = Codes::from_dense(&[1.0, 0.0, 3.0, 2.0, 0.0, 4.0], 2).unwrap();
        let label = |row: usize, _| if row == 1 { Label::Yes } else { Label::Unknown };
        let labels = Annotations::new(vec!["striped".into()], 3, label).unwrap();
        Inputs::default().with(&CODES, codes).with(&LABELS, labels)
    }

    #[test]
    fn samples_have_images_labels_and_boxes() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("bird.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
        let (rows, boxes) = (scratch.path().join("rows.csv"), scratch.path().join("boxes.csv"));
        fs::write(&rows, "row,image,caption\n1,bird.png,a bird\n2,bird.png,another\n").unwrap();
        fs::write(&boxes, "row,concept,x,y,width,height\n1,striped,0.1,0.2,0.3,0.4\n").unwrap();
        let (out, budget) = (scratch.path().join("out"), Budget::of_machine());
        let settings = SampleSettings { rows: Some(&rows), boxes: Some(&boxes), grid: None, most: 10 };
        let written = write_samples(&inputs(), &TokensOfSets::default(), &settings, &out, &budget).unwrap();
        // Two rows share one image.
        assert_eq!(written, WrittenSamples { samples: 2, images: 1, ..WrittenSamples::default() });
        let samples = read_samples(&out.join("samples.jsonl"), &budget).unwrap();
        assert_eq!(samples[0].codes, inputs().find(&CODES).map(|codes| codes.id().unwrap()));
        assert_eq!((samples[0].caption.as_deref(), &samples[1].codes), (Some("a bird"), &None));
        assert_eq!(samples[0].concepts.as_deref(), Some(&["striped".to_string()][..]));
        assert_eq!((samples[1].unknown.len(), samples[0].boxes[0].width), (1, 0.3));
        assert_eq!(samples[0].activations.iter().map(|f| f.value).collect::<Vec<_>>(), [3.0, 2.0]);
        assert!(out.join("images").join(format!("{}.png", samples[1].image.as_deref().unwrap())).exists());
    }

    #[test]
    fn invalid_tables_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("rows.csv");
        let write = |rows, boxes| {
            let settings = SampleSettings { rows, boxes, grid: None, most: 9 };
            let out = scratch.path().join("o");
            write_samples(&inputs(), &TokensOfSets::default(), &settings, &out, &Budget::of_machine()).unwrap_err()
        };
        for text in [
            "row,width\n0,3\n",
            "row,text\n3,a\n",
            "set,text\nother,a\n",
            "image\nnowhere.png\n",
            "words\na bird\n",
            "words\n\"[1]\"\n",
        ] {
            fs::write(&path, text).unwrap();
            let error = write(Some(&path), None);
            assert!(error.is_input(), "{text}: {error}");
        }
        for text in ["row,concept,x,y,width,height\n0,a,0.9,0,0.9,1\n", "row,concept\n0,a\n"] {
            fs::write(&path, text).unwrap();
            let error = write(None, Some(&path));
            assert!(error.to_string().contains("box"), "{error}");
        }
    }

    /// Two samples of five tokens (the first is a class token) and two latents; a generator that swaps the latents.
    fn pooled() -> (Inputs, TokensOfSets) {
        // Latent 0 fires on tokens 0, 1 and 4 of sample 0 and on token 2 of sample 1; latent 1 on token 3 of sample 0.
        let values =
            [9.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.54321, 0.0, 0.0, 0.0, 0.0, 0.0];
        let swapped: Vec<f32> = values.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        let codes = |values: &[f32]| Arc::new(Codes::from_dense(values, 2).unwrap());
        let mut inputs = Inputs::default()
            .with(&CODES, codes(&values))
            .and(&GENERATED, "sd", Generated { codes: codes(&swapped), embeddings: None })
            .with(&SAMPLES, Samples((0..10).map(|row| row / 5).collect()))
            .with(&POOLING, Pool::Mean);
        let tokens = pool(&mut inputs, true, &mut Vec::new()).unwrap();
        (inputs, tokens)
    }

    fn maps(table: &str, grid: Option<&str>) -> Result<(WrittenSamples, Vec<Sample>)> {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("bird.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
        let rows = scratch.path().join("rows.csv");
        fs::write(&rows, table).unwrap();
        let grid = grid.map(|grid| grid.parse()).transpose()?;
        let settings = SampleSettings { rows: Some(&rows), boxes: None, grid, most: 10 };
        let ((inputs, tokens), budget) = (pooled(), Budget::of_machine());
        let written = write_samples(&inputs, &tokens, &settings, scratch.path(), &budget)?;
        Ok((written, read_samples(&scratch.path().join("samples.jsonl"), &budget)?))
    }

    #[test]
    fn images_get_a_value_per_patch() {
        let table = "row,set,image\n0,real,bird.png\n1,real,bird.png\n0,sd,bird.png\n1,sd,bird.png\n";
        let (written, samples) = maps(table, None).unwrap();
        // Three activations of the real rows and three of the generator, each with a map.
        assert_eq!(written, WrittenSamples { samples: 4, images: 1, maps: 6, unplaced: 0 });
        // Five tokens are a class token and 2 × 2 patches; the mean of all five is the value.
        let firing = &samples[0].activations;
        assert_eq!((firing[0].value, &firing[0].grid[..]), (2.6, &[1.0, 0.0, 0.0, 3.0][..]));
        assert_eq!((firing[1].value, &firing[1].grid[..]), (0.4, &[0.0, 0.0, 2.0, 0.0][..]));
        assert_eq!(samples[1].activations[0].grid, [0.0, 0.543, 0.0, 0.0]);
        // Results on tokens and on pooled rows belong to the same dictionary.
        let tokens = pooled().1.real.unwrap().codes.id().unwrap();
        assert_eq!((&samples[0].token_codes, &samples[1].token_codes), (&Some(tokens), &None));
        assert!(samples[0].columns.is_none() && firing[0].tokens.is_empty() && firing[0].above.is_none());
        // The generator's rows are the same with swapped latents.
        assert_eq!(samples[2].set.as_deref(), Some("sd"));
        assert_eq!(samples[2].activations[1].grid, firing[0].grid);
        // A given grid uses the last tokens.
        let (_, wide) = maps(table, Some("1x3")).unwrap();
        assert_eq!((wide[0].columns, &wide[0].activations[0].grid[..]), (Some(3), &[0.0, 0.0, 3.0][..]));
        assert!(maps(table, Some("2x3")).unwrap_err().to_string().contains("too few tokens"));
        // The table has the grid of every image; an option for all has precedence.
        let table = "row,image,grid\n0,bird.png,1x3\n1,bird.png,\n";
        let (written, samples) = maps(table, None).unwrap();
        assert_eq!((samples[0].columns, &samples[0].activations[0].grid[..]), (Some(3), &[0.0, 0.0, 3.0][..]));
        assert_eq!((written.unplaced, samples[1].columns), (0, None));
        assert_eq!(maps(table, Some("2x2")).unwrap().1[0].columns, None);
        let error = maps("row,image,grid\n0,bird.png,wide\n", None).unwrap_err().to_string();
        assert!(error.contains("`wide`") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn texts_get_a_value_per_word() {
        // Without spaces, they are added.
        let glued = "row,words\n0,\"[\"\"a\"\",\"\"bird\"\",\"\",\"\",\"\"wall\"\"]\"\n";
        assert_eq!(maps(glued, None).unwrap().1[0].text.as_deref(), Some("a bird, wall"));
        let table = "row,words\n0,\"[\"\"a\"\",\"\" bird,\"\",\"\" a\"\",\"\" wall\"\"]\"\n";
        let (written, samples) = maps(table, None).unwrap();
        assert_eq!((written.maps, written.unplaced), (2, 0));
        assert_eq!(samples[0].text.as_deref(), Some("a bird, a wall"));
        assert_eq!(samples[0].words.as_ref().unwrap()[1], " bird,");
        assert_eq!(samples[0].activations[0].tokens, [1.0, 0.0, 0.0, 3.0]);
        assert!(samples[0].activations[0].grid.is_empty());
        // Five words between spaces match all five tokens; the positions of three are unknown.
        let (_, samples) = maps("row,text\n0,a bird on a wall\n", None).unwrap();
        assert_eq!(samples[0].activations[0].tokens, [9.0, 1.0, 0.0, 0.0, 3.0]);
        let (written, samples) = maps("row,text\n0,on a wall\n", None).unwrap();
        assert_eq!((written.maps, written.unplaced, samples[0].activations[0].tokens.len()), (0, 1, 0));
        let error = maps("row,words\n0,\"[\"\"a\"\"]\"\n", None).unwrap_err().to_string();
        assert!(error.contains("do not match its tokens"), "{error}");
    }

    #[test]
    fn a_sample_keeps_a_bounded_number_of_values() {
        // Three latents fire on all of 8,192 patches: a sample stores the maps of two.
        let codes = Arc::new(Codes::from_dense(&vec![1.0; 3 * 8192], 3).unwrap());
        let tokens = Tokens { codes, samples: vec![0; 8192].into() };
        let mut sample = empty(0);
        let rank = Rank { above: 0.0, order: Some(0) };
        let ranks = [Rank { order: Some(4), ..rank }, rank, Rank { order: Some(1), ..rank }];
        sample.activations = firings(&tokens.codes, 0, &ranks, true).unwrap();
        let rows: Vec<usize> = (0..8192).collect();
        let patches = Arrangement::Patches { first: 0, columns: Some(64) };
        assert_eq!(add_maps(&mut sample, &ranks, &tokens, &rows, patches).unwrap(), 2);
        let lengths: Vec<usize> = sample.activations.iter().map(|firing| firing.grid.len()).collect();
        assert_eq!((lengths, sample.columns), (vec![0, 8192, 8192], Some(64)));
    }
}
