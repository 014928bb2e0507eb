//! The feature monosemanticity score: does one latent hold a concept, alone and without help?

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{index, permutation, stream};
use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::matching::RowOrder;
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::codes::CodesView;
use crate::error::Result;
use crate::labels::Concept;
use crate::probe::tree::{Sample, Tree};
use crate::probe::tree_accuracy::{accuracies, accuracies_on, accuracy_on, reference_accuracies};
use crate::results::{Cells, Interval, Profile, Scores, Table, percentile_interval};
use crate::run::{CODES, Job, LABELS, Lazy, Work};

/// The metric.
pub struct Fms;

static CARD: Card = Card {
    name: "fms",
    title: "Feature monosemanticity score",
    summary: "How well one latent alone tells a concept, and how little other latents know about it.",
    version: 1,
    measures: "A concept is held by one latent if a single threshold on that latent tells the rows with the concept from \
        those without (capacity), if taking that latent away leaves little (local), and if further latents add little \
        (global). Decision trees on the codes measure all three, concept by concept. A concept that no latent knows \
        scores about 0.25, not 0: half right by chance, nothing to lose and nothing to add.",
    definition: "Per concept: m = min(rows with it, rows without it); m rows of either kind are drawn with the seed. A \
        decision tree (Gini, thresholds midway between neighbouring values, no limit) is grown on the real-valued codes of \
        the 2m rows. a(i) is its accuracy when cut at level i: i = 1 only the root speaks (1/2), i = 2 it is a stump; \
        nodes speak for their majority, equal counts for `no`. accuracy = a(2). \
        MS_global = 1 − mean over i ≥ 3 of (a(i) − a(2)), and 1 if the stump is the whole tree. \
        Then the stump's latent is set to zero, the best stump of the rest is found, its latent is set to zero, and so on: \
        s(c) is the accuracy of the stump after c cuts, 1/2 when no latent is left that splits. \
        MS_local(c) = 2 (s(0) − s(c)). FMS(c) = accuracy · (MS_local(c) + MS_global) / 2; FMS = mean over c = 1..`cuts`. \
        `fms` is the mean over concepts. \
        `fms_held_out` grows the trees and picks the stumps on half of the balanced rows, with their majorities, and \
        measures every accuracy on the other half; both directions, averaged. There MS_global = 1 − max(0, mean gain), \
        because an overgrown tree that loses on new rows does not make a latent better than complete. Selection and \
        scoring on the same rows flatters the stump, and deep trees far more, which pushes MS_global down. \
        Ties: equal Gini gains (compared as whole-number fractions) go to the lowest latent, then the lowest threshold. \
        Values closer than 1e-7 are one value. \
        Undefined: a concept without rows of both kinds among the known labels, or whose balanced rows no latent splits; \
        held out also below two rows of either kind. Rows with an unknown label are left out of that concept.",
    cost: "One block per concept. The balanced rows' non-zero entries are sorted once; a tree then costs its depth times \
        those entries, and all cuts together one scan (the stump after c cuts is the latent with the c-th best split, \
        because setting other latents to zero does not change a split). Memory: a few times the entries of the balanced rows per \
        thread; profile `reference` also holds a copy of the codes.",
    source: "Härle and others, Measuring and Guiding Monosemanticity (arXiv 2506.19382), as used in Evaluating the \
        Interpretability of SAEs with Concept Annotations (arXiv 2606.24716) and in its program. \
        Profile `paper` differs from that program: the level without any split does not enter MS_global (there it adds \
        accuracy − 1/2, so that a perfect latent scores up to 1.25); a mixed leaf above the cut is not counted as right; counts are exact; \
        a round in which nothing splits counts as 1/2 instead of vanishing; every concept weighs the same; the draw is seeded. \
        Profile `reference` keeps: the level without a split in the mean, leaves above the cut counted as right, \
        counts cut to whole numbers after a rounding product, rounds without a split left out (the mean runs over the rounds of all \
        concepts), and the misplaced last batch (`reference_batch`): its rows overwrite earlier ones, and the tail is empty \
        rows without any concept. The program sets the last but one latent to zero when nothing splits; that cannot change a \
        number, because then nothing splits any more. Not reproduced: it draws rows and breaks ties between latents at \
        random without a seed, and compares gains in floating point.",
    interval: "95 % percentile bootstrap over concepts, 1000 resamples",
    needs: &[&CODES, &LABELS],
    uses: &[],
    headline: &[
        Output {
            key: "fms",
            doc: "Mean feature monosemanticity score over concepts, on the rows that the trees were grown on.",
            range: (-0.17, 1.25),
            better: Better::Higher,
        },
        Output {
            key: "fms_held_out",
            doc: "The same with trees grown on one half of the balanced rows and scored on the other.",
            range: (-0.17, 1.5),
            better: Better::Higher,
        },
    ],
    params: &[
        Param {
            name: "cuts",
            doc: "How many latents are taken away, one after the other.",
            kind: Kind::Whole(1, 100),
            several: false,
            default: "9",
            reference: None,
        },
        Param {
            name: "reference_batch",
            doc: "Repeats the misplaced last batch of the released program for batches of so many rows; 0: off.",
            kind: Kind::Whole(0, u64::MAX),
            several: false,
            default: "0",
            reference: Some("1024"),
        },
    ],
};

impl Metric for Fms {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, labels, cuts) = (job.get(&CODES)?, job.get(&LABELS)?, job.whole("cuts")?);
        let order = RowOrder::of_job(job)?;
        let ordered = Lazy::new(|| order.codes(codes, false, job.context));
        let found = work.blocks_with(&ordered, "concepts", labels.concepts(), |codes, concept| {
            let concept = Concept(concept as u32);
            let yes = order.bits(labels.yes(concept), false);
            let rows = balanced(&yes, &order.bits(labels.known(concept), true), concept, job.seed);
            let trees = Trees { job, codes: codes.all()?, cuts };
            Ok(MeasuredConcept { positives: yes.count(), ..trees.measure(&rows)? })
        })?;
        scores(job, labels.names(), &found)
    }
}

/// As many rows of either kind, in a random order, positives and negatives in turn.
fn balanced(yes: &Bits, known: &Bits, concept: Concept, seed: u64) -> Vec<(usize, bool)> {
    let mut random = stream(seed, "fms/balance", u64::from(concept.0));
    let mut shuffled = |rows: Vec<usize>| -> Vec<usize> {
        permutation(rows.len(), &mut random).into_iter().map(|index| rows[index]).collect()
    };
    let positives = shuffled(yes.rows().collect());
    let negatives = shuffled(known.rows().filter(|&row| !yes.contains(row)).collect());
    positives.into_iter().zip(negatives).flat_map(|(yes, no)| [(yes, true), (no, false)]).collect()
}

/// What the trees of one concept say.
#[derive(Default, Serialize, Deserialize)]
struct MeasuredConcept {
    /// Rows with the concept.
    positives: usize,
    /// Balanced rows.
    rows: usize,
    /// Depth of the tree that is grown on them.
    depth: usize,
    root: Option<Root>,
    measured: Option<Measured>,
    held_out: Option<HeldOut>,
}

/// The first question of the tree.
#[derive(Serialize, Deserialize)]
struct Root {
    latent: u32,
    threshold: f64,
}

/// The mean of both directions.
#[derive(Serialize, Deserialize)]
struct HeldOut {
    accuracy: f64,
    fms: f64,
}

/// The capacity, the global part, and the stumps after each cut.
#[derive(Serialize, Deserialize)]
struct Measured {
    accuracy: f64,
    global: f64,
    stumps: Vec<f64>,
}

impl Measured {
    fn new(levels: &[f64], stumps: Vec<f64>, profile: Profile) -> Option<Measured> {
        let accuracy = *levels.get(1)?;
        let mut others: Vec<f64> = levels.iter().skip(2).map(|level| level - accuracy).collect();
        if profile == Profile::Reference {
            others.insert(0, levels[0] - accuracy);
        }
        Some(Measured { accuracy, global: 1.0 - mean(&others).unwrap_or(0.0), stumps })
    }

    fn local(&self) -> Vec<f64> {
        self.stumps.iter().map(|stump| 2.0 * (self.accuracy - stump)).collect()
    }

    /// The score after each cut.
    fn scores(&self) -> Vec<f64> {
        self.local().iter().map(|local| self.accuracy * (local + self.global) / 2.0).collect()
    }
}

/// Trees on the codes of a job.
struct Trees<'a> {
    job: &'a Job<'a>,
    codes: CodesView<'a>,
    cuts: usize,
}

impl Trees<'_> {
    /// Everything but the number of rows with the concept.
    fn measure(&self, rows: &[(usize, bool)]) -> Result<MeasuredConcept> {
        let entries: usize = rows.iter().map(|&(row, _)| self.codes.entries(row).len()).sum();
        let bytes = 48 * entries as u64 + 64 * rows.len() as u64;
        let _memory = self.job.budget().reserve(bytes, "the rows of a concept for its trees")?;
        let whole = self.whole(rows)?;
        let half = rows.len() / 4 * 2;
        let (one, other) = (&rows[..half], &rows[half..2 * half]);
        let held_out = match [self.held_out(one, other)?, self.held_out(other, one)?] {
            [Some(one), Some(other)] => {
                let both = |of: &dyn Fn(&Measured) -> f64| (of(&one) + of(&other)) / 2.0;
                let fms = both(&|half| mean(&half.scores()).unwrap_or(0.0));
                Some(HeldOut { accuracy: both(&|half| half.accuracy), fms })
            }
            _ => None,
        };
        Ok(MeasuredConcept { held_out, ..whole })
    }

    /// Grown and scored on the same rows.
    fn whole(&self, rows: &[(usize, bool)]) -> Result<MeasuredConcept> {
        let profile = self.job.profile;
        let sample = Sample::new(self.codes, rows)?;
        let tree = Tree::grow_monitored(&sample, None, &[], self.job.context)?;
        let splits = sample.best_splits(self.cuts + 1);
        let levels = match profile {
            Profile::Paper => accuracies(&tree),
            Profile::Reference => reference_accuracies(&tree),
        };
        let stump = |number: usize| match profile {
            Profile::Paper => {
                Some(splits.get(number).map_or(0.5, |split| split.right_answers() as f64 / rows.len() as f64))
            }
            // The stump row of a tree of depth three is that of its root alone, cut counts included.
            Profile::Reference => reference_accuracies(&Tree::stump(*splits.get(number)?)).get(1).copied(),
        };
        let stumps = (1..=self.cuts).map_while(stump).collect();
        let root = tree.nodes.first().and_then(|root| root.split);
        Ok(MeasuredConcept {
            rows: rows.len(),
            depth: tree.depth(),
            root: root.map(|split| Root { latent: split.latent.0, threshold: split.threshold }),
            measured: Measured::new(&levels, stumps, profile),
            ..MeasuredConcept::default()
        })
    }

    /// Grown and picked on some rows, scored on others.
    fn held_out(&self, grown: &[(usize, bool)], scored: &[(usize, bool)]) -> Result<Option<Measured>> {
        let sample = Sample::new(self.codes, grown)?;
        let tree = Tree::grow_monitored(&sample, None, &[], self.job.context)?;
        let levels = accuracies_on(&tree, self.codes, scored);
        let splits = sample.best_splits(self.cuts + 1);
        let mut stumps: Vec<f64> = splits.iter().skip(1).map(|split| accuracy_on(split, self.codes, scored)).collect();
        stumps.resize(self.cuts, 0.5);
        Ok(Measured::new(&levels, stumps, Profile::Paper)
            .map(|found| Measured { global: found.global.min(1.0), ..found }))
    }
}

fn scores(job: &Job<'_>, names: &[String], found: &[MeasuredConcept]) -> Result<Scores> {
    let mut scores = Scores::default();
    let measured = || found.iter().filter_map(|concept| concept.measured.as_ref());
    // Sum and weight of each concept: in the reference every round weighs the same.
    let weighed: Vec<(f64, f64)> = measured()
        .map(Measured::scores)
        .filter(|rounds| !rounds.is_empty())
        .map(|rounds| match job.profile {
            Profile::Paper => (mean(&rounds).unwrap_or(0.0), 1.0),
            Profile::Reference => (rounds.iter().sum(), rounds.len() as f64),
        })
        .collect();
    let held: Vec<(f64, f64)> =
        found.iter().filter_map(|concept| Some((concept.held_out.as_ref()?.fms, 1.0))).collect();
    for (key, values) in [("fms", &weighed), ("fms_held_out", &held)] {
        let all = ratio(values.iter().copied());
        scores.headline(key, all, interval(values, job.seed, key), values.len());
    }
    let defined = measured().count();
    if defined < found.len() {
        scores.note(format!(
            "{} of {} concepts lack rows of one kind, or no latent splits their rows: undefined",
            found.len() - defined,
            found.len()
        ));
    }
    if defined > held.len() {
        scores.note(format!("{} concepts have too few rows to be scored on held-out rows", defined - held.len()));
    }
    if job.whole("reference_batch")? > 0 {
        scores.note(
            "the last batch is misplaced as in the released program (`reference_batch`): its rows overwrite \
             earlier ones, and as many rows at the end are empty",
        );
    }
    let of = |f: &dyn Fn(&Measured) -> Option<f64>| -> Vec<Option<f64>> {
        found.iter().map(|concept| concept.measured.as_ref().and_then(f)).collect()
    };
    let latent = |concept: &MeasuredConcept| concept.root.as_ref().map(|root| i64::from(root.latent));
    let held = || found.iter().map(|concept| concept.held_out.as_ref());
    scores.tables.push(
        Table::new("concept")
            .words("name", names.iter().map(String::as_str))
            .counts("positives", found.iter().map(|concept| concept.positives))
            .counts("rows", found.iter().map(|concept| concept.rows))
            .counts("depth", found.iter().map(|concept| concept.depth))
            .with("latent", Cells::Whole(found.iter().map(latent).collect()))
            .numbers("threshold", found.iter().map(|concept| concept.root.as_ref().map(|root| root.threshold)))
            .numbers("accuracy_stump", of(&|found| Some(found.accuracy)))
            .numbers("ms_global", of(&|found| Some(found.global)))
            .numbers("ms_local", of(&|found| mean(&found.local())))
            .numbers("fms", of(&|found| mean(&found.scores())))
            .numbers("accuracy_held_out", held().map(|held| held.map(|held| held.accuracy)))
            .numbers("fms_held_out", held().map(|held| held.map(|held| held.fms))),
    );
    Ok(scores)
}

fn ratio(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weight) = values.fold((0.0, 0.0), |total, value| (total.0 + value.0, total.1 + value.1));
    (weight > 0.0).then(|| sum / weight)
}

/// Resamples concepts with whatever weight they have.
fn interval(values: &[(f64, f64)], seed: u64, key: &str) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut random = stream(seed, &format!("fms/bootstrap/{key}"), 0);
    let mut again = || ratio((0..values.len()).map(|_| values[index(values.len(), &mut random)]));
    percentile_interval((0..1000).filter_map(|_| again()).collect())
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::codes::Codes;
    use crate::context::Context;
    use crate::labels::{Annotations, Label};
    use crate::metrics::testing;
    use crate::run::Inputs;

    fn run(
        codes: Codes,
        labels: &[Vec<Label>],
        profile: Profile,
        given: &[(&str, &str)],
        threads: usize,
    ) -> Result<Scores> {
        let names = (0..labels.len()).map(|concept| format!("concept {concept}")).collect();
        let labels = Annotations::new(names, codes.rows(), |row, concept| labels[concept][row])?;
        testing::scores(&Fms, &Inputs::default().with(&CODES, codes).with(&LABELS, labels), given, profile, threads)
    }

    fn labels(cells: &str) -> Vec<Label> {
        let label = |c| match c {
            '+' => Label::Yes,
            '-' => Label::No,
            _ => Label::Unknown,
        };
        cells.chars().map(label).collect()
    }

    #[test]
    fn one_concept_by_hand() {
        // Rows + + + + - - - -. Latent 0: 3 of 4 positives fire; latent 1: the other positive; latent 2: dead.
        // Tree: latent 0 first (left 1+ 4-, right 3+), then latent 1: a = 1/2, 7/8, 1.
        // accuracy = 7/8; global = 1 − (1 − 7/8) = 7/8. Cut 1: latent 1 (left 3+ 4-, right 1+): (4 + 1)/8 = 5/8.
        // Cuts 2..9: nothing splits: 1/2. local: 2·(7/8 − 5/8) = 1/2, then 2·(7/8 − 1/2) = 3/4 eight times; mean 13/18.
        // fms = 7/8 · (13/18 + 7/8)/2.
        let dense = [
            [1.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
        ]
        .concat();
        let codes = || Codes::from_dense(&dense, 3).unwrap();
        let truth = [labels("++++----")];
        let close = |found: Option<f64>, expected: f64| {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} {expected}")
        };
        let scores = run(codes(), &truth, Profile::Paper, &[], 1).unwrap();
        close(scores.value("fms"), 7.0 / 8.0 * (13.0 / 18.0 + 7.0 / 8.0) / 2.0);
        let table = scores.table("concept").unwrap();
        close(table.column("accuracy_stump").unwrap().number(0), 7.0 / 8.0);
        close(table.column("ms_global").unwrap().number(0), 7.0 / 8.0);
        close(table.column("ms_local").unwrap().number(0), 13.0 / 18.0);
        assert_eq!(table.column("latent").unwrap().number(0), Some(0.0));
        // Reference: the level without a split enters: global = 1 − ((1/2 − 7/8) + (1 − 7/8))/2 = 9/8; only the first cut
        // has a split: fms = 7/8 · (1/2 + 9/8)/2.
        let scores = run(codes(), &truth, Profile::Reference, &[("reference_batch", "0")], 1).unwrap();
        close(scores.value("fms"), 7.0 / 8.0 * (1.0 / 2.0 + 9.0 / 8.0) / 2.0);
    }

    #[test]
    fn a_perfect_latent_scores_one_and_a_lone_one_held_out_too() {
        let dense: Vec<f32> = (0..40).map(|row| f32::from(u8::from(row % 2 == 0))).collect();
        let truth = [(0..40).map(|row| if row % 2 == 0 { Label::Yes } else { Label::No }).collect::<Vec<_>>()];
        let scores = run(Codes::from_dense(&dense, 1).unwrap(), &truth, Profile::Paper, &[], 1).unwrap();
        assert_eq!((scores.value("fms"), scores.value("fms_held_out")), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn noise_is_flattered_on_its_own_rows_only() {
        let mut random = stream(0, "fms/noise", 0);
        let dense: Vec<f32> =
            (0..60 * 200).map(|_| (random.next_u32() % 8) as f32 * (random.next_u32() % 2) as f32).collect();
        let truth: Vec<Vec<Label>> = (0..12)
            .map(|_| {
                (0..60).map(|_| if random.next_u32().is_multiple_of(2) { Label::Yes } else { Label::No }).collect()
            })
            .collect();
        let scores = run(Codes::from_dense(&dense, 200).unwrap(), &truth, Profile::Paper, &[], 2).unwrap();
        let held = scores.value("fms_held_out").unwrap();
        assert!((held - 0.25).abs() < 0.06, "{held}");
        let accuracy = scores.table("concept").unwrap().column("accuracy_stump").unwrap().number(0).unwrap();
        assert!(accuracy > 0.6, "{accuracy}");
    }

    #[test]
    fn threads_and_dead_latents_change_nothing() {
        let mut random = stream(1, "fms/threads", 0);
        let values: Vec<f32> = (0..90 * 6).map(|_| (random.next_u32() % 5) as f32).collect();
        let wider: Vec<f32> = values.chunks(6).flat_map(|row| row.iter().copied().chain([0.0, 0.0])).collect();
        let truth: Vec<Vec<Label>> = (0..7)
            .map(|_| {
                (0..90)
                    .map(|_| [Label::Yes, Label::No, Label::No, Label::Unknown][random.next_u32() as usize % 4])
                    .collect()
            })
            .collect();
        for profile in [Profile::Paper, Profile::Reference] {
            let once = run(Codes::from_dense(&values, 6).unwrap(), &truth, profile, &[], 1).unwrap();
            for threads in [2, 7] {
                assert_eq!(run(Codes::from_dense(&values, 6).unwrap(), &truth, profile, &[], threads).unwrap(), once);
            }
            assert_eq!(run(Codes::from_dense(&wider, 8).unwrap(), &truth, profile, &[], 2).unwrap(), once);
        }
    }

    #[test]
    fn the_last_batch_goes_astray_in_the_reference() {
        // 5 rows in batches of 2: batch 2 has one row (row 4) and lands on row 2 · 1 = 2; row 4 itself stays empty.
        let codes = Codes::from_dense(&[10.0, 11.0, 12.0, 13.0, 14.0], 1).unwrap();
        let yes = Bits::of(5, [4]);
        let context = Context::silent(1, 1000).unwrap();
        let order = RowOrder::released(5, 2);
        let misplaced = order.codes(&codes, false, &context).unwrap();
        let rows: Vec<f32> =
            (0..5).map(|row| misplaced.all().unwrap().row(row).1.first().copied().unwrap_or(0.0)).collect();
        assert_eq!(rows, [10.0, 11.0, 14.0, 13.0, 0.0]);
        assert_eq!(order.bits(&yes, false).rows().collect::<Vec<_>>(), [2]);
        // Whole batches only: nothing moves.
        let whole = RowOrder::released(5, 5);
        assert_eq!(whole.codes(&codes, false, &context).unwrap().all().unwrap().row(4).1, [14.0]);
    }

    #[test]
    fn edges_are_undefined_not_zero() {
        let codes = |rows: usize| Codes::from_dense(&vec![1.0; rows * 2], 2).unwrap();
        // Empty, full, unknown, and a concept whose rows no latent splits.
        let truth = [labels("----"), labels("++++"), labels("????"), labels("+-+-")];
        for profile in [Profile::Paper, Profile::Reference] {
            let scores = run(codes(4), &truth, profile, &[], 1).unwrap();
            assert_eq!((scores.value("fms"), scores.value("fms_held_out")), (None, None));
            assert!(scores.notes.iter().any(|note| note.starts_with("4 of 4")), "{:?}", scores.notes);
            assert_eq!(run(codes(0), &[vec![]], profile, &[], 1).unwrap().value("fms"), None);
            assert_eq!(run(codes(1), &[labels("+")], profile, &[], 1).unwrap().value("fms"), None);
            assert_eq!(run(codes(1), &[], profile, &[], 1).unwrap().value("fms"), None);
        }
        // One row of either kind: a stump, but nothing to hold out.
        let two = Codes::from_dense(&[1.0, 0.0], 1).unwrap();
        let scores = run(two, &[labels("+-")], Profile::Paper, &[], 1).unwrap();
        assert_eq!((scores.value("fms"), scores.value("fms_held_out")), (Some(1.0), None));
    }
}
