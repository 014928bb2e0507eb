//! `etalon train`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use etalon::error::{Error, InputError, Result};
use etalon::input::{Finite, read_tensors};
use etalon::load::load_activations;
use etalon::sae::train::{
    Early, Line, Log, Order, Preset, RowStream, ThresholdRows, TrainJob, TrainOptions, Trained, steps_of_epochs, train,
    train_stream,
};
use etalon::sae::{Precision, checkpoint};
use etalon::store::{ActivationStore, disk};
use etalon::study::{BaselineJob, Changes, TrainingGrid};
use etalon_models::NetworkStream;
use serde_json::{Value, json};

use super::from_network;
use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;
use crate::tensorboard::Events;

/// Trains dictionaries and creates baselines.
pub fn run(args: &cli::Train, console: &Console) -> Result<ExitCode> {
    check_paths(args)?;
    if args.stream {
        return stream(args, console);
    }
    // Locks the cached capture until the end of the training.
    let captured = from_network::capture(&args.network, None, &args.cache, console)?;
    let store = captured.as_ref().map(from_network::store).transpose()?;
    let store = store.or_else(|| args.store.as_ref().map(PathBuf::from)).unwrap_or_default();
    let all = load_activations(&store, Finite::Refuse, console.budget())?;
    let split = |name: &Option<String>| name.as_deref().map(|name| all.select_split(name)).transpose();
    let (chosen, held_out) = (split(&args.split)?, split(&args.held_out)?);
    let store = chosen.as_ref().unwrap_or(&all);
    let plan = grid(args, console)?.plan(store)?;
    if let (Some(job), Some(_)) = (plan.jobs.first(), &args.like) {
        return Err(InputError::new("`--like` applies to baselines only")
            .found(format!("`{}`", job.settings.arch))
            .advice("remove it, or create baselines with a separate command")
            .into());
    }
    let context = &console.context;
    let baselines = context.install(|| create_baselines(args, &plan.baselines, store, console))?;
    if plan.jobs.is_empty() {
        return conclude(&[], &[], baselines, console);
    }
    let early = held_out.as_ref().map(|held_out| Early {
        held_out,
        every: args.look_every.unwrap_or_else(|| steps_of_epochs(store.rows(), args.batch, 1.0)),
        patience: args.patience,
    });
    let options = TrainOptions { early, ..options(args, &plan.jobs)? };
    let mut log = TrainLog::new(args, &plan.jobs, console);
    let trained = context.install(|| train(store, &plan.jobs, &options, &mut log, context))?;
    conclude(&plan.jobs, &trained, baselines, console)
}

/// Trains dictionaries while a network computes the activations.
fn stream(args: &cli::Train, console: &Console) -> Result<ExitCode> {
    let request = from_network::request(&args.network, args.cache.cache.as_deref())
        .ok_or_else(|| Error::Bug("a stream without a network".into()))?;
    let context = &console.context;
    let mut stream = NetworkStream::open(&request, context)?;
    stream.notes().iter().for_each(|note| console.status(format!("note: {note}")));
    let plan = grid(args, console)?.plan_rows(0, stream.width())?;
    if let Some(baseline) = plan.baselines.first() {
        return Err(InputError::new(format!(
            "the baseline `{}` is not trained, so that it has no stream",
            baseline.name
        ))
        .advice("create baselines with a separate command, without `--stream`")
        .into());
    }
    let options = options(args, &plan.jobs)?;
    let mut log = TrainLog::new(args, &plan.jobs, console);
    let trained =
        context.install(|| train_stream(&mut stream, args.buffer, &plan.jobs, &options, &mut log, context))?;
    if let [first, ..] = stream.skipped() {
        let count = stream.skipped().len();
        console.status(format!(
            "note: {count} items of the input were skipped; the first, `{}`: {}",
            first.id, first.reason
        ));
    }
    conclude(&plan.jobs, &trained, Vec::new(), console)
}

/// The dictionaries that the options describe.
fn grid<'a>(args: &'a cli::Train, console: &Console) -> Result<TrainingGrid<'a>> {
    Ok(TrainingGrid {
        archs: &args.arch,
        latents: &args.latents,
        ks: &args.k,
        seeds: &args.seed,
        preset: Preset::named(&args.preset)?,
        changes: changes(args),
        initial: args.init.as_ref().map(|path| read_tensors(path, console.budget())).transpose()?,
        out: &args.out,
    })
}

/// Options of the training, without early stopping.
fn options<'a>(args: &cli::Train, jobs: &[TrainJob]) -> Result<TrainOptions<'a>> {
    let steps = jobs.iter().map(|job| job.settings.steps).max().unwrap_or(0);
    Ok(TrainOptions {
        order: if args.order == "sequential" { Order::Sequential } else { Order::Shuffle },
        window: args.window,
        seed: args.seed.first().copied().unwrap_or(0),
        save_every: save_every(args.checkpoint_every)?,
        log_every: args.log_every,
        snapshots: args.keep.iter().map(|share| (share * steps as f64).round() as u64).collect(),
        early: None,
        stop_after: args.stop_after,
        precision: Precision::named(&args.precision)?,
    })
}

/// Refuses outputs that are inputs.
fn check_paths(args: &cli::Train) -> Result<()> {
    let (store, network) = (args.store.as_ref().map(PathBuf::from), from_network::paths(&args.network));
    let others = [("--init", &args.init), ("--like", &args.like), ("--store", &store)];
    let others = others.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)));
    let paths = network.into_iter().fold(Paths::default(), |paths, (option, path)| paths.input(option, path));
    let paths = others.fold(paths, |paths, (option, path)| paths.input(option, path)).output("--out", Some(&args.out));
    paths.output("--log", args.log.as_ref()).output("--tensorboard", args.tensorboard.as_ref()).check()
}

/// The time between saved states.
fn save_every(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        InputError::new("`--checkpoint-every` is out of range")
            .expected("a number of seconds from 0")
            .found(seconds)
            .into()
    })
}

/// Options that override settings of the preset.
fn changes(args: &cli::Train) -> Changes {
    Changes {
        batch: args.batch,
        steps: args.steps,
        epochs: args.epochs,
        rate: args.lr,
        warmup: args.warmup,
        decay_start: args.decay_start,
        clip: args.clip,
        dead_after: args.dead_after,
        resample: args.resample,
        normalise: args.normalise,
        params: args.params.given.clone(),
    }
}

/// The TensorBoard folder of each dictionary: subfolders if there are several dictionaries.
fn folders(folder: &Path, jobs: &[TrainJob]) -> Vec<PathBuf> {
    let subfolder = |job: &TrainJob| folder.join(job.out.file_name().unwrap_or_default());
    if jobs.len() == 1 { vec![folder.to_path_buf()] } else { jobs.iter().map(subfolder).collect() }
}

/// Creates and saves baselines; returns a line of text and a JSON object for each.
fn create_baselines(
    args: &cli::Train,
    baselines: &[BaselineJob],
    store: &ActivationStore,
    console: &Console,
) -> Result<Vec<(String, Value)>> {
    let like = match &args.like {
        Some(path) if !baselines.is_empty() => Some(checkpoint::load(path, console.budget())?.dictionary),
        _ => None,
    };
    let one = |job: &BaselineJob| {
        let (dictionary, out) = (job.run(store, like.as_deref(), &console.context)?, &job.out);
        let card = dictionary.card();
        let text = format!("dictionary: {} ({}, {} latents, baseline)", out.display(), card.arch, card.latents);
        let json = json!({
            "sae": out, "arch": card.arch, "latents": card.latents, "steps": 0, "baseline": true,
            "id": dictionary.id(),
        });
        Ok((text, json))
    };
    baselines.iter().map(one).collect()
}

fn conclude(
    jobs: &[TrainJob],
    trained: &[Trained],
    baselines: Vec<(String, Value)>,
    console: &Console,
) -> Result<ExitCode> {
    let (mut text, mut list): (Vec<String>, Vec<Value>) = baselines.into_iter().unzip();
    for (job, trained) in jobs.iter().zip(trained) {
        let card = trained.dictionary.card();
        let kept = if trained.kept { ", already trained" } else { "" };
        let threshold = trained.threshold.map_or(String::new(), |ThresholdRows { rows, held_out }| {
            format!(", threshold set on {rows} {} rows", if held_out { "held-out" } else { "training" })
        });
        text.push(format!(
            "dictionary: {} ({}, {} latents, {} steps, {}{threshold}{kept})",
            job.out.display(),
            card.arch,
            card.latents,
            trained.steps,
            trained.precision
        ));
        list.push(json!({
            "sae": job.out, "arch": card.arch, "latents": card.latents, "steps": trained.steps, "unit": trained.unit,
            "precision": trained.precision, "threshold": trained.threshold, "kept": trained.kept,
            "id": trained.dictionary.id(),
        }));
    }
    console.print(text.join("\n"), || if list.len() == 1 { list.remove(0) } else { Value::Array(list) })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the log files and prints the training progress.
struct TrainLog<'a> {
    path: Option<PathBuf>,
    file: Option<File>,
    /// TensorBoard folders, and the files in them once the training begins.
    folders: Vec<PathBuf>,
    events: Vec<Events>,
    several: bool,
    /// By dictionary, the rows without firing after which a latent counts as dead.
    dead_after: Vec<u64>,
    console: &'a Console,
}

impl<'a> TrainLog<'a> {
    fn new(args: &cli::Train, jobs: &[TrainJob], console: &'a Console) -> TrainLog<'a> {
        TrainLog {
            path: args.log.clone(),
            file: None,
            folders: args.tensorboard.as_ref().map(|folder| folders(folder, jobs)).unwrap_or_default(),
            events: Vec::new(),
            several: jobs.len() > 1,
            dead_after: jobs.iter().map(|job| job.settings.dead_after).collect(),
            console,
        }
    }
}

impl Log for TrainLog<'_> {
    /// Drops lines from this step on, because they will be written again.
    fn begin(&mut self, step: u64) -> Result<()> {
        self.events = self.folders.iter().map(|folder| Events::create(folder, step)).collect::<Result<_>>()?;
        let Some(path) = &self.path else { return Ok(()) };
        disk::check_target(path)?;
        let before = disk::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        if step == 0 && !before.is_empty() {
            let ours = before.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
            if ours.is_none_or(|line| line.get("step").is_none()) {
                return Err(InputError::new("the log file exists and is not a training log")
                    .advice("choose another file")
                    .file(path)
                    .into());
            }
        }
        let kept: String = before
            .lines()
            .filter(|line| {
                let line: Option<Value> = serde_json::from_str(line).ok();
                line.and_then(|line| line["step"].as_u64()).is_some_and(|logged| logged < step)
            })
            .map(|line| format!("{line}\n"))
            .collect();
        disk::write(path, kept.as_bytes())?;
        self.file = Some(OpenOptions::new().append(true).open(path).map_err(Error::io("open the log", path))?);
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let number = |name: &str| line.terms.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let explained = line.explained_variance.map_or("-".into(), |share| format!("{share:.4}"));
        let which = if self.several { format!("[{}] ", line.job) } else { String::new() };
        let rows = self.dead_after.get(line.job).map(|&rows| format!(" (silent for {rows} rows)")).unwrap_or_default();
        let network =
            line.network.map(|speed| format!(", {:.0} {}/s", speed.per_second, speed.unit)).unwrap_or_default();
        self.console.status(format!(
            "{which}step {}: loss {:.5}, explained {explained}, L0 {:.1}, dead {:.1} %{rows}, {:.0} rows/s{network}",
            line.step,
            number("loss"),
            line.l0,
            100.0 * line.dead,
            line.rows_per_second,
        ));
        if let Some(events) = self.events.get_mut(line.job) {
            events.numbers(line.step, &numbers(line))?;
        }
        let (Some(file), Some(path)) = (&mut self.file, &self.path) else { return Ok(()) };
        writeln!(file, "{}", json!(line)).map_err(Error::io("write the log", path))
    }
}

/// The TensorBoard tag of a loss term: the total is `loss`, its parts are `loss/NAME`.
fn tag(name: &str) -> String {
    if name == "loss" { name.into() } else { format!("loss/{name}") }
}

/// The values of a log line for TensorBoard.
fn numbers(line: &Line) -> Vec<(String, f64)> {
    let mut numbers: Vec<(String, f64)> =
        line.terms.iter().filter_map(|(name, value)| Some((tag(name), value.as_f64()?))).collect();
    numbers.extend(line.explained_variance.map(|share| ("explained_variance".into(), share)));
    let rest = [("l0", line.l0), ("dead", line.dead), ("rate", line.rate), ("rows_per_second", line.rows_per_second)];
    numbers.extend(rest.map(|(name, value)| (name.to_string(), value)));
    numbers
}
