//! `stability`: do dictionaries that were trained with other seeds find the same directions?

use rayon::prelude::*;

use super::{Better, Card, Kind, Metric, Need, Output, Param};
use crate::error::{Complaint, Error, Result};
use crate::kernel::assignment::assign;
use crate::kernel::product::{dot, rows_by_rows};
use crate::kernel::statistics::{deviation, mean};
use crate::kernel::top::{largest, truncate_to_largest};
use crate::results::{Cells, Profile, Scores, Table, bootstrap_mean};
use crate::run::{Blocks, Column, Job, Next, Tally};
use crate::store::ActivationStore;

/// Whether other seeds find the same directions.
pub struct Stability;

const EXACT: Param = Param {
    name: "exact",
    doc: "Latents up to which the assignment is optimal; above it is greedy",
    kind: Kind::Whole(1, 65_536),
    several: false,
    default: "4096",
    reference: None,
};

const SIGN: Param = Param {
    name: "sign",
    doc: "Whether opposite directions are different or the same",
    kind: Kind::Word(&["matters", "ignored"]),
    several: false,
    default: "matters",
    reference: None,
};

const COSINE: (f64, f64) = (-1.0, 1.0);
const SHARE: (f64, f64) = (0.0, 1.0);

const fn output(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}

static CARD: Card = Card {
    name: "stability",
    title: "Stability",
    summary: "How nearly dictionaries trained with other seeds have the same directions.",
    version: 1,
    measures: "If two trainings that differ only in their seed find different directions, then a direction says as much \
        about the seed as about the data. Every latent is paired with one latent of the other dictionary, in the way that \
        is best for all together, and the cosine of the two directions is reported. 1 means that both found the same. \
        Random directions of width d reach about 1/√d and more the more of them there are: compare with dictionaries made \
        by `etalon train --arch untrained`.",
    definition: "Directions are scaled to length 1. For dictionaries A and B the assignment pairs each latent with at most \
        one of the other, as many as the smaller one has, and maximises the sum of cosines; ties go to the lower latent. \
        `stability` is the mean over latents of the dictionary under test of the cosine with its partner, averaged over \
        the other dictionaries first; stability_over_0_7 and stability_over_0_9: the share of latents where that mean is \
        above 0.7, 0.9. stability_all_pairs: the mean over every pair of dictionaries, those among the others included, of \
        the pair's mean cosine; stability_spread: the standard deviation (n − 1) of these. cosine_hungarian_sum and \
        cosine_hungarian_mean: sum and mean of 1 − cosine over the partners, averaged over the other dictionaries.\n\
        `sign ignored` takes the absolute cosine, for dictionaries whose codes are signed (PCA).\n\
        With more than `exact` latents on the larger side the assignment is greedy: of all pairs the one with the largest \
        cosine is made first, ties to the lower latents, then the largest among the rest. The table `pair` says which it \
        was, and gives as `bound` the mean over latents of the largest cosine with any latent, which no assignment can \
        exceed. Where the cosines are not negative, greedy reaches at least half of the optimum; in practice nearly all.\n\
        Latents without length, and those that find no partner, have no value and are left out, with a note. Undefined \
        without any partner; the spread is undefined for one pair.\n\
        Profile `reference`: the assignment is always optimal, and a direction without length has cosine 0 with everything \
        and takes part.",
    cost: "No pass. For each pair of dictionaries latents² · width operations and 12 bytes · latents² up to `exact` (200 MB \
        at 4096), with at worst latents³ steps; above it 64 candidates per latent (34 MB at 65,536) and blocks of 256 lines.",
    source: "Cosine Hungarian loss of the program overcomplete, as stability is measured in \"Archetypal SAE\" (arXiv \
        2502.12892): sum of 1 − cosine over the optimal assignment. It is `cosine_hungarian_sum` here; means and shares do \
        not depend on the number of latents.",
    interval: "Percentile bootstrap over latents of the dictionary under test, 1000 resamples, the assignment kept. None \
        for all pairs and their spread, of which there are few.",
    needs: &[Need::Directions, Need::Others],
    uses: &[],
    headline: &[
        output("stability", "mean cosine with the partner in other dictionaries", COSINE, Better::Higher),
        output("stability_over_0_7", "share of latents with a mean cosine above 0.7", SHARE, Better::Higher),
        output("stability_over_0_9", "share of latents with a mean cosine above 0.9", SHARE, Better::Higher),
        output("stability_all_pairs", "mean over every pair of dictionaries", COSINE, Better::Higher),
        output("stability_spread", "standard deviation over every pair", (0.0, f64::INFINITY), Better::Lower),
        output("cosine_hungarian_sum", "sum of 1 − cosine over partners", (0.0, f64::INFINITY), Better::Lower),
        output("cosine_hungarian_mean", "mean of 1 − cosine over partners", (0.0, 2.0), Better::Lower),
    ],
    params: &[EXACT, SIGN],
};

impl Metric for Stability {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let count = job.inputs.others.len() + 1;
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
        Ok(Next::Blocks(Box::new(Pairs {
            pairs,
            exact: if job.profile == Profile::Reference { usize::MAX } else { job.whole(EXACT.name)? },
            unsigned: job.word(SIGN.name)? == "ignored",
        })))
    }
}

/// Every pair of dictionaries; number 0 is the one under test.
struct Pairs {
    pairs: Vec<(usize, usize)>,
    exact: usize,
    unsigned: bool,
}

fn dictionary<'a>(place: usize, job: &Job<'a>) -> Result<&'a ActivationStore> {
    let store = match place.checked_sub(1) {
        None => job.inputs.directions.as_deref(),
        Some(other) => job.inputs.others.get(other).map(|store| store.as_ref()),
    };
    store.ok_or_else(|| Error::Bug(format!("there is no dictionary {place}")))
}

impl Pairs {
    /// Partner and cosine of each latent of the first, and the bound.
    fn compare(&self, first: &ActivationStore, second: &ActivationStore, job: &Job<'_>) -> Result<Compared> {
        if first.width() != second.width() {
            return Err(Complaint::new("directions differ in width")
                .expected(format!("width {}", first.width()))
                .found(format!("width {}", second.width()))
                .advice("compare dictionaries of the same activations")
                .into());
        }
        let width = first.width();
        let bytes = (first.rows() as u64 + second.rows() as u64).saturating_mul(4 * width as u64);
        let what = format!("the directions of {} and {} latents", first.rows(), second.rows());
        let _copies = job.budget.take(bytes, what.clone())?;
        let keep = job.profile == Profile::Reference;
        let (rows, columns) = (Units::of(first, keep)?, Units::of(second, keep)?);
        let cosines = Cosines { rows, columns, width, unsigned: self.unsigned };
        let optimal = first.rows().max(second.rows()) <= self.exact;
        let (partners, best) = if optimal { cosines.optimal(job, &what)? } else { cosines.greedy(job)? };
        let cosine = |(row, column): (usize, &Option<usize>)| column.map(|column| cosines.exactly(row, column));
        let values: Vec<Option<f64>> = partners.iter().enumerate().map(cosine).collect();
        let bound: Vec<f64> = best.iter().copied().flatten().collect();
        Ok(Compared { partners, values, bound: mean(&bound), optimal })
    }
}

struct Compared {
    partners: Vec<Option<usize>>,
    values: Vec<Option<f64>>,
    bound: Option<f64>,
    optimal: bool,
}

/// What stands for nothing in the lists of a tally.
const NOTHING: f64 = f64::NEG_INFINITY;

fn written(value: Option<f64>) -> f64 {
    value.unwrap_or(NOTHING)
}

fn read(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl Blocks for Pairs {
    fn count(&self) -> usize {
        self.pairs.len()
    }

    fn unit(&self) -> &'static str {
        "pairs of dictionaries"
    }

    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let &(a, b) = self.pairs.get(block).ok_or_else(|| Error::Bug(format!("there is no pair {block}")))?;
        let Compared { partners, values, bound, optimal } =
            self.compare(dictionary(a, job)?, dictionary(b, job)?, job)?;
        let mut list = vec![f64::from(u8::from(optimal)), written(bound)];
        list.extend(values.iter().map(|&value| written(value)));
        list.extend(partners.iter().map(|partner| written(partner.map(|partner| partner as f64))));
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let mut all = Vec::new();
        for (_, list) in tally.lists(0)? {
            let [optimal, bound, rest @ ..] = &list[..] else {
                return Err(Error::Bug("a pair of dictionaries without its list".into()));
            };
            let (values, partners) = rest.split_at(rest.len() / 2);
            all.push(Compared {
                partners: partners.iter().map(|&partner| read(partner).map(|partner| partner as usize)).collect(),
                values: values.iter().map(|&value| read(value)).collect(),
                bound: read(*bound),
                optimal: *optimal == 1.0,
            });
        }
        if all.len() != self.pairs.len() {
            return Err(Error::Bug(format!("{} of {} pairs of dictionaries", all.len(), self.pairs.len())));
        }
        Ok(Next::Done(self.scores(&all, job)?))
    }
}

impl Pairs {
    fn scores(&self, all: &[Compared], job: &Job<'_>) -> Result<Scores> {
        let latents = dictionary(0, job)?.rows();
        let mine: Vec<&Compared> =
            self.pairs.iter().zip(all).filter(|((a, _), _)| *a == 0).map(|(_, compared)| compared).collect();
        let of_latent = |latent: usize| -> Vec<Option<f64>> {
            mine.iter().map(|compared| compared.values.get(latent).copied().flatten()).collect()
        };
        let by_other: Vec<Vec<Option<f64>>> = (0..latents).map(of_latent).collect();
        let defined = |values: &[Option<f64>]| -> Vec<f64> { values.iter().copied().flatten().collect() };
        let means: Vec<Option<f64>> = by_other.iter().map(|values| mean(&defined(values))).collect();
        let values = defined(&means);
        let over =
            |limit: f64| -> Vec<f64> { values.iter().map(|&value| f64::from(u8::from(value > limit))).collect() };

        let mut scores = Scores::default();
        let mut put = |key: &str, values: &[f64]| {
            scores.headline(key, mean(values), bootstrap_mean(values, job.seed, "stability/latents"), values.len());
        };
        put("stability", &values);
        put("stability_over_0_7", &over(0.7));
        put("stability_over_0_9", &over(0.9));
        let pair_means: Vec<f64> = all.iter().filter_map(|compared| mean(&defined(&compared.values))).collect();
        scores.headline("stability_all_pairs", mean(&pair_means), None, pair_means.len());
        scores.headline("stability_spread", deviation(&pair_means), None, pair_means.len());
        let loss = |compared: &Compared| -> Vec<f64> {
            defined(&compared.values).into_iter().map(|cosine| (1.0 - cosine).max(0.0)).collect()
        };
        let sums: Vec<f64> = mine
            .iter()
            .map(|compared| loss(compared))
            .filter(|loss| !loss.is_empty())
            .map(|l| l.iter().sum())
            .collect();
        let losses: Vec<f64> = mine.iter().filter_map(|compared| mean(&loss(compared))).collect();
        scores.headline("cosine_hungarian_sum", mean(&sums), None, sums.len());
        scores.headline("cosine_hungarian_mean", mean(&losses), None, losses.len());

        if values.is_empty() {
            scores.note("no latent has a partner: undefined");
        } else if values.len() < latents {
            scores.note(format!(
                "{} of {latents} latents have no length or no partner and are left out",
                latents - values.len()
            ));
        }
        if all.len() < 2 {
            scores.note("one pair of dictionaries has no spread: give --other several times");
        }
        let greedy = all.iter().filter(|compared| !compared.optimal).count();
        if greedy > 0 {
            scores.note(format!(
                "{greedy} of {} pairs are too large for the optimal assignment and were assigned greedily; `bound` in the \
                 table `pair` says how much better an optimal one could be",
                all.len()
            ));
        }
        scores.tables.push(
            Table::new("latent")
                .counts("index", 0..latents)
                .numbers("score", means.iter().copied())
                .with("cosine_by_other", Cells::NumberLists(by_other))
                .with(
                    "partner_by_other",
                    Cells::WholeLists((0..latents).map(|latent| partners(&mine, latent)).collect()),
                ),
        );
        let share = |compared: &Compared, limit: f64| {
            let values = defined(&compared.values);
            mean(&values.iter().map(|&value| f64::from(u8::from(value > limit))).collect::<Vec<_>>())
        };
        let total = |compared: &Compared| Some(loss(compared)).filter(|loss| !loss.is_empty()).map(|l| l.iter().sum());
        scores.tables.push(
            Table::new("pair")
                .counts("first", self.pairs.iter().map(|pair| pair.0))
                .counts("second", self.pairs.iter().map(|pair| pair.1))
                .words("assignment", all.iter().map(|one| if one.optimal { "optimal" } else { "greedy" }))
                .counts("partners", all.iter().map(|one| one.values.iter().flatten().count()))
                .numbers("cosine", all.iter().map(|one| mean(&defined(&one.values))))
                .numbers("bound", all.iter().map(|one| one.bound))
                .numbers("over_0_7", all.iter().map(|one| share(one, 0.7)))
                .numbers("over_0_9", all.iter().map(|one| share(one, 0.9)))
                .numbers("cosine_hungarian_sum", all.iter().map(total))
                .numbers("cosine_hungarian_mean", all.iter().map(|one| mean(&loss(one)))),
        );
        Ok(scores)
    }
}

/// The partners of a latent, −1 where there is none.
fn partners(mine: &[&Compared], latent: usize) -> Vec<i64> {
    mine.iter().map(|one| one.partners.get(latent).copied().flatten().map_or(-1, |partner| partner as i64)).collect()
}

/// Directions of length 1; those without length are 0.
struct Units {
    values: Vec<f32>,
    takes_part: Vec<bool>,
}

impl Units {
    /// `keep` lets directions without length take part.
    fn of(store: &ActivationStore, keep: bool) -> Result<Units> {
        let mut values = store.tile(0..store.rows())?.values.into_owned();
        let mut takes_part = Vec::with_capacity(store.rows());
        for row in values.chunks_exact_mut(store.width()) {
            let length = dot(row, row).sqrt();
            takes_part.push(keep || length > 0.0);
            if length > 0.0 {
                row.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
            }
        }
        Ok(Units { values, takes_part })
    }

    fn len(&self) -> usize {
        self.takes_part.len()
    }
}

/// The cosines of the directions of two dictionaries, never all at once unless they are few.
struct Cosines {
    rows: Units,
    columns: Units,
    width: usize,
    unsigned: bool,
}

/// The partner of each row, and the largest cosine of each row.
type Found = (Vec<Option<usize>>, Vec<Option<f64>>);

/// Lines that are multiplied at a time.
const LINES: usize = 256;
/// Candidates of a row that are kept at a time.
const CANDIDATES: usize = 64;

impl Cosines {
    fn sized(&self, cosine: f32) -> f32 {
        if self.unsigned { cosine.abs() } else { cosine }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.rows.values[row * self.width..][..self.width]
    }

    /// What is reported is computed in double precision.
    fn exactly(&self, row: usize, column: usize) -> f64 {
        let cosine = dot(self.row(row), &self.columns.values[column * self.width..][..self.width]).clamp(-1.0, 1.0);
        if self.unsigned { cosine.abs() } else { cosine }
    }

    /// The cosines of some rows with all columns, line by line; columns that take no part are minus infinity.
    fn lines(&self, rows: &[f32]) -> Vec<f32> {
        let columns = self.columns.len();
        let mut lines = vec![0.0; rows.len() / self.width * columns];
        rows_by_rows(rows, &self.columns.values, self.width, &mut lines);
        for line in lines.chunks_exact_mut(columns.max(1)) {
            for (cosine, takes_part) in line.iter_mut().zip(&self.columns.takes_part) {
                *cosine = if *takes_part { self.sized(*cosine) } else { f32::NEG_INFINITY };
            }
        }
        lines
    }

    fn optimal(&self, job: &Job<'_>, what: &str) -> Result<Found> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let cells = (rows as u64).saturating_mul(columns as u64);
        let _memory = job.budget.take(cells.saturating_mul(12), what)?;
        let mut costs = vec![f64::INFINITY; rows * columns];
        let pieces = costs.par_chunks_mut((LINES * columns).max(1));
        pieces.zip(self.rows.values.par_chunks(LINES * self.width)).enumerate().for_each(|(piece, (costs, values))| {
            let lines = self.lines(values);
            for (place, (costs, line)) in costs.chunks_mut(columns).zip(lines.chunks(columns)).enumerate() {
                if self.rows.takes_part[piece * LINES + place] {
                    costs.iter_mut().zip(line).for_each(|(cost, &cosine)| *cost = -f64::from(cosine));
                }
            }
        });
        let best = costs.chunks(columns.max(1)).map(|line| {
            let least = line.iter().copied().fold(f64::INFINITY, f64::min);
            least.is_finite().then_some(-least)
        });
        let best = best.collect();
        Ok((assign(&costs, rows, columns), best))
    }

    /// The best columns of a row among the free ones.
    fn candidates(&self, row: usize, free: &[bool]) -> Vec<(f32, u32)> {
        let line = self.lines(self.row(row));
        let open = line.iter().zip(free).enumerate().filter(|(_, (cosine, free))| **free && cosine.is_finite());
        let mut list: Vec<(f32, u32)> = open.map(|(column, (&cosine, _))| (cosine, column as u32)).collect();
        truncate_to_largest(&mut list, CANDIDATES);
        list
    }

    /// The largest cosine of all first. Every row keeps its best candidates, and looks again when all of them are taken.
    fn greedy(&self, job: &Job<'_>) -> Result<Found> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let lines = (rayon::current_num_threads() * LINES).saturating_mul(columns).saturating_mul(12);
        let bytes = lines as u64 + (rows * CANDIDATES * 8) as u64;
        let _memory = job.budget.take(bytes, format!("candidates among {columns} latents for {rows}"))?;
        let of_piece = |(piece, values): (usize, &[f32])| -> Vec<Vec<(f32, u32)>> {
            let (lines, mut scratch) = (self.lines(values), Vec::new());
            let list = |(place, line): (usize, &[f32])| {
                scratch.clear();
                if self.rows.takes_part[piece * LINES + place] {
                    largest(line, CANDIDATES, &mut scratch);
                    scratch.retain(|entry| entry.0.is_finite());
                }
                scratch.clone()
            };
            lines.chunks_exact(columns.max(1)).enumerate().map(list).collect()
        };
        let pieces: Vec<Vec<Vec<(f32, u32)>>> =
            self.rows.values.par_chunks(LINES * self.width).enumerate().map(of_piece).collect();
        let mut lists: Vec<Vec<(f32, u32)>> = pieces.into_iter().flatten().collect();
        lists.resize(rows, Vec::new());
        let best = lists.iter().map(|list| list.first().map(|entry| f64::from(entry.0))).collect();
        let mut free = vec![true; columns];
        let mut partner = vec![None; rows];
        let mut next = vec![0usize; rows];
        let head = |lists: &[Vec<(f32, u32)>], row: usize, place: usize| {
            lists[row].get(place).map(|&(cosine, column)| Head { cosine, row, column: column as usize })
        };
        let mut heap: std::collections::BinaryHeap<Head> = (0..rows).filter_map(|row| head(&lists, row, 0)).collect();
        while let Some(Head { row, column, .. }) = heap.pop() {
            if std::mem::replace(&mut free[column], false) {
                partner[row] = Some(column);
                continue;
            }
            while lists[row].get(next[row]).is_some_and(|entry| !free[entry.1 as usize]) {
                next[row] += 1;
            }
            if next[row] == lists[row].len() {
                (lists[row], next[row]) = (self.candidates(row, &free), 0);
            }
            heap.extend(head(&lists, row, next[row]));
        }
        Ok((partner, best))
    }
}

/// The best that a row can still have. Larger cosine first, then the lower row, then the lower column.
struct Head {
    cosine: f32,
    row: usize,
    column: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        self.cosine.total_cmp(&other.cosine).then(other.row.cmp(&self.row)).then(other.column.cmp(&self.column))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::budget::Budget;
    use crate::kernel::random::{permutation, stream, unit};
    use crate::metrics::{evaluate, recipe};
    use crate::progress::Silent;
    use crate::run::{Engine, Inputs};

    fn store(values: &[f32], width: usize) -> ActivationStore {
        ActivationStore::from_rows(values.to_vec(), width).unwrap()
    }

    fn run(inputs: &Inputs, profile: Profile, given: &[(&str, &str)], threads: usize) -> Scores {
        let cancel = AtomicBool::new(false);
        let engine = Engine::new(threads, Budget::new(1 << 28), &Silent, &cancel).unwrap();
        let given: BTreeMap<String, String> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let recipe = recipe(&Stability, inputs, &given, profile, 0).unwrap();
        evaluate(&Stability, inputs, recipe, &engine).unwrap().scores
    }

    fn inputs(mine: ActivationStore, others: Vec<ActivationStore>) -> Inputs {
        Inputs {
            directions: Some(mine.into()),
            others: others.into_iter().map(Into::into).collect(),
            ..Inputs::default()
        }
    }

    fn near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-6)
    }

    #[test]
    fn by_hand() {
        // A: (1, 0), (0, 1). B: (3, 4), (0, 2). Cosines: (0.6, 0), (0.8, 1). Straight 0.6 + 1 beats crossed 0 + 0.8.
        let mine = || store(&[1.0, 0.0, 0.0, 1.0], 2);
        let scores = run(&inputs(mine(), vec![store(&[3.0, 4.0, 0.0, 2.0], 2)]), Profile::Paper, &[], 1);
        assert!(near(scores.value("stability"), 0.8));
        assert_eq!(scores.value("stability_over_0_7"), Some(0.5));
        assert_eq!(scores.value("stability_over_0_9"), Some(0.5));
        assert!(near(scores.value("cosine_hungarian_sum"), 0.4) && near(scores.value("cosine_hungarian_mean"), 0.2));
        assert_eq!(scores.value("stability_spread"), None);
        let latents = scores.table("latent").unwrap();
        assert_eq!(latents.column("partner_by_other"), Some(&Cells::WholeLists(vec![vec![0], vec![1]])));
        // A third dictionary is A with its signs turned: −0.6 and −0.8 cross over with 0 and −1 to B, 0 and 0 to A.
        let turned = store(&[-1.0, 0.0, 0.0, -1.0], 2);
        let three = inputs(mine(), vec![store(&[3.0, 4.0, 0.0, 2.0], 2), turned]);
        let scores = run(&three, Profile::Paper, &[], 2);
        // Latent 0: (0.6 + 0) / 2; latent 1: (1 + 0) / 2.
        assert!(near(scores.value("stability"), 0.4), "{scores:?}");
        // Pairs: 0.8, 0, and B with the third: crossed (−0.8 + 0) / 2 = −0.4 beats straight (−0.6 − 1) / 2.
        assert!(near(scores.value("stability_all_pairs"), 0.4 / 3.0));
        assert!(near(scores.value("stability_spread"), deviation(&[0.8, 0.0, -0.4]).unwrap()));
        // Without signs the third is A: (0.6 + 1) / 2 and (1 + 1) / 2.
        let ignored = run(&three, Profile::Paper, &[("sign", "ignored")], 2);
        assert!(near(ignored.value("stability"), 0.9));
    }

    #[test]
    fn a_direction_without_length_is_left_out_or_counts_one() {
        let given = inputs(store(&[1.0, 0.0, 0.0, 0.0], 2), vec![store(&[1.0, 0.0, 0.0, 1.0], 2)]);
        let scores = run(&given, Profile::Paper, &[], 1);
        assert_eq!((scores.value("stability"), scores.value("cosine_hungarian_sum")), (Some(1.0), Some(0.0)));
        assert!(scores.notes.iter().any(|note| note.contains("1 of 2 latents")));
        let scores = run(&given, Profile::Reference, &[], 1);
        assert_eq!((scores.value("stability"), scores.value("cosine_hungarian_sum")), (Some(0.5), Some(1.0)));
        // More latents than the other has: one stays alone.
        let given = inputs(store(&[1.0, 0.0, 0.0, 1.0], 2), vec![store(&[0.0, 1.0], 2)]);
        assert_eq!(run(&given, Profile::Paper, &[], 1).value("stability"), Some(1.0));
        let none = inputs(store(&[0.0, 0.0], 2), vec![store(&[0.0, 1.0], 2)]);
        assert_eq!(run(&none, Profile::Paper, &[], 1).value("stability"), None);
        let narrow = inputs(store(&[1.0, 0.0], 2), vec![store(&[1.0], 1)]);
        let error = recipe(&Stability, &narrow, &BTreeMap::new(), Profile::Paper, 0).unwrap_err().to_string();
        assert!(error.contains("width"), "{error}");
    }

    fn noise(rows: usize, width: usize, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "stability test", 0);
        (0..rows * width).map(|_| unit(&mut random) as f32 - 0.5).collect()
    }

    #[test]
    fn greedy_is_the_slow_greedy_and_nearly_the_optimum() {
        // 300 directions in three dimensions share all their neighbours, so that candidates run out.
        let (latents, width) = (300, 3);
        let (a, b) = (noise(latents, width, 1), noise(latents - 7, width, 2));
        let given = inputs(store(&a, width), vec![store(&b, width)]);
        let greedy = run(&given, Profile::Paper, &[("exact", "10")], 1);
        for threads in [2, 7] {
            assert_eq!(run(&given, Profile::Paper, &[("exact", "10")], threads), greedy);
        }
        let cosine = |i: usize, j: usize| {
            let (a, b) = (&a[i * width..][..width], &b[j * width..][..width]);
            dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
        };
        let mut all: Vec<(usize, usize)> = (0..latents).flat_map(|i| (0..latents - 7).map(move |j| (i, j))).collect();
        all.sort_by(|&(a, b), &(c, d)| cosine(c, d).total_cmp(&cosine(a, b)));
        let (mut rows, mut columns, mut total) = (vec![false; latents], vec![false; latents], 0.0);
        for (i, j) in all {
            if !rows[i] && !columns[j] {
                (rows[i], columns[j]) = (true, true);
                total += cosine(i, j);
            }
        }
        assert!((greedy.value("stability").unwrap() - total / (latents - 7) as f64).abs() < 1e-4);
        let optimal = run(&given, Profile::Paper, &[], 1);
        let (best, found) = (optimal.value("stability").unwrap(), greedy.value("stability").unwrap());
        assert!(best >= found - 1e-9 && found > 0.8 * best, "{best} {found}");
        let bound = greedy.table("pair").unwrap().column("bound").unwrap().number(0).unwrap();
        assert!(bound >= best);
        assert!(greedy.notes.iter().any(|note| note.contains("greedily")));
    }

    #[test]
    fn another_order_of_the_same_directions_is_stable() {
        let (latents, width) = (80, 20);
        let a = noise(latents, width, 3);
        let order = permutation(latents, &mut stream(1, "stability order", 0));
        let b: Vec<f32> = order.iter().flat_map(|&row| a[row * width..][..width].to_vec()).collect();
        for exact in ["4096", "10"] {
            let scores = run(&inputs(store(&a, width), vec![store(&b, width)]), Profile::Paper, &[("exact", exact)], 2);
            assert!(near(scores.value("stability"), 1.0));
            let table = scores.table("latent").unwrap();
            let Some(Cells::WholeLists(partners)) = table.column("partner_by_other") else { panic!("no partners") };
            assert!(order.iter().enumerate().all(|(place, &row)| partners[row] == [place as i64]));
        }
    }
}
