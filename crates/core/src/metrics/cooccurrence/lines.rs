//! Line by line of the co-occurrence matrices: never more than one line of each in memory.

use super::counts::{Comparison, GROUPS, WithoutGroup, sums_without, threshold};
use super::partners::{Line, Together};
use super::{Entries, Sets, spectrum};
use crate::codes::Latent;
use crate::error::Result;
use crate::run::{Blocks, Column, Job, Next, Tally};

/// Latents of a block.
const BLOCK: usize = 64;

/// Numbers of a partner: its latent, then product, Jaccard and PMI among the real rows and in every model.
pub(super) const PER_SET: usize = 3;

pub(super) struct Lines {
    pub sets: Sets,
    /// The number of the threshold of the headline.
    pub place: usize,
    pub partners: usize,
}

impl Lines {
    fn latents(&self) -> usize {
        self.sets.real.latents()
    }
}

/// Positions of the columns of a tally: the null first, then three per model, then the partners.
pub(super) fn column_of_model(model: usize) -> usize {
    1 + 3 * model
}

impl Blocks for Lines {
    fn count(&self) -> usize {
        self.latents().div_ceil(BLOCK)
    }

    fn unit(&self) -> &'static str {
        "blocks of latents"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let (latents, rows, groups) = (self.latents(), self.sets.real.rows(), &self.sets.groups);
        let real = Entries::new(&self.sets.real, groups)?;
        let models = self.sets.models.iter().map(|model| Entries::new(&model.1, groups)).collect::<Result<Vec<_>>>()?;
        // Entries are means over rows (or sums), and so are the thresholds they are compared with.
        let scale = |rows: usize| if self.sets.sums { 1.0 } else { 1.0 / (rows as f64).max(1.0) };
        let group_rows: [usize; GROUPS] =
            std::array::from_fn(|group| groups.iter().filter(|&&other| usize::from(other) == group).count());
        let whole = scale(rows);
        let halves = [0, 1].map(|half| scale(group_rows[half * GROUPS / 2..(half + 1) * GROUPS / 2].iter().sum()));
        let thresholds = group_rows.map(|group| threshold(self.place) / scale(rows - group));

        let (mut mine, mut theirs) = (Line::new(latents, GROUPS), Line::new(latents, GROUPS));
        let mut null = Comparison::new();
        let mut found: Vec<(Comparison, Comparison, WithoutGroup)> =
            vec![(Comparison::new(), Comparison::new(), WithoutGroup::new()); models.len()];
        let mut lists = Vec::new();
        for latent in block * BLOCK..((block + 1) * BLOCK).min(latents) {
            let latent = Latent(latent as u32);
            mine.fill(&real, latent);
            let later = |line: &Line| line.touched.partition_point(|&other| other <= latent.0);
            for &other in &mine.touched[later(&mine)..] {
                let [first, second] = halves_of(mine.parts(other));
                null.add(first * halves[0], second * halves[1]);
            }
            let best = mine.best(self.partners);
            let together = |line: &Line, entries: &Entries<'_>, other: u32| {
                let (mine, theirs) = (entries.fired[latent.0 as usize], entries.fired[other as usize]);
                numbers(line.together(other, mine, theirs, rows))
            };
            let width = 1 + PER_SET * (1 + models.len());
            let mut list = vec![f64::NAN; best.len() * width];
            for (&other, list) in best.iter().zip(list.chunks_exact_mut(width)) {
                list[0] = f64::from(other);
                list[1..=PER_SET].copy_from_slice(&together(&mine, &real, other));
            }
            for (place, (entries, (all, half, without))) in models.iter().zip(&mut found).enumerate() {
                theirs.fill(entries, latent);
                for other in union(&mine.touched[later(&mine)..], &theirs.touched[later(&theirs)..]) {
                    let (a, b) = (mine.parts(other), theirs.parts(other));
                    all.add(a.iter().sum::<f64>() * whole, b.iter().sum::<f64>() * whole);
                    half.add(halves_of(a)[0] * halves[0], halves_of(b)[1] * halves[1]);
                    without.add(&sums_without(a), &sums_without(b), &thresholds);
                }
                let from = 1 + PER_SET * (1 + place);
                for (&other, list) in best.iter().zip(list.chunks_exact_mut(width)) {
                    list[from..from + PER_SET].copy_from_slice(&together(&theirs, entries, other));
                }
            }
            lists.push((u64::from(latent.0), list));
        }
        let mut columns = vec![Column::Count(null.into_counts())];
        for (all, half, without) in found {
            columns.extend([all.into_counts(), half.into_counts(), without.0].map(Column::Count));
        }
        columns.push(Column::Lists(lists));
        Ok(Tally { columns })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        spectrum::Spectra::start(self, tally, job)
    }
}

fn halves_of(parts: &[f64]) -> [f64; 2] {
    let (first, second) = parts.split_at(GROUPS / 2);
    [first.iter().sum(), second.iter().sum()]
}

fn numbers(together: Together) -> [f64; PER_SET] {
    [together.product, together.jaccard.unwrap_or(f64::NAN), together.pmi.unwrap_or(f64::NAN)]
}

/// Two ascending lists as one.
fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}
