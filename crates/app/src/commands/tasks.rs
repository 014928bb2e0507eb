//! `etalon tasks`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use etalon::context::Monitor;
use etalon::error::{Error, InputError, Result};
use etalon::input::picture_ending;
use etalon::metrics::{TwoChoiceTask, UnitTasks, recipe, simulated_answers, two_choice_tasks};
use etalon::run::{Inputs, UNIT_ACTIVATIONS, UNITS, VISUALISATIONS};
use etalon::store::{csv_text, disk};
use etalon_models::data::{Content, ContentKind, Input, InputOptions};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use serde_json::{Value, json};

use super::tasks_page::page;
use super::{find_metric, finite, load_inputs, profile};
use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Exports the two-choice tasks of units.
pub fn run(args: &cli::Tasks, console: &Console) -> Result<ExitCode> {
    let paths = Paths::default().inputs(args.inputs.given.paths(Path::new(""))).input("--images", &args.images);
    let paths = args.visualisation_images.iter().fold(paths, |paths, made| paths.input("--visualisation-images", made));
    paths.output("--out", Some(&args.out)).check()?;
    if args.out.exists() {
        return Err(InputError::new("the output directory exists already")
            .expected("a new directory")
            .advice("remove it, or choose another name")
            .file(&args.out)
            .into());
    }
    let inputs = load_inputs(&args.inputs.given, finite("refuse"), console)?;
    let given = BTreeMap::from([
        ("tasks".into(), args.tasks.to_string()),
        ("explanations".into(), args.explanations.to_string()),
        ("measure".into(), args.measure.clone()),
        ("alpha".into(), args.alpha.to_string()),
        ("query_quantile".into(), args.query_quantile.to_string()),
        ("ties".into(), args.ties.clone()),
    ]);
    let recipe = recipe(find_metric("mis")?, &inputs, &given, profile(&args.profile), args.seed)?;
    let activations = inputs.completed();
    let activations = activations.get(&UNIT_ACTIVATIONS)?;
    let sources = sources(args, &inputs, activations.rows(), activations.units())?;
    let numbers: Vec<usize> = if args.unit.is_empty() { (0..activations.units()).collect() } else { args.unit.clone() };
    let units = two_choice_tasks(&inputs, &recipe, &numbers, &console.context)?;
    let constant = units.iter().filter(|unit| unit.tasks.is_empty()).count();
    if constant > 0 {
        console.status(format!("note: {constant} units are constant and have no tasks"));
    }
    let shown = Shown { visualised: sources.len() > 1, units: &units };
    let written = write_images(&args.out, &shown, &sources, console).and_then(|images| {
        let document = json!({
            "recipe": recipe, "images": images.ids[0],
            "units": units.iter().map(|unit| describe(unit, &shown, &inputs, &images)).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        disk::write(&args.out.join("tasks.json"), format!("{text}\n").as_bytes())?;
        disk::write(&args.out.join("index.html"), page(&shown, &images).as_bytes())?;
        args.simulate.map_or(Ok(()), |count| write_answers(args, &shown, &inputs, count))
    });
    if let Err(error) = written {
        // The directory is new: half of it is of no use.
        disk::remove_directory(&args.out)?;
        return Err(error);
    }
    let count: usize = units.iter().map(|unit| unit.tasks.len()).sum();
    let lines = format!("{count} tasks of {} units: {}", units.len() - constant, args.out.join("index.html").display());
    console.print(lines, || json!({"tasks": count, "units": units.len() - constant, "out": args.out}))?;
    Ok(ExitCode::SUCCESS)
}

/// Where images come from: their input, its option, and how many they must be.
struct Images<'a> {
    text: &'a str,
    option: &'static str,
    count: usize,
}

/// The images of the rows and, if they explain, those of the feature visualisations.
fn sources<'a>(args: &'a cli::Tasks, inputs: &Inputs, rows: usize, units: usize) -> Result<Vec<Images<'a>>> {
    let images = Images { text: &args.images, option: "--images", count: rows };
    let count = units * 2 * args.explanations as usize;
    let made = args.visualisation_images.as_deref();
    match (inputs.has(&VISUALISATIONS), made) {
        (false, None) => Ok(vec![images]),
        (true, Some(text)) => Ok(vec![images, Images { text, option: "--visualisation-images", count }]),
        (true, None) => Err(InputError::new("the images of the feature visualisations are missing")
            .expected(format!("{count} images as `--visualisation-images`, in the order of `--visualisations`"))
            .into()),
        (false, Some(_)) => Err(InputError::new("the vectors of the feature visualisations are missing")
            .expected("vectors as `--visualisations`, in the order of `--visualisation-images`")
            .into()),
    }
}

/// The tasks, and what explains their units.
pub(super) struct Shown<'a> {
    /// Explanations are feature visualisations instead of images of rows.
    visualised: bool,
    pub units: &'a [UnitTasks],
}

/// An image: of a source, with a number in it.
type Picture = (usize, u32);

impl Shown<'_> {
    /// The images of a task with their names: of each side the explanations, by stratum, and then the query.
    pub fn images(&self, unit: usize, task: &TwoChoiceTask) -> [Vec<(String, Picture)>; 2] {
        let sides = [("min", &task.lowest, task.low_query), ("max", &task.highest, task.high_query)];
        std::array::from_fn(|side| {
            let (name, explanations, query) = sides[side];
            let count = explanations.len();
            let explanation = |(index, &row): (usize, &u32)| match self.visualised {
                true => (1, ((2 * unit + side) * count + index) as u32),
                false => (0, row),
            };
            let pictures = explanations.iter().enumerate().map(explanation).chain([(0, query)]);
            pictures.enumerate().map(|(index, picture)| (format!("{name}_{index}"), picture)).collect()
        })
    }

    /// How people are told what explains a unit, in the words of the published data.
    fn mode(&self) -> &'static str {
        if self.visualised { "optimized" } else { "natural" }
    }
}

/// What was written of the images.
pub(super) struct Written {
    /// The id of every image, by source.
    ids: Vec<Vec<String>>,
    /// The ending of the files of an image.
    endings: BTreeMap<Picture, &'static str>,
}

impl Written {
    /// The file of an image in a task.
    pub fn file(&self, unit: usize, task: usize, name: &str, picture: Picture) -> String {
        let ending = self.endings.get(&picture).copied().unwrap_or("png");
        format!("unit_{unit}/task_{task}/{name}.{ending}")
    }
}

/// Reads all images once, and writes each to the tasks that show it.
fn write_images(out: &Path, shown: &Shown<'_>, sources: &[Images<'_>], console: &Console) -> Result<Written> {
    let mut targets: BTreeMap<Picture, Vec<PathBuf>> = BTreeMap::new();
    for unit in shown.units {
        for (number, task) in unit.tasks.iter().enumerate() {
            let folder = PathBuf::from(format!("unit_{}", unit.unit)).join(format!("task_{number}"));
            for (name, picture) in shown.images(unit.unit, task).into_iter().flatten() {
                targets.entry(picture).or_default().push(folder.join(name));
            }
        }
    }
    let mut written = Written { ids: Vec::new(), endings: BTreeMap::new() };
    for (number, source) in sources.iter().enumerate() {
        let mut input = Input::open(source.text, &InputOptions::default(), console.context.budget())?;
        if input.kind() != ContentKind::Image {
            let error = InputError::new("the input has texts").expected(format!("images as `{}`", source.option));
            return Err(error.file(Path::new(source.text)).into());
        }
        let wrong = |found: usize| {
            InputError::new(format!("`{}` does not have as many images as there are rows", source.option))
                .expected(format!("{} images", source.count))
                .found(found)
                .advice("give the images that the activations were captured from")
                .file(Path::new(source.text))
        };
        if let Some(count) = input.count().filter(|count| *count < source.count as u64) {
            return Err(wrong(count as usize).into());
        }
        console.context.start("writing images", source.count as u64, "images");
        let mut ids = Vec::with_capacity(source.count);
        while let Some(sample) = input.next()? {
            console.context.check()?;
            let picture = (number, ids.len() as u32);
            if let Some(targets) = targets.get(&picture) {
                let (bytes, ending) = encoded(&sample.content, &sample.id)?;
                written.endings.insert(picture, ending);
                for target in targets {
                    disk::write(&out.join(target).with_extension(ending), &bytes)?;
                }
            }
            ids.push(sample.id);
            console.context.advance(1);
        }
        console.context.finish();
        if ids.len() != source.count {
            return Err(wrong(ids.len()).into());
        }
        written.ids.push(ids);
    }
    Ok(written)
}

/// The bytes of an image as a file that browsers show, and its ending.
pub(super) fn encoded(content: &Content, id: &str) -> Result<(Vec<u8>, &'static str)> {
    match content {
        Content::Image(bytes) => match picture_ending(bytes) {
            Some(ending) => Ok((bytes.clone(), ending)),
            None => Err(InputError::new("an image is neither PNG, JPEG nor WebP").found(id).into()),
        },
        Content::Pixels(pixels) => {
            let mut bytes = Vec::new();
            let size = (pixels.width() as u32, pixels.height() as u32);
            PngEncoder::new(&mut bytes)
                .write_image(pixels.rgb(), size.0, size.1, ExtendedColorType::Rgb8)
                .map_err(|error| Error::Bug(format!("PNG: {error}")))?;
            Ok((bytes, "png"))
        }
        Content::Text(_) => Err(InputError::new("not an image").found(id).into()),
    }
}

fn describe(unit: &UnitTasks, shown: &Shown<'_>, inputs: &Inputs, images: &Written) -> Value {
    let known = inputs.find(&UNITS).and_then(|units| units.units.get(unit.unit));
    let task = |(number, task): (usize, &TwoChoiceTask)| {
        let file = |(name, picture): &(String, Picture)| {
            let key = if picture.0 == 0 { "row" } else { "visualisation" };
            let id = &images.ids[picture.0][picture.1 as usize];
            json!({"file": images.file(unit.unit, number, name, *picture), key: picture.1, "id": id})
        };
        let side = |pictures: &[(String, Picture)]| {
            let (query, explanations) =
                pictures.split_last().map_or((None, pictures), |(last, rest)| (Some(last), rest));
            json!({"explanations": explanations.iter().map(file).collect::<Vec<_>>(), "query": query.map(file)})
        };
        let [lowest, highest] = shown.images(unit.unit, task);
        json!({"lowest": side(&lowest), "highest": side(&highest), "probability": task.probability})
    };
    json!({
        "unit": unit.unit, "model": known.map(|unit| &unit.model), "layer": known.map(|unit| &unit.layer),
        "channel": known.and_then(|unit| unit.channel), "mode": shown.mode(),
        "tasks": unit.tasks.iter().enumerate().map(task).collect::<Vec<_>>(),
    })
}

/// Writes the answers of simulated people as a table that `his` reads.
fn write_answers(args: &cli::Tasks, shown: &Shown<'_>, inputs: &Inputs, count: usize) -> Result<()> {
    let answers = simulated_answers(shown.units, count, args.seed);
    let header = ["unit", "model", "layer", "channel", "mode", "batch", "participant_id", "correct", "probability"];
    let line = |answer: &etalon::metrics::SimulatedAnswer| {
        let unit = inputs.find(&UNITS).and_then(|units| units.units.get(answer.unit));
        let channel = unit.and_then(|unit| unit.channel).map_or(String::new(), |channel| channel.to_string());
        let (model, layer) =
            unit.map_or((String::new(), String::new()), |unit| (unit.model.clone(), unit.layer.clone()));
        let numbers = [answer.task.to_string(), answer.person.to_string(), u8::from(answer.correct).to_string()];
        let [task, person, correct] = numbers;
        let probability = answer.probability.to_string();
        vec![answer.unit.to_string(), model, layer, channel, shown.mode().into(), task, person, correct, probability]
    };
    let header = std::iter::once(header.map(String::from).to_vec());
    let text = csv_text(header.chain(answers.iter().map(line)))?;
    disk::write(&args.out.join("responses.csv"), text.as_bytes())
}
