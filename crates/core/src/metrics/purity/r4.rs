//! R4: can a latent and a concept be computed from each other?

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::concepts::{Sources, Split, concepts, note_unused_classes, split_interval};
use super::dci::explained;
use super::known::Known;
use crate::error::Result;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::probe::boosting::{Boosting, BoostingTarget, SortedColumn};
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, Work};

/// The metric `r4`.
pub struct R4;

static CARD: Card = Card {
    name: "r4",
    title: "R4 score",
    summary: "How well a concept and its best latent can be computed from each other.",
    version: 2,
    measures: "A latent stands for a concept if the concept can be computed from it and it can be computed from the \
        concept: what the latent encodes besides the concept makes the second direction fail. Small differences \
        within the range of a class are a small part of its variance, so that information hidden there is not seen.",
    definition: "For latent l and concept j: r(l → j) is the held-out accuracy of boosted trees (scikit-learn's \
        defaults, `stages` trees) that predict the class from l, r(j → l) the held-out R² of trees that predict l \
        from the class number; both are means over `splits` random splits with a quarter of the rows for the test. \
        both(l, j) = √(max(0, r(l → j)) · max(0, r(j → l))). r4 = mean over concepts of the largest both(l, j). \
        A split in which the training or the test rows have one class is left out, and the concept if none is left; \
        R² is 0 where the latent does not vary in the test rows. Ties: the lowest latent; between equally good \
        thresholds the lowest. Rows without a label are left out for the concept.\n\
        Profile `reference`, as the program: where the training or the test values of what is predicted are all \
        equal, the direction counts as 1, so that rare concepts and constant latents score high; a concept of more \
        than 10 classes is a number, predicted with R², and a latent of at most 10 whole values is a class, \
        predicted with accuracy.",
    cost: "2 × splits × latents × concepts ensembles of trees on one column; one block per latent and concept.",
    source: "Ross and Doshi-Velez, Benchmarks, Algorithms, and Metrics for Hierarchical Disentanglement (2021), and \
        the released program hierarchical-disentanglement; the mean over concepts as in the table of Espinosa \
        Zarlenga et al. (2023). The program draws other splits for every pair and direction. scikit-learn chooses \
        between equally good thresholds by rounding: its accuracies change by several test rows with the order of \
        the training rows and with its version.",
    interval: "From the random splits (Nadeau and Bengio 2003): value ± Student's t times the deviation between \
        splits times √(1/splits + 1/3), the best latents as chosen. `null` with one split.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("r4", "Mean over concepts of the best latent", (0.0, 1.0), Better::Higher)],
    params: &[
        Param::new("stages", "Number of trees per class", Kind::Whole(1, 10_000), "100"),
        Param::new("splits", "Number of random splits", Kind::Whole(1, 10_000), "5"),
    ],
};

/// Both directions of a pair, latent to concept first, in every split; `None` if a split does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Directions(pub Vec<Option<[f64; 2]>>);

impl Directions {
    /// The means over the splits that count.
    pub fn means(&self) -> Option<[f64; 2]> {
        let of = |side: usize| mean(&self.0.iter().flatten().map(|both| both[side]).collect::<Vec<_>>());
        Some([of(0)?, of(1)?])
    }

    /// The geometric mean of the means.
    pub fn both(&self) -> Option<f64> {
        self.means().map(geometric)
    }
}

/// The geometric mean, negative numbers counting as 0.
fn geometric([there, back]: [f64; 2]) -> f64 {
    (there.max(0.0) * back.max(0.0)).sqrt()
}

impl Metric for R4 {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        let codes = job.get(&CODES)?;
        let pair = Pair {
            boosting: Boosting { stages: job.whole("stages")?, ..Boosting::default() },
            reference: job.profile == Profile::Reference,
            job,
        };
        let (splits, latents) = (job.whole("splits")?, codes.latents());
        let columns = Lazy::new(|| codes.columns());
        let pairs = work.blocks_with(&columns, "pairs", factors.count() * latents, |columns, block| {
            let (concept, latent) = (block / latents, block % latents);
            let bytes = 40 * codes.rows() as u64 + SortedColumn::bytes(codes.rows(), factors.classes(concept).max(1));
            let _memory = job.budget().reserve(bytes, "the trees of a pair")?;
            let known = Known::of(&factors, concept, 0..codes.rows());
            let values = Sources { columns, dimensions: 1 }.values(latent);
            let values: Vec<f32> = known.rows.iter().map(|&row| values[row]).collect();
            let rows = known.rows.len();
            let split = |number: usize| Split::drawn(rows, rows.div_ceil(4), job.seed, "r4/split", number as u64);
            (0..splits)
                .map(|number| pair.directions(&values, &known.classes, &split(number)))
                .collect::<Result<Vec<_>>>()
                .map(Directions)
        })?;
        // The best latent of every concept.
        let best: Vec<Option<(usize, f64)>> = (0..factors.count())
            .map(|concept| {
                let scores = (0..latents).filter_map(|l| Some((l, pairs[concept * latents + l].both()?)));
                scores.reduce(|best, next| if next.1 > best.1 { next } else { best })
            })
            .collect();
        let chosen = |concept: usize| best[concept].map(|(latent, _)| &pairs[concept * latents + latent]);
        let values: Vec<f64> = best.iter().flatten().map(|(_, both)| *both).collect();
        let by_split: Option<Vec<f64>> = (0..splits)
            .map(|split| {
                let of_concept = |concept: usize| chosen(concept).map(|pair| pair.0[split].map(geometric));
                let all: Option<Vec<f64>> = (0..factors.count()).filter_map(of_concept).collect();
                all.and_then(|all| mean(&all))
            })
            .collect();
        let value = mean(&values);
        let interval = value.zip(by_split).and_then(|(value, by)| split_interval(value, &by, 1.0 / 3.0, (0.0, 1.0)));
        let mut scores = Scores::default();
        scores.headline("r4", value, interval, values.len());
        if values.len() < best.len() || best.is_empty() {
            scores.note(format!(
                "{} of {} concepts have one class in every split, or there is no latent: undefined",
                best.len() - values.len(),
                best.len()
            ));
        }
        note_unused_classes(&factors, &mut scores);
        let direction =
            |side: usize| (0..factors.count()).map(move |concept| chosen(concept)?.means().map(|means| means[side]));
        scores.tables.push(
            Table::new("concept")
                .words("name", factors.names())
                .numbers("r4", best.iter().map(|best| best.map(|(_, both)| both)))
                .with("latent", Cells::Whole(best.iter().map(|best| best.map(|(latent, _)| latent as i64)).collect()))
                .numbers("latent_to_concept", direction(0))
                .numbers("concept_to_latent", direction(1)),
        );
        Ok(scores)
    }
}

/// Both directions between a latent and a concept.
pub(super) struct Pair<'a> {
    pub job: &'a Job<'a>,
    pub boosting: Boosting,
    pub reference: bool,
}

/// Values on some rows.
fn pick<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
    rows.iter().map(|&row| values[row as usize]).collect()
}

fn is_constant<T: PartialEq>(values: &[T]) -> bool {
    values.iter().all(|value| Some(value) == values.first())
}

impl Pair<'_> {
    /// Both directions in one split; `None` if it does not count.
    pub fn directions(&self, values: &[f32], classes: &[u32], split: &Split) -> Result<Option<[f64; 2]>> {
        self.job.check()?;
        if self.reference && classes.len() < 2 {
            return Ok((!classes.is_empty()).then_some([0.0; 2]));
        }
        let Some(there) = self.to_concept(values, classes, split)? else { return Ok(None) };
        Ok(Some([there, self.to_latent(values, classes, split)?]))
    }

    /// The held-out score of predicting the class from the latent.
    pub fn to_concept(&self, values: &[f32], classes: &[u32], split: &Split) -> Result<Option<f64>> {
        let (train, test) = (pick(classes, &split.train), pick(classes, &split.test));
        if is_constant(&train) || is_constant(&test) {
            return Ok(self.reference.then_some(1.0));
        }
        let (inputs, tested) = (SortedColumn::new(&pick(values, &split.train)), pick(values, &split.test));
        let is_number = self.reference && distinct(classes) > 10;
        if is_number {
            let wide = |classes: &[u32]| -> Vec<f64> { classes.iter().map(|&class| f64::from(class)).collect() };
            return self.explained(&inputs, &wide(&train), &tested, &wide(&test)).map(Some);
        }
        self.accuracy(&inputs, train, &tested, &test).map(Some)
    }

    /// The held-out score of predicting the latent from the class number.
    pub fn to_latent(&self, values: &[f32], classes: &[u32], split: &Split) -> Result<f64> {
        let (train, test) = (pick(values, &split.train), pick(values, &split.test));
        if self.reference && (is_constant(&train) || is_constant(&test)) {
            return Ok(1.0);
        }
        let numbers: Vec<f32> = classes.iter().map(|&class| class as f32).collect();
        let (inputs, tested) = (SortedColumn::new(&pick(&numbers, &split.train)), pick(&numbers, &split.test));
        if self.reference
            && let Some(whole) = whole_classes(values)
        {
            return self.accuracy(&inputs, pick(&whole, &split.train), &tested, &pick(&whole, &split.test));
        }
        let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&value| f64::from(value)).collect() };
        self.explained(&inputs, &wide(&train), &tested, &wide(&test))
    }

    /// The share of held-out rows whose class is predicted; a class without a training row is always missed.
    fn accuracy(&self, inputs: &SortedColumn, train: Vec<u32>, tested: &[f32], test: &[u32]) -> Result<f64> {
        let mut train = Known { rows: Vec::new(), classes: train };
        let present = train.compact();
        let target = BoostingTarget::Classes(&train.classes, present.len());
        let fitted = self.boosting.fit_single(inputs, target, self.job.context)?;
        let hit = |(value, class): &(&f32, &u32)| present[fitted.class(**value) as usize] == **class;
        Ok(tested.iter().zip(test).filter(hit).count() as f64 / test.len() as f64)
    }

    /// The held-out R²; 0 if the truth does not vary.
    fn explained(&self, inputs: &SortedColumn, train: &[f64], tested: &[f32], test: &[f64]) -> Result<f64> {
        let fitted = self.boosting.fit_single(inputs, BoostingTarget::Numbers(train), self.job.context)?;
        let predicted: Vec<f64> = tested.iter().map(|&value| fitted.scores(value)[0]).collect();
        Ok(explained(test, &predicted).unwrap_or(0.0))
    }
}

fn distinct(classes: &[u32]) -> usize {
    let mut classes = classes.to_vec();
    classes.sort_unstable();
    classes.dedup();
    classes.len()
}

/// Values as classes if there are at most ten and all are whole numbers, to the five digits of the released program.
fn whole_classes(values: &[f32]) -> Option<Vec<u32>> {
    let mut found: Vec<f32> = Vec::new();
    for &value in values {
        let place = found.partition_point(|other| *other < value);
        if found.get(place) != Some(&value) {
            if found.len() == 10 || value.fract().abs() > 1e-8 + 1e-5 * value.abs() {
                return None;
            }
            found.insert(place, value);
        }
    }
    let mut whole: Vec<f32> = found.into_iter().map(f32::trunc).collect();
    whole.dedup();
    Some(values.iter().map(|value| whole.partition_point(|other| *other < value.trunc()) as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{self, codes, column, labels_by, scores_with_any_threads, yes_if};
    use crate::run::Inputs;

    /// Concepts with period 2 and 3; latents: both, a constant, and noise.
    fn inputs(rows: usize) -> Inputs {
        let bit = |row: usize, concept: usize| row.is_multiple_of(concept + 2);
        let values: Vec<f32> = (0..rows)
            .flat_map(|row| {
                let score = |concept| if bit(row, concept) { 0.9 } else { 0.1 } + (row % 7) as f32 * 0.001;
                [score(0), score(1), 0.0, (row * row % 31) as f32 / 31.0]
            })
            .collect();
        Inputs::default()
            .with(&CODES, codes(&values, 4))
            .with(&LABELS, labels_by(2, rows, |row, concept| yes_if(bit(row, concept))))
    }

    #[test]
    fn concepts_find_their_latents() {
        let scores = scores_with_any_threads(&R4, &inputs(200), &[("stages", "30")], Profile::Paper);
        assert_eq!(column(&scores, "concept", "latent"), [Some(0.0), Some(1.0)]);
        let value = scores.value("r4").unwrap();
        assert!(value > 0.99 && value < 1.0, "{value}");
        let interval = scores.headline[0].interval.unwrap();
        assert!(interval.low < value && value < interval.high && interval.high <= 1.0, "{interval:?}");
        let one = testing::scores(&R4, &inputs(200), &[("stages", "5"), ("splits", "1")], Profile::Paper, 1).unwrap();
        assert!(one.headline[0].interval.is_none());
    }

    #[test]
    fn the_released_program_counts_constants_as_1() {
        let given = [("stages", "5"), ("splits", "2")];
        // Only the constant latent is left: accuracy 1/2 or the share of the larger class, and 1 for the way back.
        let of = |profile| {
            let all = inputs(120);
            let constant = codes(&[0.0; 120], 1);
            testing::scores(&R4, &all.with(&CODES, constant), &given, profile, 1).unwrap()
        };
        let (paper, reference) = (of(Profile::Paper), of(Profile::Reference));
        assert_eq!(paper.value("r4"), Some(0.0));
        assert_eq!(column(&reference, "concept", "concept_to_latent"), [Some(1.0), Some(1.0)]);
        assert!(reference.value("r4").unwrap() > 0.6);
        // Binary codes are classes there: their accuracy is 1 where R² is 1, too.
        assert_eq!(whole_classes(&[3.0, -1.0, 3.0]), Some(vec![1, 0, 1]));
        assert_eq!(whole_classes(&[0.5]), None);
        assert_eq!(whole_classes(&(0..11).map(|value| value as f32).collect::<Vec<_>>()), None);
    }

    #[test]
    fn few_rows_and_one_class() {
        for rows in [0, 1, 2, 3] {
            let inputs = Inputs::default()
                .with(&CODES, codes(&vec![1.0; rows], 1))
                .with(&LABELS, labels_by(1, rows, |row, _| yes_if(row == 0)));
            for profile in [Profile::Paper, Profile::Reference] {
                let scores = testing::scores(&R4, &inputs, &[], profile, 1).unwrap();
                assert!(scores.value("r4").is_some() || !scores.notes.is_empty());
            }
        }
    }
}
