//! Lists of architectures × latents × active latents × seeds: what is trained or made, with which settings, and where it
//! goes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use crate::context::Context;
use crate::error::{InputError, Key, Result};
use crate::input::Tensors;
use crate::sae::arch;
use crate::sae::baseline::{self, BaselineParams};
use crate::sae::train::{Preset, TrainJob, TrainingSettings, steps_of_epochs};
use crate::sae::{Dictionary, checkpoint};
use crate::store::ActivationStore;

/// Times that every row is used unless something else is said.
const EPOCHS: f64 = 10.0;

/// Dictionaries to train, and baselines to make: one for every combination of the lists.
#[derive(Debug)]
pub struct TrainingGrid<'a> {
    /// Architectures and baselines.
    pub archs: &'a [String],
    /// Latents; baselines may do without.
    pub latents: &'a [usize],
    /// Active latents per row; none for those of the preset.
    pub ks: &'a [usize],
    /// Seeds.
    pub seeds: &'a [u64],
    /// Whose conventions to follow.
    pub preset: Preset,
    /// What replaces settings of the preset.
    pub changes: Changes,
    /// Weights to start from.
    pub initial: Option<Tensors>,
    /// Where to write: a directory, with one below for each dictionary if there are several.
    pub out: &'a Path,
}

/// What replaces settings of a preset.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Rows per step.
    pub batch: usize,
    /// Steps in all.
    pub steps: Option<u64>,
    /// Times that every row is used, where steps are not given.
    pub epochs: Option<f64>,
    /// Learning rate.
    pub rate: Option<f64>,
    /// Steps over which the learning rate rises.
    pub warmup: Option<u64>,
    /// Step from which the learning rate falls to 0.
    pub decay_start: Option<u64>,
    /// The global length to which gradients are cut; 0 does not cut.
    pub clip: Option<f64>,
    /// Rows without firing after which a latent is dead.
    pub dead_after: Option<u64>,
    /// Steps between two resamplings of silent latents.
    pub resample: Option<u64>,
    /// Whether inputs are divided by the root of their mean squared length.
    pub normalise: bool,
    /// Parameters of architectures as users write them, by option.
    pub params: BTreeMap<String, String>,
}

impl Changes {
    /// Changes settings for a store with so many rows.
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
}

/// A baseline to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineJob {
    /// Its name.
    pub name: String,
    /// Latents.
    pub latents: Option<usize>,
    /// Active latents per row.
    pub k: Option<usize>,
    /// The seed.
    pub seed: u64,
    /// Where it goes.
    pub out: PathBuf,
}

/// The work of a grid.
#[derive(Debug)]
pub struct TrainingPlan {
    /// Dictionaries to train together.
    pub jobs: Vec<TrainJob>,
    /// Baselines to make.
    pub baselines: Vec<BaselineJob>,
}

/// Every number that was given, or none.
fn each(list: &[usize]) -> Vec<Option<usize>> {
    if list.is_empty() { vec![None] } else { list.iter().map(|&number| Some(number)).collect() }
}

impl TrainingGrid<'_> {
    /// What to train and to make on the rows of a store.
    pub fn plan(&self, store: &ActivationStore) -> Result<TrainingPlan> {
        let (made, learnt): (Vec<&str>, Vec<&str>) =
            self.archs.iter().map(String::as_str).partition(|name| baseline::find(name).is_some());
        let mut plan = TrainingPlan { jobs: self.jobs(&learnt, store)?, baselines: self.baselines(&made) };
        // One dictionary goes to the output itself, several below it.
        match (plan.jobs.as_mut_slice(), plan.baselines.as_mut_slice()) {
            ([job], []) => job.out = self.out.into(),
            ([], [one]) => one.out = self.out.into(),
            _ => {}
        }
        Ok(plan)
    }

    fn jobs(&self, names: &[&str], store: &ActivationStore) -> Result<Vec<TrainJob>> {
        let mut jobs = Vec::new();
        for name in names {
            let arch = arch::find(name)?;
            if self.latents.is_empty() {
                return Err(InputError::new(format!("nothing says how many latents `{name}` should have"))
                    .advice(format!("add {} L", Key("latents")))
                    .into());
            }
            for &latents in self.latents {
                for k in each(self.ks) {
                    for &seed in self.seeds {
                        let mut settings = arch.settings(self.preset, store.width(), latents);
                        self.changes.apply(&mut settings, store.rows())?;
                        (settings.k, settings.seed) = (k.unwrap_or(settings.k), seed);
                        let out = self.folder(name, Some(latents), k, seed);
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
                        let out = self.folder(name, latents, k, seed);
                        baselines.push(BaselineJob { name: name.to_string(), latents, k, seed, out });
                    }
                }
            }
        }
        baselines
    }

    fn folder(&self, name: &str, latents: Option<usize>, k: Option<usize>, seed: u64) -> PathBuf {
        let size = latents.map_or(String::new(), |latents| format!("-{latents}"));
        let active = k.map_or(String::new(), |k| format!("-k{k}"));
        self.out.join(format!("{name}{size}{active}-seed{seed}"))
    }
}

impl BaselineJob {
    /// Makes the baseline for the rows of a store, and writes it. It may take size and sparsity from another dictionary.
    pub fn run(
        &self,
        store: &ActivationStore,
        like: Option<&dyn Dictionary>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        let BaselineJob { name, latents, k, seed, out } = self;
        let baseline = baseline::find(name)
            .ok_or_else(|| InputError::new(format!("there is no baseline `{name}`")).advice("see `etalon archs`"))?;
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
    fn every_combination_has_a_folder() {
        let store = ActivationStore::from_rows(vec![0.5; 40 * 8], 8).unwrap();
        let archs = ["topk", "random", "jumprelu"].map(String::from);
        let plan = grid(&archs, &[16, 20], &[("target-l0", "3"), ("groups", "0.5,0.5")]).plan(&store).unwrap();
        assert_eq!((plan.jobs.len(), plan.baselines.len()), (16, 8));
        assert_eq!(plan.jobs[1].out, Path::new("out/topk-16-k2-seed7"));
        assert_eq!(plan.baselines[7].out, Path::new("out/random-20-k3-seed7"));
        let settings = &plan.jobs[15].settings;
        assert_eq!((settings.arch.as_str(), settings.k, settings.seed, settings.batch), ("jumprelu", 3, 7, 50));
        // 40 rows ten times in batches of 50.
        assert_eq!((settings.steps, settings.clip), (8, None));
        assert_eq!(settings.get(&TARGET_L0).unwrap(), 3.0);
        assert_eq!(settings.get(&GROUPS).unwrap(), [0.5, 0.5]);
        // One alone goes to the output itself.
        let one = ["pca".to_string()];
        let alone = TrainingGrid { ks: &[], seeds: &[0], ..grid(&one, &[], &[]) };
        assert_eq!(alone.plan(&store).unwrap().baselines[0].out, Path::new("out"));
    }

    #[test]
    fn what_cannot_be_trained_is_refused() {
        let store = ActivationStore::from_rows(vec![0.5; 40 * 8], 8).unwrap();
        let archs = ["topk".to_string()];
        let why = |grid: TrainingGrid<'_>| grid.plan(&store).unwrap_err().to_string();
        assert!(why(grid(&archs, &[], &[])).contains("`latents`"));
        assert!(why(grid(&archs, &[16], &[("bandwidth", "wide")])).contains("`bandwidth`"));
        assert!(why(grid(&archs, &[16], &[("nonsense", "1")])).contains("nonsense"));
        assert!(why(grid(&["nothing".to_string()], &[16], &[])).contains("no architecture"));
    }
}
