//! `etalon stress`: blinded review of images that generators made for prompts with one concept.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use etalon::context::Monitor;
use etalon::error::{Error, InputError, Result};
use etalon::input::read_table;
use etalon::results::{Cells, ReviewedImage, Scores, review};
use etalon::store::{csv_text, disk};
use etalon_kernel::random::{permutation, stream};
use etalon_models::data::{ContentKind, Input, InputOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::stress_page::page;
use super::tasks::encoded;
use crate::cli::{self, StressAction};
use crate::console::Console;
use crate::outputs::Paths;

/// The file that says which generator made an image. Reviewers must not see it.
const KEY: &str = "key.json";

/// Runs a step of the stress test.
pub fn run(args: &cli::Stress, console: &Console) -> Result<ExitCode> {
    match &args.action {
        StressAction::Sheet(args) => sheet(args, console)?,
        StressAction::Score(args) => score(args, console)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What belongs to the numbers on the sheets.
#[derive(Serialize, Deserialize)]
struct ReviewKey {
    concept: String,
    generators: Vec<String>,
    prompts: Vec<String>,
    reviewers: usize,
    /// Generator and prompt of every image.
    images: Vec<(usize, usize)>,
}

fn sheet(args: &cli::StressSheet, console: &Console) -> Result<()> {
    let paths = args.images.iter().fold(Paths::default(), |paths, (_, images)| paths.input("--images", images));
    paths.input("--prompts", &args.prompts).output("--out", Some(&args.out)).check()?;
    if args.out.exists() {
        return Err(InputError::new("the output directory exists already")
            .expected("a new directory")
            .advice("remove it, or choose another name")
            .file(&args.out)
            .into());
    }
    let prompts = prompts(&args.prompts)?;
    let names: Vec<String> = args.images.iter().map(|(name, _)| name.clone()).collect();
    if let Some(name) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(InputError::new(format!("two generators are called `{}`", name.1)).into());
    }
    let count = prompts.len() * args.per_prompt;
    // The number of an image on all sheets says nothing about its generator.
    let order = permutation(count * names.len(), &mut stream(args.seed, "stress test/numbers", 0));
    let written = write_images(args, count, &order, console).and_then(|files| {
        let mut images = vec![(0, 0); order.len()];
        for (position, &number) in order.iter().enumerate() {
            images[number] = (position / count, position % count / args.per_prompt);
        }
        let key = ReviewKey {
            concept: args.concept.clone(),
            generators: names.clone(),
            prompts,
            reviewers: args.reviewers,
            images,
        };
        let text = serde_json::to_string_pretty(&key).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        for reviewer in 0..args.reviewers {
            let order = permutation(files.len(), &mut stream(args.seed, "stress test/sheets", reviewer as u64));
            let lines = order.iter().map(|number| [number.to_string(), files[*number].clone(), String::new()]);
            let header = ["image", "file", "depicted"].map(String::from);
            let sheet = csv_text(std::iter::once(header).chain(lines))?;
            disk::write(&sheet_file(&args.out, reviewer), sheet.as_bytes())?;
            let html = page(&args.concept, &order, &files);
            disk::write(&args.out.join(format!("review-{}.html", reviewer + 1)), html.as_bytes())?;
        }
        disk::write(&args.out.join(KEY), format!("{text}\n").as_bytes())
    });
    if let Err(error) = written {
        // The directory is new: half of it is of no use.
        disk::remove_directory(&args.out)?;
        return Err(error);
    }
    let text = format!(
        "{} images of {} generators in {}: give every reviewer review-N.html, sheet-N.csv and images/, and not {KEY}",
        order.len(),
        names.len(),
        args.out.display()
    );
    console.print(text, || json!({"images": order.len(), "generators": names, "out": args.out}))
}

fn sheet_file(directory: &Path, reviewer: usize) -> PathBuf {
    directory.join(format!("sheet-{}.csv", reviewer + 1))
}

/// The lines of a file of prompts.
fn prompts(path: &Path) -> Result<Vec<String>> {
    let bytes = disk::read(path).map_err(Error::io("read the prompts", path))?;
    let text = String::from_utf8(bytes).map_err(|_| InputError::new("the prompts are not UTF-8 text").file(path))?;
    let prompts: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect();
    match prompts.is_empty() {
        true => Err(InputError::new("the file has no prompts").expected("a prompt per line").file(path).into()),
        false => Ok(prompts),
    }
}

/// Writes all images under their numbers; returns the names of the files by number.
fn write_images(args: &cli::StressSheet, count: usize, order: &[usize], console: &Console) -> Result<Vec<String>> {
    let mut files = vec![String::new(); order.len()];
    console.context.start("writing images", order.len() as u64, "images");
    for (generator, (name, text)) in args.images.iter().enumerate() {
        let mut input = Input::open(text, &InputOptions::default(), console.context.budget())?;
        if input.kind() != ContentKind::Image {
            return Err(InputError::new("the input has texts")
                .expected("images as `--images`")
                .file(Path::new(text))
                .into());
        }
        let wrong = |found: usize| {
            InputError::new(format!("generator `{name}` does not have as many images as the prompts ask for"))
                .expected(format!("{count} images: {} for each prompt, in the order of the prompts", args.per_prompt))
                .found(found)
                .file(Path::new(text))
        };
        let mut found = 0;
        while let Some(sample) = input.next()? {
            console.context.check()?;
            let Some(&number) = order.get(generator * count + found).filter(|_| found < count) else {
                return Err(wrong(input.count().map_or(found + 1, |count| count as usize)).into());
            };
            let (bytes, ending) = encoded(&sample.content, &sample.id)?;
            files[number] = format!("images/{number:05}.{ending}");
            disk::write(&args.out.join(&files[number]), &bytes)?;
            found += 1;
            console.context.advance(1);
        }
        if found != count || !input.skipped().is_empty() {
            return Err(wrong(found).into());
        }
    }
    console.context.finish();
    Ok(files)
}

fn score(args: &cli::StressScore, console: &Console) -> Result<()> {
    let file = args.directory.join(KEY);
    let bytes = disk::read(&file).map_err(Error::io("read the key of a review", &file))?;
    let damaged =
        |found: &dyn std::fmt::Display| InputError::new("the key of the review is damaged").found(found).file(&file);
    let key: ReviewKey = serde_json::from_slice(&bytes).map_err(|error| damaged(&error))?;
    if key.images.iter().any(|(generator, _)| *generator >= key.generators.len()) || key.reviewers == 0 {
        return Err(damaged(&"an unknown generator, or no reviewer").into());
    }
    let image = |&(generator, prompt): &(usize, usize)| ReviewedImage { generator, prompt, marks: Vec::new() };
    let mut images: Vec<ReviewedImage> = key.images.iter().map(image).collect();
    for reviewer in 0..key.reviewers {
        let marks = marks(&sheet_file(&args.directory, reviewer), images.len(), console)?;
        images.iter_mut().zip(marks).for_each(|(image, mark)| image.marks.push(mark));
    }
    let scores = review(&key.generators, key.reviewers, &images);
    let mut document = json!({"concept": key.concept, "notes": scores.notes});
    for table in &scores.tables {
        for (name, cells) in &table.columns {
            document["tables"][&table.axis][name] =
                serde_json::to_value(cells).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        }
    }
    if let Some(out) = &args.out {
        let text = serde_json::to_string_pretty(&document).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        disk::write(out, format!("{text}\n").as_bytes())?;
        console.wrote("results", out);
    }
    scores.notes.iter().for_each(|note| console.status(format!("note: {note}")));
    console.print_value(shown(&key.concept, &scores), &document)
}

/// The scores as text.
fn shown(concept: &str, scores: &Scores) -> String {
    let mut text = format!("images that show `{concept}`\n");
    for table in &scores.tables {
        let columns: Vec<Vec<String>> = table.columns.iter().map(|(name, cells)| column_text(name, cells)).collect();
        let width = |column: &Vec<String>| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = columns.iter().map(width).collect();
        for row in 0..columns.first().map_or(0, Vec::len) {
            let cells = columns.iter().zip(&widths).map(|(column, width)| format!("{:<width$}", column[row]));
            text += &format!("\n{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        text.push('\n');
    }
    text
}

/// The name of a column and its cells.
fn column_text(name: &str, cells: &Cells) -> Vec<String> {
    let number = |value: &Option<f64>| value.map_or("-".into(), |value| format!("{value:.4}"));
    let cells: Vec<String> = match cells {
        Cells::Text(cells) => cells.clone(),
        Cells::Number(cells) => cells.iter().map(number).collect(),
        other => (0..other.len()).map(|row| other.number(row).map_or("-".into(), |value| value.to_string())).collect(),
    };
    std::iter::once(name.to_string()).chain(cells).collect()
}

/// What a reviewer wrote, by number of the image.
fn marks(sheet: &Path, images: usize, console: &Console) -> Result<Vec<Option<bool>>> {
    let table = read_table(sheet, console.budget())?;
    let column = |name: &str| -> Result<usize> {
        table.header.iter().position(|other| other == name).ok_or_else(|| {
            let missing = InputError::new(format!("the sheet has no column `{name}`"));
            missing.expected("image, file, depicted").file(sheet).into()
        })
    };
    let (numbers, answers) = (column("image")?, column("depicted")?);
    let mut marks = vec![None; images];
    for (row, cells) in table.cells.iter().enumerate() {
        let line = table.lines.get(row).copied().unwrap_or_default();
        let at = |error: InputError| error.at(format!("line {line}")).file(sheet);
        let number = cells[numbers].trim().parse::<usize>().ok().filter(|number| *number < images);
        let number = number.ok_or_else(|| {
            at(InputError::new("the sheet has an unknown image")
                .expected(format!("a number below {images}"))
                .found(&cells[numbers]))
        })?;
        marks[number] = match cells[answers].trim().to_ascii_lowercase().as_str() {
            "" => None,
            "1" | "yes" | "y" | "true" => Some(true),
            "0" | "no" | "n" | "false" => Some(false),
            other => {
                return Err(at(InputError::new("an answer cannot be read")
                    .expected("yes, no, or nothing")
                    .found(other))
                .into());
            }
        };
    }
    Ok(marks)
}
