//! Schedules within a training: default ones are shortened, given ones that do not fit are refused.

use super::params::{ANNEAL_START, EXPONENT_UPDATES, K_ANNEAL, SPARSITY_WARMUP};
use super::{AnyParam, find};
use crate::error::{InputError, Key, Result};
use crate::sae::train::TrainingSettings;

/// Shortens the default schedules of a short training: the warm-up to a tenth of the steps, the sparsity warm-up to a
/// fifth (a quarter of the steps with a controller), the start of the annealing to half. `given` tells which options the user set; their
/// schedules are kept, and refused if they do not end within the training.
pub fn fit_schedules(settings: &mut TrainingSettings, given: &dyn Fn(&str) -> bool) -> Result<()> {
    let (steps, params) = (settings.steps, find(&settings.arch)?.card().params);
    let has = |param: &dyn AnyParam| params.iter().any(|other| other.card().name == param.card().name);
    let check = |option: &str, end: u64| -> Result<()> {
        if end == 0 || end < steps {
            return Ok(());
        }
        Err(InputError::new(format!("the schedule of {} does not fit in the training", Key(option)))
            .expected(format!("at least {} steps", end.saturating_add(1)))
            .found(format!("{steps} steps"))
            .advice(format!("raise {}, or lower {}", Key("steps"), Key(option)))
            .into())
    };
    match given("warmup") {
        true => check("warmup", settings.warmup)?,
        false => settings.warmup = settings.warmup.min(steps / 10),
    }
    if given("decay-start") {
        check("decay-start", settings.decay_start.unwrap_or(0))?;
    }
    if given("resample") {
        check("resample", settings.resample.unwrap_or(0))?;
    }
    if has(&K_ANNEAL) && given("k-anneal") {
        check("k-anneal", settings.get(&K_ANNEAL)?)?;
    }
    if has(&SPARSITY_WARMUP) {
        let warmup = settings.get(&SPARSITY_WARMUP)?;
        match (given("sparsity-warmup"), settings.control) {
            (true, _) => check("sparsity-warmup", warmup)?,
            (false, None) => settings.params.set(&SPARSITY_WARMUP, warmup.min(steps / 5)),
            // It is the time in which the controller lowers L0, and there is no published default.
            (false, Some(_)) => settings.params.set(&SPARSITY_WARMUP, steps / 4),
        }
    }
    if has(&ANNEAL_START) {
        let start = settings.get(&ANNEAL_START)?;
        match given("anneal-start") {
            // Each update of the exponent needs a separate step.
            true => check("anneal-start", start.saturating_add(settings.get(&EXPONENT_UPDATES)? as u64 - 1))?,
            false => settings.params.set(&ANNEAL_START, start.min(steps / 2)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sae::preset::Preset;

    fn fitted(arch: &str, steps: u64, given: &[&str]) -> Result<TrainingSettings> {
        let settings = find(arch)?.settings(Preset::Etalon, 8, 16);
        let mut settings = TrainingSettings { steps, ..settings };
        fit_schedules(&mut settings, &|option| given.contains(&option)).map(|()| settings)
    }

    #[test]
    fn default_schedules_are_shortened() {
        let short = fitted("relu", 1500, &[]).unwrap();
        assert_eq!((short.warmup, short.get(&SPARSITY_WARMUP).unwrap()), (150, 300));
        let long = fitted("relu", 20_000, &[]).unwrap();
        assert_eq!((long.warmup, long.get(&SPARSITY_WARMUP).unwrap()), (1000, 2000));
        assert_eq!(fitted("p_anneal", 10_000, &[]).unwrap().get(&ANNEAL_START).unwrap(), 5000);
        assert_eq!(fitted("p_anneal", 40_000, &[]).unwrap().get(&ANNEAL_START).unwrap(), 15_000);
        assert_eq!(fitted("topk", 37, &[]).unwrap().warmup, 3);
    }

    #[test]
    fn given_schedules_that_do_not_fit_are_refused() {
        let why = |arch: &str, steps: u64, given: &str| fitted(arch, steps, &[given]).unwrap_err().to_string();
        // The values are the defaults: a warm-up of 1000, a sparsity warm-up of 2000, annealing from 15,000.
        let error = why("topk", 37, "warmup");
        assert!(error.contains("`warmup`") && error.contains("1001 steps") && error.contains("37 steps"), "{error}");
        assert!(why("relu", 1500, "sparsity-warmup").contains("2001 steps"));
        assert!(why("p_anneal", 10_000, "anneal-start").contains("15010 steps"));
        assert!(fitted("relu", 2001, &["sparsity-warmup", "warmup"]).is_ok());
        // A schedule of another architecture.
        assert!(fitted("topk", 1500, &["sparsity-warmup"]).is_ok());
    }
}
