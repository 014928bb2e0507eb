//! The mutual information gap, and modularity: is a concept in one latent, and a latent about one concept?

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::concepts::{concepts, influence_interval, note_unused_classes};
use super::information::{Information, entropy, equal_width, mutual_information};
use super::known::{Known, latent_on};
use crate::error::Result;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, List, Sum, Work};
use crate::state;

const BINS: Param =
    Param::new("value_bins", "Number of bins of equal width for the values of a latent", Kind::Whole(1, 65_536), "20");

/// The metric `mig`.
pub struct Mig;

static MIG: Card = Card {
    name: "mig",
    title: "Mutual information gap",
    summary: "How much more the best latent tells about a concept than the second best.",
    version: 1,
    measures: "1 if one latent alone tells everything about a concept and the others nothing, 0 if two latents tell \
        the same. It looks at one latent at a time and at the gap only: a latent that also tells about other \
        concepts is not punished, which is why impure codes can have a gap of 1.",
    definition: "Every latent is cut into `bins` bins of equal width between its smallest and its largest value (a \
        zero is a value). I(l, j) is the plug-in mutual information of bins and classes, H(j) the entropy of the \
        classes. mig = mean over concepts of (I of the best latent − I of the second best) / H(j); with a single \
        latent the second is 0. Profile `reference`: classes are cut into `bins` bins of equal width, too, as \
        Ross's program does in bits; up to `bins` evenly spaced classes this changes nothing. Ties: the lowest \
        latent. Undefined: a concept of one class. Rows without a label are left out for the concept.",
    cost: "Latents × concepts × rows; one block per concept.",
    source: "Chen et al., Isolating Sources of Disentanglement in VAEs (2018); disentanglement_lib (profile \
        `paper`, natural logarithms) and hierarchical-disentanglement (profile `reference`, which the table of \
        Espinosa Zarlenga et al. 2023 used). Plug-in information is biased upwards by about (bins − 1)(classes − 1) \
        / (2 rows), for both latents alike.",
    interval: "From the influence of every row on information and entropy, with the choice of both latents as it \
        is: value ± Student's t times the standard error, cut at 0 and 1.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("mig", "Mean gap over concepts", (0.0, 1.0), Better::Higher)],
    params: &[BINS],
};

/// The gap of one concept.
#[derive(Serialize, Deserialize)]
struct Gap {
    gap: Option<f64>,
    best: usize,
    second: usize,
    informations: [f64; 2],
    entropy: f64,
    /// The influence of every row.
    influence: Vec<f64>,
}

impl Metric for Mig {
    fn card(&self) -> &'static Card {
        &MIG
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, bins) = (job.get(&CODES)?, job.whole("value_bins")?);
        let (factors, _memory) = concepts(job)?;
        let columns = Lazy::new(|| codes.columns());
        let gaps = work.blocks_with(&columns, "concepts", factors.count(), |columns, concept| {
            let known = Known::of(&factors, concept, 0..codes.rows());
            let bytes = 64 * codes.rows() as u64;
            let _memory = job.budget().reserve(bytes, "the bins of a latent")?;
            let classes = match job.profile {
                Profile::Paper => known.classes.clone(),
                Profile::Reference => {
                    equal_width(&known.classes.iter().map(|&c| f64::from(c)).collect::<Vec<_>>(), bins)
                }
            };
            let total = entropy(&classes);
            let mut best: [Option<(usize, Information)>; 2] = [None, None];
            for latent in 0..codes.latents() {
                job.check()?;
                let binned = equal_width(&latent_on(columns, latent, &known.rows), bins);
                let found = mutual_information(&binned, &classes);
                let beats = |other: &Option<(usize, Information)>| {
                    other.as_ref().is_none_or(|(_, other)| found.value > other.value)
                };
                if beats(&best[0]) {
                    best = [Some((latent, found)), best[0].take()];
                } else if beats(&best[1]) {
                    best[1] = Some((latent, found));
                }
            }
            Ok(gap(&known, &total, &best, codes.rows()))
        })?;
        let mut scores = Scores::default();
        let defined: Vec<&Gap> = gaps.iter().filter(|gap| gap.gap.is_some()).collect();
        let mut influence = vec![0.0; codes.rows()];
        for gap in &defined {
            influence.iter_mut().zip(&gap.influence).for_each(|(sum, part)| *sum += part / defined.len() as f64);
        }
        let value = mean(&defined.iter().filter_map(|gap| gap.gap).collect::<Vec<_>>());
        let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
        scores.headline("mig", value, interval, defined.len());
        if defined.len() < gaps.len() {
            scores.note(format!(
                "{} of {} concepts have one class, or there is no latent: undefined",
                gaps.len() - defined.len(),
                gaps.len()
            ));
        }
        if value.is_none() && gaps.is_empty() {
            scores.note("undefined: there is no concept");
        }
        note_unused_classes(&factors, &mut scores);
        let latent = |pick: &dyn Fn(&Gap) -> usize| {
            Cells::Whole(gaps.iter().map(|gap| gap.gap.map(|_| pick(gap) as i64)).collect())
        };
        scores.tables.push(
            Table::new("concept")
                .words("name", factors.names())
                .numbers("mig", gaps.iter().map(|gap| gap.gap))
                .with("best", latent(&|gap| gap.best))
                .numbers("best_information", gaps.iter().map(|gap| gap.gap.map(|_| gap.informations[0])))
                .with("second", latent(&|gap| gap.second))
                .numbers("second_information", gaps.iter().map(|gap| gap.gap.map(|_| gap.informations[1])))
                .numbers("entropy", gaps.iter().map(|gap| Some(gap.entropy))),
        );
        Ok(scores)
    }
}

fn gap(known: &Known, total: &Information, best: &[Option<(usize, Information)>; 2], rows: usize) -> Gap {
    let value = |place: usize| best[place].as_ref().map_or(0.0, |(_, found)| found.value);
    let part = |place: usize, index: usize| best[place].as_ref().map_or(0.0, |(_, found)| found.influence[index]);
    let gap = (total.value > 1e-12 && best[0].is_some()).then(|| (value(0) - value(1)) / total.value);
    let mut influence = vec![0.0; rows];
    if let Some(gap) = gap {
        for (index, &row) in known.rows.iter().enumerate() {
            influence[row] = (part(0, index) - part(1, index) - gap * total.influence[index]) / total.value;
        }
    }
    let latent = |place: usize| best[place].as_ref().map_or(0, |(latent, _)| *latent);
    Gap { gap, best: latent(0), second: latent(1), informations: [value(0), value(1)], entropy: total.value, influence }
}

/// The metric `modularity`.
pub struct Modularity;

static MODULARITY: Card = Card {
    name: "modularity",
    title: "Modularity",
    summary: "Whether every latent tells about one concept only.",
    version: 1,
    measures: "1 if the mutual information of a latent is with one concept only, 0 if it is the same with all. \
        Unlike `mig` it is about latents: several latents may tell the same. It measures information as such: where \
        concepts are correlated, a pure latent tells about the others, too, and is punished for it, which `ois` \
        corrects by the oracle.",
    definition: "m_j is the plug-in mutual information of the latent, cut into `bins` bins of equal width, with \
        concept j; t is the concept of the largest. score = 1 − Σ_{j≠t} m_j² / (m_t² (concepts − 1)). `modularity` \
        is the mean over latents. A latent that tells nothing (m_t = 0: constant) is left out in profile `paper` \
        and counts as 0 in `reference`; the profile `reference` uses the first half of the rows, as training rows. \
        Undefined with fewer than two concepts of two classes. Rows without a label of a concept are left out for \
        it.",
    cost: "Latents × concepts × rows; one block per latent.",
    source: "Ridgeway and Mozer, Learning Deep Disentangled Embeddings with the F-Statistic Loss (2018); \
        disentanglement_lib.",
    interval: "From the influence of every row on the information: value ± Student's t times the standard error, \
        cut at 0 and 1.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("modularity", "Mean over latents", (0.0, 1.0), Better::Higher)],
    params: &[BINS],
};

#[derive(Serialize, Deserialize)]
struct Sums {
    scores: List<Option<f64>>,
    main: List<Option<i64>>,
    influence: Sum,
}

state!(Sums { scores, main, influence });

impl Metric for Modularity {
    fn card(&self) -> &'static Card {
        &MODULARITY
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, bins) = (job.get(&CODES)?, job.whole("value_bins")?);
        let (factors, _memory) = concepts(job)?;
        let reference = job.profile == Profile::Reference;
        let rows = if reference { codes.rows() / 2 } else { codes.rows() };
        let (concept_of, known): (Vec<usize>, Vec<Known>) = (0..factors.count())
            .map(|concept| (concept, Known::of(&factors, concept, 0..rows)))
            .filter(|(_, known)| entropy(&known.classes).value > 1e-12)
            .unzip();
        let columns = Lazy::new(|| codes.columns());
        let count = if known.len() < 2 { 0 } else { codes.latents() };
        let sums = work.fold_with(
            &columns,
            "latents",
            count,
            || Sums { scores: List(Vec::new()), main: List(Vec::new()), influence: Sum::new(codes.rows()) },
            |columns, sums, latent| {
                let bytes = 16 * (rows * known.len()) as u64;
                let _memory = job.budget().reserve(bytes, "the information of a latent")?;
                let informations: Vec<Information> = known
                    .iter()
                    .map(|known| {
                        mutual_information(&equal_width(&latent_on(columns, latent, &known.rows), bins), &known.classes)
                    })
                    .collect();
                let values: Vec<f64> = informations.iter().map(|found| found.value).collect();
                let top = (0..values.len()).fold(0, |best, j| if values[j] > values[best] { j } else { best });
                if values[top] <= 1e-15 {
                    sums.scores.0.push(reference.then_some(0.0));
                    sums.main.0.push(None);
                    return Ok(());
                }
                let (others, scale) = ((0..values.len()).filter(|&j| j != top), (values.len() - 1) as f64);
                let square = values[top] * values[top];
                let rest: f64 = others.map(|j| values[j] * values[j]).sum();
                sums.scores.0.push(Some(1.0 - rest / (square * scale)));
                sums.main.0.push(Some(concept_of[top] as i64));
                for j in 0..values.len() {
                    let slope = if j == top { 2.0 * rest / (square * values[top]) } else { -2.0 * values[j] / square };
                    for (&row, part) in known[j].rows.iter().zip(&informations[j].influence) {
                        sums.influence[row] += slope / scale * part;
                    }
                }
                Ok(())
            },
        )?;
        let defined: Vec<f64> = sums.scores.0.iter().copied().flatten().collect();
        let value = mean(&defined);
        let influence: Vec<f64> = sums.influence.iter().map(|part| part / defined.len().max(1) as f64).collect();
        let mut scores = Scores::default();
        let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
        scores.headline("modularity", value, interval, defined.len());
        match (known.len() < 2, count - defined.len()) {
            (true, _) => scores.note("undefined: fewer than two concepts have two classes"),
            (_, 0) => {}
            (_, silent) => {
                scores.note(format!("{silent} of {count} latents tell nothing about any concept and are left out"))
            }
        }
        if value.is_none() && count == 0 && known.len() >= 2 {
            scores.note("undefined: there is no latent");
        }
        note_unused_classes(&factors, &mut scores);
        scores.tables.push(
            Table::new("latent")
                .numbers("modularity", sums.scores.0.iter().copied())
                .with("main_concept", Cells::Whole(sums.main.0.clone())),
        );
        Ok(scores)
    }
}
