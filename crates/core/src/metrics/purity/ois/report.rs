//! The scores of the matrices: headline numbers, the table of all pairs, and the comparison of helper networks.

use crate::labels::Factors;
use crate::metrics::purity::concepts::{note_unused_classes, split_interval};
use crate::results::{Cells, Interval, Profile, Scores, Table};
use crate::run::Job;

use super::matrices::{Align, Measured, OisSettings, Repeat};

/// Scores without a value.
pub(super) fn undefined(reason: String) -> Scores {
    let mut scores = Scores::default();
    ["ois", "ois_noise", "ois_corrected"].iter().for_each(|key| scores.headline(key, None, None, 0));
    scores.note(format!("undefined: {reason}"));
    scores
}

/// The headline numbers of one size of helper networks.
struct Numbers {
    ois: f64,
    interval: Option<Interval>,
    noise: f64,
    corrected: f64,
}

impl Numbers {
    fn of(measured: &Measured, factor: f64) -> Numbers {
        let count = measured.repeats.len() as f64;
        let mean = |number: &dyn Fn(&Repeat) -> f64| factor * measured.repeats.iter().map(number).sum::<f64>() / count;
        let ois = mean(&Repeat::norm);
        let by_split: Vec<f64> = measured.repeats.iter().map(|repeat| factor * repeat.norm()).collect();
        Numbers {
            ois,
            // A fifth of the rows is the test: one test row for four training rows.
            interval: split_interval(ois, &by_split, 0.25, (0.0, f64::INFINITY)),
            noise: mean(&|repeat| repeat.noise().sqrt()),
            corrected: mean(&|repeat| (repeat.norm().powi(2) - repeat.noise()).max(0.0).sqrt()),
        }
    }
}

pub(super) fn scores(
    job: &Job<'_>,
    factors: &Factors,
    usable: &[usize],
    settings: &OisSettings,
    measured: &[(usize, Measured)],
    sources: usize,
) -> Scores {
    let mut scores = Scores::default();
    let unnormalised = job.profile == Profile::Reference && settings.align != Align::InOrder;
    let factor = if unnormalised { 1.0 } else { 2.0 / usable.len() as f64 };
    let numbers: Vec<(usize, Numbers)> =
        measured.iter().map(|(hidden, measured)| (*hidden, Numbers::of(measured, factor))).collect();
    let Some(((_, first), (_, matrices))) = numbers.first().zip(measured.first()) else {
        return undefined("no size of helper networks is given".into());
    };
    scores.headline("ois", Some(first.ois), first.interval, usable.len());
    scores.headline("ois_noise", Some(first.noise), None, usable.len());
    scores.headline("ois_corrected", Some(first.corrected), None, usable.len());
    if usable.len() < factors.count() {
        let left_out = factors.count() - usable.len();
        scores.note(format!(
            "{left_out} of {} concepts lack two classes in the training or the test rows and do not count",
            factors.count()
        ));
    }
    if unnormalised {
        scores.note("profile `reference` does not divide by k/2 when representations are aligned");
    }
    if matrices.considered < sources {
        scores.note(format!("{} of {sources} representations were considered for the alignment", matrices.considered));
    }
    note_unused_classes(factors, &mut scores);
    let name = |concept: usize| factors.names()[usable[concept]].clone();
    let concepts = usable.len();
    let entries = || (0..concepts * concepts).map(|entry| (entry / concepts, entry % concepts));
    let mean = |number: &dyn Fn(&Repeat) -> Option<f64>| {
        let sum = matrices.repeats.iter().map(number).sum::<Option<f64>>();
        sum.map(|sum| sum / matrices.repeats.len() as f64)
    };
    let impurity = |entry: usize| mean(&|repeat| repeat.impurity(entry));
    let latents = |concept: usize| Some(matrices.source_of[concept] as i64);
    scores.tables.push(
        Table::new("concept")
            .words("name", (0..concepts).map(name))
            .with("representation", Cells::Whole((0..concepts).map(latents).collect()))
            .numbers("own_auc", (0..concepts).map(|concept| mean(&|repeat| repeat.purity[concept * (concepts + 1)])))
            .numbers("impurity", (0..concepts).map(|row| root(&|other| impurity(row * concepts + other), concepts)))
            .numbers(
                "revealed_by_others",
                (0..concepts).map(|column| {
                    root(&|other| (other != column).then(|| impurity(other * concepts + column))?, concepts)
                }),
            ),
    );
    scores.tables.push(
        Table::new("entry")
            .words("representation_of", entries().map(|(row, _)| name(row)))
            .words("concept", entries().map(|(_, column)| name(column)))
            .numbers("purity", (0..concepts * concepts).map(|entry| mean(&|repeat| repeat.purity[entry])))
            .numbers("oracle", (0..concepts * concepts).map(|entry| mean(&|repeat| repeat.oracle[entry])))
            .numbers("impurity", (0..concepts * concepts).map(impurity))
            .numbers(
                "standard_error",
                (0..concepts * concepts).map(|entry| mean(&|repeat| Some(repeat.variances[entry].sqrt()))),
            ),
    );
    if numbers.len() > 1 {
        scores.tables.push(
            Table::new("helper")
                .counts("hidden", numbers.iter().map(|(hidden, _)| *hidden))
                .numbers("ois", numbers.iter().map(|(_, numbers)| Some(numbers.ois)))
                .numbers("low", numbers.iter().map(|(_, numbers)| numbers.interval.map(|interval| interval.low)))
                .numbers("high", numbers.iter().map(|(_, numbers)| numbers.interval.map(|interval| interval.high)))
                .numbers("ois_corrected", numbers.iter().map(|(_, numbers)| Some(numbers.corrected))),
        );
    }
    scores
}

/// The root of the mean square of the defined values.
fn root(value: &dyn Fn(usize) -> Option<f64>, count: usize) -> Option<f64> {
    let squares: Vec<f64> = (0..count).filter_map(value).map(|value| value * value).collect();
    (!squares.is_empty()).then(|| (squares.iter().sum::<f64>() / squares.len() as f64).sqrt())
}
