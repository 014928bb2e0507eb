//! The probes behind purity matrices: one small network per pair of a representation and a concept.

use etalon_kernel::random::{permutation, stream, unit};
use etalon_kernel::small_networks::{LANES, Lanes, Size, SmallNetworks, Training, UNKNOWN};

use super::areas::{Area, class_area};
use super::concepts::Split;
use crate::error::Result;
use crate::labels::Factors;
use crate::run::Job;

/// Trains probes and measures them on held-out rows.
pub(super) struct Probes<'a> {
    pub job: &'a Job<'a>,
    pub factors: &'a Factors,
    pub training: Training,
    /// Units of the hidden layer.
    pub hidden: usize,
    pub split: &'a Split,
    /// The name of the random streams.
    pub purpose: &'a str,
}

/// What the probes read.
pub(super) struct Input<'a> {
    /// The values of a representation, row by row.
    pub values: &'a [f32],
    /// Values per row.
    pub width: usize,
    /// The number of its random streams.
    pub number: usize,
    /// Rows that are left out, if not all count.
    pub known: Option<&'a [i32]>,
}

impl Probes<'_> {
    /// The outputs of a probe of a concept.
    fn outputs(&self, concept: usize) -> usize {
        match self.factors.classes(concept) {
            0..=2 => 1,
            classes => classes,
        }
    }

    /// The areas of all `targets` predicted from one representation, on the test rows; `None` where a class is missing.
    ///
    /// The initial weights of a probe depend on the representation and the target, the order of rows on the
    /// representation only: sixteen targets are trained together.
    pub fn areas(&self, input: &Input<'_>, targets: &[usize]) -> Result<Vec<Option<Area>>> {
        let (train, test) = (self.gathered(input, &self.split.train), self.gathered(input, &self.split.test));
        let rows = self.split.train.len();
        let bytes = rows * (4 * LANES + 4 * self.training.epochs) + 8 * self.split.test.len() * targets.len();
        let _memory = self.job.budget().reserve(bytes as u64, "the probes of a representation")?;
        let orders: Vec<Vec<u32>> = (0..self.training.epochs)
            .map(|epoch| {
                let number = (input.number as u64) << 20 | epoch as u64;
                let mut random = stream(self.job.seed, &format!("{}/epoch", self.purpose), number);
                permutation(rows, &mut random).into_iter().map(|row| row as u32).collect()
            })
            .collect();
        let mut areas = vec![None; targets.len()];
        let mut sizes: Vec<usize> = targets.iter().map(|&target| self.outputs(target)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for outputs in sizes {
            let same: Vec<usize> =
                (0..targets.len()).filter(|&index| self.outputs(targets[index]) == outputs).collect();
            let size = Size { width: input.width, hidden: self.hidden, outputs };
            for group in same.chunks(LANES) {
                let lanes: Vec<usize> = group.iter().map(|&index| targets[index]).collect();
                let mut networks = SmallNetworks::new(size);
                for (lane, &target) in lanes.iter().enumerate() {
                    networks.set(lane, &self.start(size, input.number, target));
                }
                let truth = self.truth(input, &lanes);
                networks.train(&self.training, &train, &truth, |epoch| orders[epoch].clone(), self.job.context)?;
                let scores = networks.scores(&test);
                for (lane, &index) in group.iter().enumerate() {
                    let own: Vec<f64> = scores.iter().map(|lanes| f64::from(lanes[lane])).collect();
                    let truth: Vec<i32> =
                        self.split.test.iter().map(|&row| self.class(input, targets[index], row)).collect();
                    areas[index] = class_area(&truth, &own, outputs);
                }
            }
        }
        Ok(areas)
    }

    /// The class of a row, −1 if it does not count.
    fn class(&self, input: &Input<'_>, target: usize, row: u32) -> i32 {
        match input.known {
            Some(known) if known[row as usize] < 0 => -1,
            _ => self.factors.column(target)[row as usize],
        }
    }

    fn truth(&self, input: &Input<'_>, targets: &[usize]) -> Vec<Lanes> {
        let of_row = |&row: &u32| {
            let mut lanes = [UNKNOWN; LANES];
            for (lane, &target) in lanes.iter_mut().zip(targets) {
                *lane = self.class(input, target, row) as f32;
            }
            lanes
        };
        self.split.train.iter().map(of_row).collect()
    }

    fn gathered(&self, input: &Input<'_>, rows: &[u32]) -> Vec<f32> {
        rows.iter().flat_map(|&row| &input.values[row as usize * input.width..][..input.width]).copied().collect()
    }

    /// Glorot's initial weights, uniform in ±√(6 / (inputs + outputs)) of their layer; intercepts are zero.
    fn start(&self, size: Size, source: usize, target: usize) -> Vec<f32> {
        let number = (source as u64) << 32 | target as u64;
        let mut random = stream(self.job.seed, &format!("{}/start", self.purpose), number);
        let mut glorot = |inputs: usize, outputs: usize| -> Vec<f32> {
            let bound = (6.0 / (inputs + outputs).max(1) as f64).sqrt();
            (0..inputs * outputs).map(|_| ((2.0 * unit(&mut random) - 1.0) * bound) as f32).collect()
        };
        let (first, second) = (glorot(size.width, size.hidden), glorot(size.hidden, size.outputs));
        [first, vec![0.0; size.hidden], second, vec![0.0; size.outputs]].concat()
    }
}
