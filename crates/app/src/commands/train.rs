//! `etalon train`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use etalon::error::{Complaint, Error, Result};
use etalon::input::{Finite, read_tensors};
use etalon::sae::arch;
use etalon::sae::baseline;
use etalon::sae::train::{
    Early, Line, Log, Order, Preset, Radius, Settings, TrainJob, TrainOptions, Trained, steps_of_epochs, train,
};
use etalon::sae::{Dictionary, Precision};
use etalon::store::{ActivationStore, disk};
use etalon::study::load_activations;
use serde_json::{Value, json};

use super::baselines;
use crate::cli;
use crate::session::Session;
use crate::tensorboard::Events;

/// Times that every row is used when nothing is said.
const EPOCHS: f64 = 10.0;

/// Trains dictionaries.
pub fn run(args: &cli::Train, session: &Session) -> Result<ExitCode> {
    let all = load_activations(Path::new(&args.store), Finite::Refuse, &session.budget)?;
    let part = |name: &Option<String>| name.as_deref().map(|name| all.select_split(name)).transpose();
    let (chosen, held_out) = (part(&args.split)?, part(&args.held_out)?);
    let store = chosen.as_ref().unwrap_or(&all);
    let (baselines, learnt): (Vec<&str>, Vec<&str>) =
        args.arch.iter().map(String::as_str).partition(|name| baseline::find(name).is_some());
    let mut jobs = jobs(args, &learnt, store, session)?;
    let mut wanted = baselines::wanted(args, &baselines);
    // One dictionary goes to the output itself, several below it.
    match (jobs.as_mut_slice(), wanted.as_mut_slice()) {
        ([job], []) => job.out.clone_from(&args.out),
        ([], [one]) => one.out.clone_from(&args.out),
        _ => {}
    }
    let engine = session.engine()?;
    let made = engine.install(|| baselines::make(args, &wanted, store, session))?;
    if jobs.is_empty() {
        conclude(&[], &[], made, session);
        return Ok(ExitCode::SUCCESS);
    }
    let steps = jobs.iter().map(|job| job.settings.steps).max().unwrap_or(0);
    let options = TrainOptions {
        order: if args.order == "sequential" { Order::Sequential } else { Order::Shuffle },
        window: args.window,
        seed: args.seed.first().copied().unwrap_or(0),
        save_every: args.checkpoint_every,
        log_every: args.log_every,
        snapshots: args.keep.iter().map(|share| (share * steps as f64).round() as u64).collect(),
        early: held_out.as_ref().map(|held_out| Early {
            held_out,
            every: args.look_every.unwrap_or_else(|| steps_of_epochs(store.rows(), args.batch, 1.0)),
            patience: args.patience,
        }),
        stop_after: args.stop_after,
        precision: Precision::named(&args.precision)?,
    };
    let folders = args.tensorboard.as_ref().map(|folder| folders(folder, &jobs)).unwrap_or_default();
    let mut log =
        Lines { path: args.log.clone(), file: None, folders, events: Vec::new(), several: jobs.len() > 1, session };
    let (budget, progress, cancel) = (&session.budget, session.progress(), &session.cancel);
    let trained = engine.install(|| train(store, &jobs, &options, budget, progress, &mut log, cancel))?;
    conclude(&jobs, &trained, made, session);
    Ok(ExitCode::SUCCESS)
}

/// A folder of TensorBoard for every dictionary: one alone needs no folder of its own.
fn folders(folder: &Path, jobs: &[TrainJob]) -> Vec<PathBuf> {
    let own = |job: &TrainJob| folder.join(job.out.file_name().unwrap_or_default());
    if jobs.len() == 1 { vec![folder.to_path_buf()] } else { jobs.iter().map(own).collect() }
}

/// One job for every combination of the lists.
fn jobs(args: &cli::Train, names: &[&str], store: &ActivationStore, session: &Session) -> Result<Vec<TrainJob>> {
    if let Some(name) = names.first() {
        let architecture = arch::find(name)?.card().name;
        if args.latents.is_empty() {
            return Err(Complaint::new(format!("nothing says how many latents `{architecture}` should have"))
                .advice("add --latents L")
                .into());
        }
        if args.like.is_some() {
            return Err(Complaint::new("`--like` is for baselines, which are not trained")
                .found(format!("`{architecture}`"))
                .advice("leave it out, or train and make baselines by two commands")
                .into());
        }
    }
    let initial = args.init.as_ref().map(|path| read_tensors(path, &session.budget)).transpose()?;
    let preset = Preset::named(&args.preset)?;
    let ks: Vec<Option<usize>> = if args.k.is_empty() { vec![None] } else { args.k.iter().map(|&k| Some(k)).collect() };
    let mut jobs: Vec<TrainJob> = Vec::new();
    for name in names {
        for &latents in &args.latents {
            for &k in &ks {
                for &seed in &args.seed {
                    let mut settings = arch::find(name)?.settings(preset, store.width(), latents);
                    apply(args, &mut settings, store.rows());
                    (settings.k, settings.seed) = (k.unwrap_or(settings.k), seed);
                    let k = k.map_or(String::new(), |k| format!("-k{k}"));
                    let out = args.out.join(format!("{name}-{latents}{k}-seed{seed}"));
                    jobs.push(TrainJob { settings, initial: initial.clone(), out });
                }
            }
        }
    }
    Ok(jobs)
}

/// Options that were given replace those of the preset.
fn apply(args: &cli::Train, settings: &mut Settings, rows: usize) {
    let epochs = args.epochs.unwrap_or(EPOCHS);
    settings.batch = args.batch;
    settings.steps = args.steps.unwrap_or_else(|| steps_of_epochs(rows, args.batch, epochs));
    set(&mut settings.rate, args.lr);
    set(&mut settings.warmup, args.warmup);
    set(&mut settings.penalty, args.l1);
    set(&mut settings.sparsity_warmup, args.sparsity_warmup);
    set(&mut settings.target_l0, args.target_l0);
    set(&mut settings.bandwidth, args.bandwidth);
    set(&mut settings.anneal_start, args.anneal_start);
    set(&mut settings.queue, args.queue);
    set(&mut settings.k_anneal, args.k_anneal);
    set(&mut settings.dead_after, args.dead_after);
    set(&mut settings.candidates, args.candidates);
    set(&mut settings.neighbours, args.neighbours);
    set(&mut settings.radius, args.radius.map(Radius::Relative));
    settings.decay_start = args.decay_start.or(settings.decay_start);
    settings.resample = args.resample.or(settings.resample);
    settings.normalise |= args.normalise;
    if let Some(clip) = args.clip {
        settings.clip = (clip > 0.0).then_some(clip);
    }
    if !args.groups.is_empty() {
        settings.groups.clone_from(&args.groups);
    }
    if let [start, end] = args.exponents[..] {
        settings.exponents = (start, end);
    }
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn conclude(jobs: &[TrainJob], trained: &[Trained], made: Vec<(String, Value)>, session: &Session) {
    let (mut text, mut list): (Vec<String>, Vec<Value>) = made.into_iter().unzip();
    for (job, trained) in jobs.iter().zip(trained) {
        let card = trained.dictionary.card();
        let kept = if trained.kept { ", kept from before" } else { "" };
        text.push(format!(
            "dictionary: {} ({}, {} latents, {} steps, {}{kept})",
            job.out.display(),
            card.arch,
            card.latents,
            trained.steps,
            trained.precision
        ));
        list.push(json!({
            "sae": job.out, "arch": card.arch, "latents": card.latents, "steps": trained.steps, "unit": trained.unit,
            "precision": trained.precision, "kept": trained.kept, "id": trained.dictionary.id(),
        }));
    }
    session.answer(text.join("\n"), || if list.len() == 1 { list.remove(0) } else { Value::Array(list) });
}

/// Writes the log, and says now and then how the training goes.
struct Lines<'a> {
    path: Option<PathBuf>,
    file: Option<File>,
    /// Folders of TensorBoard, and the files in them once the training begins.
    folders: Vec<PathBuf>,
    events: Vec<Events>,
    several: bool,
    session: &'a Session,
}

impl Log for Lines<'_> {
    /// Lines from this step on will come again, so they are dropped.
    fn begin(&mut self, step: u64) -> Result<()> {
        self.events = self.folders.iter().map(|folder| Events::create(folder, step)).collect::<Result<_>>()?;
        let Some(path) = &self.path else { return Ok(()) };
        if step == 0 && path.exists() && std::fs::metadata(path).is_ok_and(|there| there.len() > 0) {
            let first = std::fs::read_to_string(path).unwrap_or_default();
            let ours = first.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
            if ours.is_none_or(|line| line.get("step").is_none()) {
                return Err(Complaint::new("the file of the log is not a log of a training")
                    .advice("choose another file")
                    .file(path)
                    .into());
            }
        }
        let before = std::fs::read_to_string(path).unwrap_or_default();
        let kept: String = before
            .lines()
            .filter(|line| {
                let line: Option<Value> = serde_json::from_str(line).ok();
                line.and_then(|line| line["step"].as_u64()).is_some_and(|at| at < step)
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
        self.session.say(format!(
            "{which}step {}: loss {:.5}, explained {explained}, L0 {:.1}, dead {:.1} %, {:.0} rows/s",
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

/// The whole loss stands alone, its parts below it.
fn tag(name: &str) -> String {
    if name == "loss" { name.into() } else { format!("loss/{name}") }
}

/// A line as TensorBoard shows it.
fn numbers(line: &Line) -> Vec<(String, f64)> {
    let mut numbers: Vec<(String, f64)> =
        line.terms.iter().filter_map(|(name, value)| Some((tag(name), value.as_f64()?))).collect();
    numbers.extend(line.explained_variance.map(|share| ("explained_variance".into(), share)));
    let rest = [("l0", line.l0), ("dead", line.dead), ("rate", line.rate), ("rows_per_second", line.rows_per_second)];
    numbers.extend(rest.map(|(name, value)| (name.to_string(), value)));
    numbers
}
