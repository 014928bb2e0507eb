//! Grids of dictionaries: architectures × latents × active latents × seeds, with their settings and output directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use crate::context::Context;
use crate::error::{Command, InputError, Key, Result};
use crate::input::Tensors;
use crate::sae::arch::{self, Sparsity};
use crate::sae::baseline::{self, BaselineParams};
use crate::sae::train::{Preset, TrainJob, TrainingSettings, steps_of_epochs};
use crate::sae::{Dictionary, checkpoint};
use crate::store::ActivationStore;

/// Default number of epochs.
const EPOCHS: f64 = 10.0;

/// Dictionaries to train and baselines to compute: one for every combination of the lists.
#[derive(Debug)]
pub struct TrainingGrid<'a> {
    /// Names of architectures and baselines.
    pub archs: &'a [String],
    /// Numbers of latents; optional for baselines.
    pub latents: &'a [usize],
    /// Numbers of active latents per row, or targets of their mean; empty for those of the preset.
    pub ks: &'a [usize],
    /// Seeds.
    pub seeds: &'a [u64],
    /// The preset: whose conventions to follow.
    pub preset: Preset,
    /// Settings that replace those of the preset.
    pub changes: Changes,
    /// Initial weights.
    pub initial: Option<Tensors>,
    /// The output directory; it has a subdirectory for each dictionary if there are several.
    pub out: &'a Path,
}

/// Settings that replace those of a preset.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Rows per step.
    pub batch: usize,
    /// Number of steps.
    pub steps: Option<u64>,
    /// Number of epochs, unless steps are given.
    pub epochs: Option<f64>,
    /// Learning rate.
    pub rate: Option<f64>,
    /// Warm-up steps of the learning rate.
    pub warmup: Option<u64>,
    /// Step from which the learning rate decays to 0.
    pub decay_start: Option<u64>,
    /// Maximum gradient norm; 0 disables clipping.
    pub clip: Option<f64>,
    /// Rows without firing after which a latent is dead.
    pub dead_after: Option<u64>,
    /// Steps between two resamplings of dead latents.
    pub resample: Option<u64>,
    /// Whether inputs are divided by the root mean square of their norms.
    pub normalise: bool,
    /// Parameters of architectures as text, by option.
    pub params: BTreeMap<String, String>,
}

/// The option of a fixed weight of the penalty.
const WEIGHT: &str = "l1";

/// The option of a target L0.
const TARGET: &str = "target-l0";

impl Changes {
    /// Whether the user set an option.
    fn gives(&self, option: &str) -> bool {
        match option {
            "lr" => self.rate.is_some(),
            "warmup" => self.warmup.is_some(),
            "decay-start" => self.decay_start.is_some(),
            "resample" => self.resample.is_some(),
            param => self.params.contains_key(param),
        }
    }

    /// Applies the changes for a store with `rows` rows.
    fn apply(&self, settings: &mut TrainingSettings, rows: usize) -> Result<()> {
        settings.batch = self.batch;
        let epochs = self.epochs.unwrap_or(EPOCHS);
        settings.steps = self.steps.unwrap_or_else(|| steps_of_epochs(rows, self.batch, epochs));
        settings.rate = self.rate.unwrap_or(settings.rate);
        settings.warmup = self.warmup.unwrap_or(settings.warmup);
        settings.decay_start = self.decay_start.or(settings.decay_start);
        settings.dead_after = self.dead_after.unwrap_or(settings.dead_after);
        settings.resample = self.resample.or(settings.resample);
        settings.normalise |= self.normalise;
        if let Some(clip) = self.clip {
            settings.clip = (clip > 0.0).then_some(clip);
        }
        let options = arch::options();
        for (name, text) in &self.params {
            let option = options.iter().find(|option| option.param.card().option == Some(name));
            let param = option.map(|option| option.param).ok_or_else(|| {
                let known: Vec<&str> = options.iter().filter_map(|option| option.param.card().option).collect();
                InputError::new(format!("no architecture has a parameter `{name}`")).expected(known.join(", "))
            })?;
            settings.params.replace(param.card().name, param.parse(text)?);
        }
        Ok(())
    }

    /// Applies the number of active latents, which is fixed or a target, and fits the schedules to the training.
    fn set_sparsity(&self, settings: &mut TrainingSettings, k: Option<usize>, preset: Preset) -> Result<()> {
        let name = settings.arch.clone();
        let given = |option: &str| self.gives(option);
        match arch::find(&name)?.sparsity() {
            Sparsity::Fixed => settings.k = k.unwrap_or(settings.k),
            Sparsity::Penalty if k.is_some() || given(TARGET) => {
                let option = if k.is_some() { "k" } else { TARGET };
                return Err(InputError::new(format!("`{name}` has no {}", Key(option)))
                    .expected("an architecture with a fixed number of active latents, or with a target")
                    .advice(format!("set its sparsity by {}, in a separate command", Key(WEIGHT)))
                    .into());
            }
            Sparsity::Penalty => {}
            Sparsity::Target { default } => {
                if k.is_some() && given(TARGET) {
                    return Err(InputError::new(format!(
                        "{} and {} both set the target of `{name}`",
                        Key("k"),
                        Key(TARGET)
                    ))
                    .advice("leave one of them out")
                    .into());
                }
                // Parsed before, under the name that all architectures share.
                let in_params = settings.get(&arch::params::TARGET_L0)?;
                let wanted = k.map(|k| k as f64).or_else(|| given(TARGET).then_some(in_params));
                let in_loss = default.is_some() && preset == Preset::DictionaryLearning;
                match wanted.or_else(|| default.filter(|_| preset == Preset::Etalon).map(|_| in_params)) {
                    Some(target) if default.is_some() && (in_loss || given(WEIGHT)) => {
                        settings.params.set(&arch::params::TARGET_L0, target);
                    }
                    Some(_) if given(WEIGHT) => {
                        return Err(InputError::new(format!(
                            "{} fixes the weight of the penalty of `{name}`, so that its L0 cannot be chosen",
                            Key(WEIGHT)
                        ))
                        .advice(format!("leave out {WEIGHT}, or leave out {} and {}", Key("k"), Key(TARGET)))
                        .into());
                    }
                    Some(target) => arch::aim_at(settings, target, &given)?,
                    None => {}
                }
            }
        }
        arch::fit_schedules(settings, &given)
    }
}

/// A baseline to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineJob {
    /// Its name.
    pub name: String,
    /// Number of latents.
    pub latents: Option<usize>,
    /// Active latents per row.
    pub k: Option<usize>,
    /// The seed.
    pub seed: u64,
    /// The output directory.
    pub out: PathBuf,
}

/// The jobs of a grid.
#[derive(Debug)]
pub struct TrainingPlan {
    /// Dictionaries to train together.
    pub jobs: Vec<TrainJob>,
    /// Baselines to compute.
    pub baselines: Vec<BaselineJob>,
}

/// The numbers of a list, or a single `None` for an empty list.
fn each(list: &[usize]) -> Vec<Option<usize>> {
    if list.is_empty() { vec![None] } else { list.iter().map(|&number| Some(number)).collect() }
}

impl TrainingGrid<'_> {
    /// The jobs of the grid on the rows of a store.
    pub fn plan(&self, store: &ActivationStore) -> Result<TrainingPlan> {
        self.plan_rows(store.rows(), store.width())
    }

    /// The jobs of the grid on `rows` rows of a width. Their number matters only if the number of steps is not set.
    pub fn plan_rows(&self, rows: usize, width: usize) -> Result<TrainingPlan> {
        let (baselines, architectures): (Vec<&str>, Vec<&str>) =
            self.archs.iter().map(String::as_str).partition(|name| baseline::find(name).is_some());
        let mut plan =
            TrainingPlan { jobs: self.jobs(&architectures, rows, width)?, baselines: self.baselines(&baselines) };
        // A single dictionary is written to the output directory itself.
        match (plan.jobs.as_mut_slice(), plan.baselines.as_mut_slice()) {
            ([job], []) => job.out = self.out.into(),
            ([], [one]) => one.out = self.out.into(),
            _ => {}
        }
        Ok(plan)
    }

    fn jobs(&self, names: &[&str], rows: usize, width: usize) -> Result<Vec<TrainJob>> {
        let mut jobs = Vec::new();
        for name in names {
            let arch = arch::find(name)?;
            if self.latents.is_empty() {
                return Err(InputError::new(format!("{} is required for `{name}`", Key("latents"))).into());
            }
            for &latents in self.latents {
                for k in each(self.ks) {
                    for &seed in self.seeds {
                        let mut settings = arch.settings(self.preset, width, latents);
                        self.changes.apply(&mut settings, rows)?;
                        settings.seed = seed;
                        // Given weights are for rows as they are.
                        settings.centre &= self.initial.is_none();
                        self.changes.set_sparsity(&mut settings, k, self.preset)?;
                        let active = match arch.sparsity() {
                            Sparsity::Target { .. } => k.map(|k| format!("-l0-{k}")),
                            _ => k.map(|k| format!("-k{k}")),
                        };
                        let out = self.folder(name, Some(latents), active, seed);
                        jobs.push(TrainJob { settings, initial: self.initial.clone(), out });
                    }
                }
            }
        }
        Ok(jobs)
    }

    fn baselines(&self, names: &[&str]) -> Vec<BaselineJob> {
        let mut baselines = Vec::new();
        for name in names {
            for latents in each(self.latents) {
                for k in each(self.ks) {
                    for &seed in self.seeds {
                        let out = self.folder(name, latents, k.map(|k| format!("-k{k}")), seed);
                        baselines.push(BaselineJob { name: name.to_string(), latents, k, seed, out });
                    }
                }
            }
        }
        baselines
    }

    fn folder(&self, name: &str, latents: Option<usize>, active: Option<String>, seed: u64) -> PathBuf {
        let size = latents.map_or(String::new(), |latents| format!("-{latents}"));
        let active = active.unwrap_or_default();
        self.out.join(format!("{name}{size}{active}-seed{seed}"))
    }
}

impl BaselineJob {
    /// Computes the baseline on the rows of a store and writes it. Size and sparsity default to those of `like`.
    pub fn run(
        &self,
        store: &ActivationStore,
        like: Option<&dyn Dictionary>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        let BaselineJob { name, latents, k, seed, out } = self;
        let baseline = baseline::find(name).ok_or_else(|| {
            InputError::new(format!("there is no baseline `{name}`")).advice(format!("see {}", Command("archs")))
        })?;
        let params = BaselineParams { latents: *latents, k: *k, seed: *seed, like };
        let dictionary = baseline.make(store, &params, context)?;
        let mut about = Map::new();
        about.insert("baseline".into(), json!(name));
        about.insert("seed".into(), json!(seed));
        if let Some(like) = like {
            about.insert("like".into(), json!({"arch": like.card().arch, "id": like.id()}));
        }
        checkpoint::save(&*dictionary, &about, "etalon", out)?;
        Ok(dictionary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sae::arch::params::{GROUPS, TARGET_L0};

    fn grid<'a>(archs: &'a [String], latents: &'a [usize], params: &[(&str, &str)]) -> TrainingGrid<'a> {
        let params = params.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        TrainingGrid {
            archs,
            latents,
            ks: &[2, 3],
            seeds: &[0, 7],
            preset: Preset::Etalon,
            changes: Changes { batch: 50, clip: Some(0.0), params, ..Changes::default() },
            initial: None,
            out: Path::new("out"),
        }
    }

    #[test]
    fn every_combination_has_a_directory() {
        let store = ActivationStore::from_rows(vec![0.5; 40 * 8], 8).unwrap();
        let archs = ["topk", "random", "jumprelu"].map(String::from);
        let plan = grid(&archs, &[16, 20], &[("groups", "0.5,0.5")]).plan(&store).unwrap();
        assert_eq!((plan.jobs.len(), plan.baselines.len()), (16, 8));
        assert_eq!(plan.jobs[1].out, Path::new("out/topk-16-k2-seed7"));
        assert_eq!(plan.baselines[7].out, Path::new("out/random-20-k3-seed7"));
        let settings = &plan.jobs[15].settings;
        assert_eq!((settings.arch.as_str(), settings.control, settings.seed), ("jumprelu", Some(3.0), 7));
        assert_eq!((settings.batch, plan.jobs[15].out.as_path()), (50, Path::new("out/jumprelu-20-l0-3-seed7")));
        // 40 rows ten times in batches of 50.
        assert_eq!((settings.steps, settings.clip), (8, None));
        assert_eq!(settings.get(&GROUPS).unwrap(), [0.5, 0.5]);
        // A single one is written to the output directory itself.
        let one = ["pca".to_string()];
        let alone = TrainingGrid { ks: &[], seeds: &[0], ..grid(&one, &[], &[]) };
        assert_eq!(alone.plan(&store).unwrap().baselines[0].out, Path::new("out"));
    }

    #[test]
    fn invalid_grids_are_refused() {
        let store = ActivationStore::from_rows(vec![0.5; 40 * 8], 8).unwrap();
        let archs = ["topk".to_string()];
        let why = |grid: TrainingGrid<'_>| grid.plan(&store).unwrap_err().to_string();
        assert!(why(grid(&archs, &[], &[])).contains("`latents`"));
        assert!(why(grid(&archs, &[16], &[("bandwidth", "wide")])).contains("`bandwidth`"));
        assert!(why(grid(&archs, &[16], &[("nonsense", "1")])).contains("nonsense"));
        assert!(why(grid(&["nothing".to_string()], &[16], &[])).contains("no architecture"));
    }

    #[test]
    fn k_is_a_target_or_refused() {
        let store = ActivationStore::from_rows(vec![0.5; 40 * 8], 8).unwrap();
        let plan = |arch: &str, params: &[(&str, &str)], ks: &[usize], preset: Preset| {
            let archs = [arch.to_string()];
            let plan = TrainingGrid { ks, preset, ..grid(&archs, &[16], params) }.plan(&store);
            plan.map(|mut plan| plan.jobs.remove(0).settings)
        };
        for arch in ["relu", "relu_april", "gated", "jumprelu", "ra_jumprelu"] {
            assert_eq!(plan(arch, &[], &[4], Preset::Etalon).unwrap().control, Some(4.0), "{arch}");
            assert_eq!(plan(arch, &[("target-l0", "5")], &[], Preset::Etalon).unwrap().control, Some(5.0), "{arch}");
            let both = plan(arch, &[("target-l0", "5")], &[4], Preset::Etalon).unwrap_err().to_string();
            assert!(both.contains("`k`") && both.contains("`target-l0`"), "{both}");
        }
        // Without a target the published training has a fixed weight; JumpReLU always has a target.
        assert_eq!(plan("relu", &[], &[], Preset::Etalon).unwrap().control, None);
        assert_eq!(plan("jumprelu", &[], &[], Preset::Etalon).unwrap().control, Some(20.0));
        assert_eq!(plan("jumprelu", &[], &[], Preset::Saelens).unwrap().control, None);
        // The target is part of the published loss.
        let published = plan("jumprelu", &[], &[4], Preset::DictionaryLearning).unwrap();
        assert_eq!((published.control, published.get(&TARGET_L0).unwrap()), (None, 4.0));
        let weighted = plan("jumprelu", &[("l1", "1")], &[4], Preset::Etalon).unwrap();
        assert_eq!((weighted.control, weighted.get(&TARGET_L0).unwrap()), (None, 4.0));
        let why =
            |arch: &str, params: &[(&str, &str)]| plan(arch, params, &[4], Preset::Etalon).unwrap_err().to_string();
        assert!(why("relu", &[("l1", "0.1")]).contains("`l1` fixes"));
        assert!(why("p_anneal", &[]).contains("`p_anneal` has no `k`"));
    }

    #[test]
    fn schedules_longer_than_the_training_are_refused() {
        let store = ActivationStore::from_rows(vec![0.5; 40 * 8], 8).unwrap();
        let archs = ["topk".to_string()];
        let long = Changes { batch: 50, steps: Some(30), warmup: Some(30), ..Changes::default() };
        let error = TrainingGrid { changes: long.clone(), ..grid(&archs, &[16], &[]) }.plan(&store).unwrap_err();
        assert!(error.to_string().contains("at least 31 steps"), "{error}");
        let fits = Changes { warmup: Some(29), ..long };
        assert!(TrainingGrid { changes: fits, ..grid(&archs, &[16], &[]) }.plan(&store).is_ok());
    }
}
