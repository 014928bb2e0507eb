//! From scored pairs to numbers with intervals.

use std::collections::BTreeMap;

use super::pairs::{Asked, Plan};
use super::prompts::Prompts;
use super::settings::Settings;
use super::train::Trained;
use crate::error::Result;
use crate::metrics::resamples::{Draws, resamples};
use crate::results::{Cells, Scores, Table, percentile_interval};
use crate::run::{Job, Work};

/// Latents that a table lists of a mask.
const LISTED: usize = 20;

/// The headline numbers of a method: of the average, cause and isolation.
pub(super) const KEYS: [[&str; 3]; 2] = [
    ["disentanglement_score", "cause_score", "isolation_score"],
    ["mdas_disentanglement_score", "mdas_cause_score", "mdas_isolation_score"],
];

/// Right answers and pairs: of cause, then of isolation.
type Cell = [f64; 4];

/// Average, cause, isolation.
type Three = [Option<f64>; 3];

/// The scored pairs of one method, by base entity and attribute.
struct Counts {
    /// By entity; entities without a test pair are left out.
    cells: Vec<Vec<Cell>>,
    /// The kind of every attribute.
    kinds: Vec<usize>,
    attributes: usize,
}

impl Counts {
    fn new(prompts: &Prompts, asked: &[Asked], plans: &[Plan], results: &[Vec<bool>], released: bool) -> Counts {
        let attributes = prompts.attributes.len();
        let mut by_entity: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
        for (attribute, (plan, results)) in plans.iter().zip(results).enumerate() {
            for (pair, is_correct) in plan.test.iter().zip(results) {
                let cells = by_entity
                    .entry(prompts.prompts[pair.base].entity)
                    .or_insert_with(|| vec![Cell::default(); attributes]);
                // The released program tells the kinds of pairs apart by the first tokens of the two answers.
                let is_cause = if released { asked[pair.base].first != Some(pair.target) } else { pair.is_cause };
                let at = if is_cause { 0 } else { 2 };
                cells[attribute][at] += f64::from(u8::from(*is_correct));
                cells[attribute][at + 1] += 1.0;
            }
        }
        let kinds = prompts.attributes.iter().map(|attribute| attribute.kind).collect();
        Counts { cells: by_entity.into_values().collect(), kinds, attributes }
    }

    /// The sums of some entities, by attribute.
    fn sums(&self, entities: impl Iterator<Item = usize>) -> Vec<Cell> {
        let mut sums = vec![Cell::default(); self.attributes];
        for entity in entities {
            for (sum, cell) in sums.iter_mut().zip(&self.cells[entity]) {
                sum.iter_mut().zip(cell).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }

    /// The headline numbers: means over attributes, then over kinds.
    fn headline(&self, sums: &[Cell]) -> Three {
        let mut kinds: BTreeMap<usize, [Vec<f64>; 3]> = BTreeMap::new();
        for (kind, sum) in self.kinds.iter().zip(sums) {
            let lists = kinds.entry(*kind).or_default();
            lists.iter_mut().zip(of_attribute(sum)).for_each(|(list, value)| list.extend(value));
        }
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        [0, 1, 2].map(|which| mean(kinds.values().filter_map(|lists| mean(lists[which].clone())).collect()))
    }
}

/// The numbers of an attribute.
fn of_attribute([cause, causes, isolated, isolations]: &Cell) -> Three {
    let share = |right: &f64, count: &f64| (*count > 0.0).then(|| right / count);
    let (cause, isolation) = (share(cause, causes), share(isolated, isolations));
    [cause.zip(isolation).map(|(cause, isolation)| (cause + isolation) / 2.0), cause, isolation]
}

/// What was trained and scored with one method.
pub(super) struct MethodResults {
    pub trained: Vec<Trained>,
    pub results: Vec<Vec<bool>>,
}

/// Everything that numbers are made of.
pub(super) struct Outcome<'a> {
    pub prompts: &'a Prompts,
    pub asked: &'a [Asked],
    pub known: &'a [usize],
    pub plans: &'a [Plan],
    pub latents: MethodResults,
    pub basis: Option<MethodResults>,
}

/// All numbers.
pub(super) fn scores(job: &Job<'_>, work: &mut Work<'_>, settings: &Settings, outcome: &Outcome<'_>) -> Result<Scores> {
    let mut scores = Scores { notes: outcome.prompts.notes.clone(), ..Scores::default() };
    let mut table = attributes(outcome);
    let mut replicates = Vec::new();
    let methods = [Some(&outcome.latents), outcome.basis.as_ref()];
    for ((keys, method), prefix) in KEYS.into_iter().zip(methods).zip(["", "mdas_"]) {
        let Some(method) = method else {
            keys.iter().for_each(|key| scores.headline(key, None, None, 0));
            scores.note(format!("`{}` and its parts are undefined: the skyline was not trained", keys[0]));
            continue;
        };
        let counts = Counts::new(outcome.prompts, outcome.asked, outcome.plans, &method.results, settings.released);
        let entities = counts.cells.len();
        let sums = counts.sums(0..entities);
        let values = counts.headline(&sums);
        let draws: Vec<Three> = if entities < 2 {
            Vec::new()
        } else {
            resamples(job, work, "ravel", entities, |draws: Draws<'_>| counts.headline(&counts.sums(draws)))?
        };
        let pairs = |at: usize| sums.iter().map(|sum| sum[at]).sum::<f64>() as usize;
        let pairs = [pairs(1) + pairs(3), pairs(1), pairs(3)];
        for (which, key) in keys.into_iter().enumerate() {
            let of_key: Vec<Option<f64>> = draws.iter().map(|draw| draw[which]).collect();
            let value = values[which];
            let interval = percentile_interval(of_key.iter().copied().flatten().collect()).filter(|_| value.is_some());
            scores.headline(key, value, interval, if value.is_some() { pairs[which] } else { 0 });
            if value.is_none() {
                scores.note(format!("`{key}` is undefined: no attribute has such test pairs"));
            }
            replicates.push((key.to_string(), of_key));
        }
        for (which, name) in ["disentanglement", "cause", "isolation"].into_iter().enumerate() {
            table = table.numbers(&format!("{prefix}{name}"), sums.iter().map(|sum| of_attribute(sum)[which]));
        }
        let per_epoch = |plan: &Plan| plan.train.len().div_ceil(settings.batch).max(1) as f64;
        let losses = method
            .trained
            .iter()
            .zip(outcome.plans)
            .map(|(trained, plan)| trained.losses.iter().map(|sum| Some(sum / per_epoch(plan))).collect());
        table = table.with(&format!("{prefix}loss_by_epoch"), Cells::NumberLists(losses.collect()));
        if prefix.is_empty() {
            for (attribute, sum) in sums.iter().enumerate().filter(|(_, sum)| of_attribute(sum)[0].is_none()) {
                let name = outcome.prompts.attribute_name(attribute);
                let count = |at: usize| sum[at] as usize;
                scores.note(format!(
                    "`{name}` has {} cause and {} isolation test pairs, so that it has no score: too few prompts with a \
                     right answer, or answers that are all the same",
                    count(1),
                    count(3)
                ));
            }
        }
    }
    table = masks(table, &outcome.latents);
    scores.tables.push(table);
    scores.put_replicates(replicates);
    let right = outcome.asked.iter().filter(|asked| asked.is_correct).count();
    scores.note(format!(
        "{right} of {} prompts were answered correctly; {} of them are used",
        outcome.asked.len(),
        outcome.known.len()
    ));
    Ok(scores)
}

/// What is known about attributes before anything is exchanged.
fn attributes(outcome: &Outcome<'_>) -> Table {
    let Outcome { prompts, asked, known, plans, .. } = outcome;
    let count = |attribute: usize, counted: &dyn Fn(usize) -> bool| {
        let of = |index: &usize| prompts.prompts[*index].attribute == attribute && counted(*index);
        (0..prompts.prompts.len()).filter(of).count()
    };
    let all = 0..prompts.attributes.len();
    Table::new("attribute")
        .words("name", all.clone().map(|attribute| prompts.attribute_name(attribute)))
        .words("kind", prompts.attributes.iter().map(|attribute| prompts.kinds[attribute.kind].clone()))
        .words("attribute", prompts.attributes.iter().map(|attribute| attribute.name.clone()))
        .counts("prompts", all.clone().map(|attribute| count(attribute, &|_| true)))
        .counts("correct_prompts", all.clone().map(|attribute| count(attribute, &|index| asked[index].is_correct)))
        .counts("used_prompts", all.map(|attribute| count(attribute, &|index| known.binary_search(&index).is_ok())))
        .counts("train_pairs", plans.iter().map(|plan| plan.train.len()))
        .counts("test_pairs", plans.iter().map(|plan| plan.test.len()))
}

/// How many latents a mask exchanges, and the strongest of them.
fn masks(table: Table, latents: &MethodResults) -> Table {
    let chosen = |trained: &Trained| {
        let mut chosen: Vec<(f32, i64)> =
            trained.parameters.values.iter().zip(0..).map(|(mask, latent)| (*mask, latent)).collect();
        chosen.retain(|(mask, _)| *mask > 0.0);
        chosen.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        chosen
    };
    let lists: Vec<Vec<(f32, i64)>> = latents.trained.iter().map(chosen).collect();
    let first = lists.iter().map(|list| list.iter().take(LISTED).map(|(_, latent)| *latent).collect()).collect();
    table.counts("exchanged_latents", lists.iter().map(Vec::len)).with("strongest_latents", Cells::WholeLists(first))
}
