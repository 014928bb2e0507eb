//! Which answers count: exclusion rules, and the units that answers are about.

use std::collections::BTreeMap;

use super::agreement::Answers;
use crate::error::{Error, InputError, Key, Result};
use crate::run::{Job, Response, Unit};

/// Rules for sessions, those of the published experiments by default.
pub(super) struct Rules<'a> {
    checks: &'a str,
    mode: &'a str,
    catch_share: f64,
    seconds: [f64; 2],
    instruction_seconds: [f64; 2],
    rarer_choice: usize,
    demo_attempts: f64,
}

/// How many answers and sessions a rule left out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Excluded {
    pub sessions: usize,
    pub failed: usize,
    /// Sessions of people who had taken part before.
    pub repeated: usize,
    /// Answers of sessions that do not count.
    pub answers: usize,
    /// Exercises and checks of attention.
    pub unscored: usize,
    pub other_mode: usize,
    pub unknown_unit: usize,
}

#[derive(Default)]
struct Session<'a> {
    trials: Vec<&'a Response>,
}

impl<'a> Rules<'a> {
    pub fn of(job: &Job<'a>) -> Result<Rules<'a>> {
        Ok(Rules {
            checks: job.word("checks")?,
            mode: job.word("mode")?,
            catch_share: job.number("catch_share")?,
            seconds: [job.number("min_seconds")?, job.number("max_seconds")?],
            instruction_seconds: [job.number("min_instruction_seconds")?, job.number("max_instruction_seconds")?],
            rarer_choice: job.whole("rarer_choice")?,
            demo_attempts: job.number("demo_attempts")?,
        })
    }

    /// Whether a session counts. A rule whose numbers are not in the table does not exclude.
    fn pass(&self, session: &Session<'_>) -> bool {
        let trials = &session.trials;
        match self.checks {
            "none" => return true,
            "stored" if trials.iter().any(|trial| trial.passed.is_some()) => {
                return trials.iter().all(|trial| trial.passed != Some(false));
            }
            _ => {}
        }
        let catch: Vec<bool> = trials.iter().filter(|trial| trial.catch).map(|trial| trial.correct).collect();
        let right = catch.iter().filter(|correct| **correct).count();
        let within = |number: fn(&Response) -> Option<f64>, [low, high]: [f64; 2]| {
            trials.iter().filter_map(|trial| number(trial)).all(|number| (low..=high).contains(&number))
        };
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| !trial.demo && !trial.place.is_empty()) {
            *places.entry(&trial.place).or_default() += 1;
        }
        // A session with one trial, or without known places, passes.
        let rarer = match (places.len(), places.values().sum::<usize>()) {
            (0, _) | (_, 1) => usize::MAX,
            (1, _) => 0,
            _ => places.values().copied().min().unwrap_or(0),
        };
        (catch.is_empty() || right as f64 >= self.catch_share * catch.len() as f64)
            && within(|trial| trial.seconds, self.seconds)
            && within(|trial| trial.instruction_seconds, self.instruction_seconds)
            && rarer >= self.rarer_choice
            && within(|trial| trial.demo_attempts, [0.0, self.demo_attempts])
    }

    /// The answers about every unit.
    pub fn answers(&self, trials: &[Response], units: &[Unit]) -> Result<(Vec<Answers>, Excluded)> {
        let mut numbers: BTreeMap<(&str, &str, u64), usize> = BTreeMap::new();
        // Names are needed only for answers without a number.
        let named = trials.iter().any(|trial| trial.unit.is_none());
        for (number, unit) in units.iter().enumerate().filter(|_| named) {
            let Some(channel) = unit.channel else { continue };
            let key = (unit.model.as_str(), unit.layer.as_str(), channel);
            if let Some(other) = numbers.insert(key, number) {
                return Err(InputError::new(format!("two lines of {} are the same unit", Key("units")))
                    .expected("different model, layer or channel")
                    .found(format!("{} {} {channel}", unit.model, unit.layer))
                    .at(format!("units {other} and {number}"))
                    .into());
            }
        }
        let mut sessions: BTreeMap<&str, Session<'_>> = BTreeMap::new();
        trials.iter().for_each(|trial| sessions.entry(&trial.session).or_default().trials.push(trial));
        let mut answers = vec![Answers::default(); units.len()];
        let mut excluded = Excluded { sessions: sessions.len(), ..Excluded::default() };
        for session in sessions.values() {
            let repeated = self.checks != "none" && session.trials.iter().any(|trial| trial.repeated);
            let passed = !repeated && self.pass(session);
            excluded.repeated += usize::from(repeated);
            excluded.failed += usize::from(!passed && !repeated);
            for trial in &session.trials {
                let unit = match trial.unit {
                    Some(unit) => usize::try_from(unit).ok().filter(|unit| *unit < units.len()),
                    None => trial.channel.and_then(|channel| {
                        numbers.get(&(trial.model.as_str(), trial.layer.as_str(), channel)).copied()
                    }),
                };
                match unit {
                    _ if trial.demo || trial.catch => excluded.unscored += 1,
                    _ if !passed => excluded.answers += 1,
                    _ if !self.mode.is_empty() && !trial.mode.is_empty() && trial.mode != self.mode => {
                        excluded.other_mode += 1;
                    }
                    None => excluded.unknown_unit += 1,
                    Some(unit) => {
                        let answers: &mut Answers =
                            answers.get_mut(unit).ok_or_else(|| Error::Bug(format!("unit {unit}")))?;
                        answers.total += 1;
                        answers.correct += usize::from(trial.correct);
                    }
                }
            }
        }
        Ok((answers, excluded))
    }
}

impl Excluded {
    /// What a reader must know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.failed + self.repeated > 0 {
            notes.push(format!(
                "{} of {} sessions failed the checks, {} are of people who had taken part before; their {} answers do not count",
                self.failed, self.sessions, self.repeated, self.answers
            ));
        }
        for (count, what) in [
            (self.unscored, "are exercises or checks of attention and do not count"),
            (self.other_mode, "are about another mode of explanation and do not count"),
            (self.unknown_unit, "are about units that are not in the table of units and do not count"),
        ] {
            if count > 0 {
                notes.push(format!("{count} answers {what}"));
            }
        }
        notes
    }
}
