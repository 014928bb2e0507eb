//! The classifier of all concepts, and its areas with niches set to zero.

use etalon_kernel::layered_network::{LayeredNetwork, LayeredTraining, Outputs, TargetRows};
use etalon_kernel::random::{index, permutation, stream};
use etalon_kernel::statistics::pearson;

use crate::context::Reservation;
use crate::error::{InputError, Key, Result};
use crate::labels::Factors;
use crate::metrics::purity::areas::{Area, area};
use crate::metrics::purity::concepts::Split;
use crate::run::{CODES, Job, TASK_LABELS};

/// All codes as dense rows.
pub(in crate::metrics::purity) struct Dense {
    pub values: Vec<f32>,
    pub width: usize,
    _memory: Reservation,
}

impl Dense {
    pub fn of_job(job: &Job<'_>) -> Result<Dense> {
        let codes = job.get(&CODES)?;
        let (rows, width) = (codes.rows(), codes.latents());
        let memory = job.budget().reserve(4 * (rows * width) as u64, format!("dense codes of {rows} × {width}"))?;
        let mut values = vec![0.0; rows * width];
        for (row, latents, entries) in codes.all()?.iter() {
            latents.iter().zip(entries).for_each(|(&latent, &value)| values[row * width + latent as usize] = value);
        }
        Ok(Dense { values, width, _memory: memory })
    }

    pub fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.width..][..self.width]
    }
}

/// The outputs of a classifier: a concept, and the class that the output stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metrics::purity) struct OutputClass {
    pub concept: usize,
    pub class: i32,
}

/// One output per concept of two classes, otherwise one per class.
pub(in crate::metrics::purity) fn output_classes(factors: &Factors, concepts: &[usize]) -> Vec<OutputClass> {
    let of = |&concept: &usize| match factors.classes(concept) {
        0..=2 => vec![OutputClass { concept, class: 1 }],
        classes => (0..classes as i32).map(|class| OutputClass { concept, class }).collect(),
    };
    concepts.iter().flat_map(of).collect()
}

/// Trains a classifier of all outputs on some rows.
pub(in crate::metrics::purity) struct Classifier<'a> {
    pub job: &'a Job<'a>,
    pub dense: &'a Dense,
    pub factors: &'a Factors,
    pub outputs: &'a [OutputClass],
    pub kind: Outputs,
    /// Units of both hidden layers.
    pub hidden: usize,
    pub training: LayeredTraining,
    /// Whether intercepts start at random numbers, as in scikit-learn, or at 0, as in Keras.
    pub random_intercepts: bool,
    /// The name of the random streams.
    pub purpose: &'a str,
}

impl Classifier<'_> {
    pub fn train(&self, rows: &[u32], number: u64) -> Result<LayeredNetwork> {
        let (width, outputs) = (self.dense.width, self.outputs.len());
        let bytes = 4 * rows.len() * (width + outputs) + 32 * self.hidden * (width + self.hidden + outputs);
        let _memory = self.job.budget().reserve(bytes as u64, "the training rows of a classifier")?;
        let values: Vec<f32> = rows.iter().flat_map(|&row| self.dense.row(row)).copied().collect();
        let target = |row: u32, output: &OutputClass| match self.factors.column(output.concept)[row as usize] {
            -1 => f32::NAN,
            class => f32::from(u8::from(class == output.class)),
        };
        let targets: Vec<f32> =
            rows.iter().flat_map(|&row| self.outputs.iter().map(move |output| target(row, output))).collect();
        let purpose = |part: &str| format!("{}/{part}/{number}", self.purpose);
        let mut random = stream(self.job.seed, &purpose("start"), 0);
        let mut network = LayeredNetwork::random(&[width, self.hidden, self.hidden, outputs], self.kind, &mut random);
        if !self.random_intercepts {
            network.layers.iter_mut().for_each(|layer| layer.intercepts.fill(0.0));
        }
        let order = |epoch: usize| permutation(rows.len(), &mut stream(self.job.seed, &purpose("epoch"), epoch as u64));
        let data = TargetRows { values: &values, width, targets: &targets };
        network.train(&self.training, data, order, self.job.context)?;
        Ok(network)
    }
}

/// The classes of the task, which balanced rows need.
pub(super) fn task<'a>(job: &'a Job<'_>) -> Result<&'a Factors> {
    let missing =
        || InputError::new(format!("{} needs the classes of a task", Key("balance"))).needs("task-labels").into();
    job.find(&TASK_LABELS).ok_or_else(missing)
}

/// Rows drawn with replacement, as many of every class of the task as of the rarest.
pub(super) fn balanced(job: &Job<'_>, rows: &[u32], part: &str, repeat: usize) -> Result<Vec<u32>> {
    let task = task(job)?;
    let column = task.column(0);
    let of_class =
        |class: i32| -> Vec<u32> { rows.iter().copied().filter(|&row| column[row as usize] == class).collect() };
    let classes: Vec<Vec<u32>> = (0..task.classes(0) as i32).map(of_class).filter(|rows| !rows.is_empty()).collect();
    let rarest = classes.iter().map(Vec::len).min().unwrap_or(0);
    let mut random = stream(job.seed, &format!("nis/balance/{part}"), repeat as u64);
    Ok(classes
        .iter()
        .flat_map(|rows| (0..rarest).map(|_| rows[index(rows.len(), &mut random)]).collect::<Vec<_>>())
        .collect())
}

/// ν: the largest absolute correlation of every representation with a concept, on some rows.
pub(super) fn correlations(
    dense: &Dense,
    dimensions: usize,
    factors: &Factors,
    concept: usize,
    rows: &[u32],
) -> Vec<f64> {
    let column = factors.column(concept);
    let known: Vec<u32> = rows.iter().copied().filter(|&row| column[row as usize] >= 0).collect();
    let targets: Vec<Vec<f64>> = output_classes(factors, &[concept])
        .iter()
        .map(|output| known.iter().map(|&row| f64::from(u8::from(column[row as usize] == output.class))).collect())
        .collect();
    let of_latent = |latent: usize| {
        let values: Vec<f64> = known.iter().map(|&row| f64::from(dense.row(row)[latent])).collect();
        targets.iter().filter_map(|target| pearson(&values, target)).map(f64::abs).fold(0.0, f64::max)
    };
    (0..dense.width / dimensions)
        .map(|source| (0..dimensions).map(|part| of_latent(source * dimensions + part)).fold(0.0, f64::max))
        .collect()
}

/// The probabilities of the outputs of one concept on the test rows at every threshold, ascending: `rows × outputs` each.
pub(super) struct Masked<'a> {
    pub network: &'a LayeredNetwork,
    pub dense: &'a Dense,
    pub dimensions: usize,
    /// The outputs of the concept among those of the network.
    pub outputs: std::ops::Range<usize>,
}

impl Masked<'_> {
    /// From the highest threshold to the lowest, representations are added to the mask. Everything is computed anew for
    /// every mask: subtracting parts would leave rounding errors, which break ties between rows.
    pub fn predictions(&self, test: &[u32], niche: &[f64], thresholds: &[f64]) -> Vec<Vec<f64>> {
        let mut order: Vec<usize> = (0..niche.len()).collect();
        order.sort_by(|&a, &b| niche[b].total_cmp(&niche[a]).then(a.cmp(&b)));
        let mut is_masked = vec![false; niche.len()];
        let (mut masked, mut before) = (0, None::<usize>);
        let mut predictions: Vec<Vec<f64>> = vec![Vec::new(); thresholds.len()];
        for (number, &threshold) in thresholds.iter().enumerate().rev() {
            let begun = masked;
            while masked < order.len() && niche[order[masked]] > threshold {
                is_masked[order[masked]] = true;
                masked += 1;
            }
            predictions[number] = match before.filter(|_| masked == begun) {
                Some(before) => predictions[before].clone(),
                None => test.iter().flat_map(|&row| self.probabilities(&self.first(row, &is_masked))).collect(),
            };
            before = Some(number);
        }
        predictions
    }

    /// The first layer of a row with masked representations at zero.
    fn first(&self, row: u32, is_masked: &[bool]) -> Vec<f64> {
        let mut values = self.dense.row(row).to_vec();
        for (source, values) in values.chunks_exact_mut(self.dimensions).enumerate() {
            if is_masked[source] {
                values.fill(0.0);
            }
        }
        self.network.first(&values)
    }

    fn probabilities(&self, first: &[f64]) -> Vec<f64> {
        let mut scores = self.network.rest(first);
        self.network.outputs.normalise(&mut scores);
        scores[self.outputs.clone()].to_vec()
    }
}

/// The mean area over the classes of a concept that test rows have, from one probability per output of the concept.
pub(in crate::metrics::purity) fn output_area(
    factors: &Factors,
    outputs: &[OutputClass],
    test: &[u32],
    probabilities: &[f64],
) -> Option<Area> {
    let column = factors.column(outputs.first()?.concept);
    let known: Vec<usize> = (0..test.len()).filter(|&index| column[test[index] as usize] >= 0).collect();
    let mut influence = vec![0.0; test.len()];
    let mut values = Vec::new();
    for (number, output) in outputs.iter().enumerate() {
        let positive: Vec<bool> = known.iter().map(|&index| column[test[index] as usize] == output.class).collect();
        let scores: Vec<f64> = known.iter().map(|&index| probabilities[index * outputs.len() + number]).collect();
        if let Some(area) = area(&positive, &scores) {
            known.iter().zip(&area.influence).for_each(|(&index, part)| influence[index] += part);
            values.push(area.value);
        }
    }
    let count = values.len() as f64;
    influence.iter_mut().for_each(|part| *part /= count.max(1.0));
    (!values.is_empty()).then(|| Area { value: values.iter().sum::<f64>() / count, influence })
}

/// A fifth of the rows for the test.
pub(super) fn split(job: &Job<'_>, rows: usize, repeat: usize) -> Split {
    Split::fifth(rows, job.seed, "nis/split", repeat as u64)
}
