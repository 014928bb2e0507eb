//! Line by line of the co-occurrence matrices: never more than one line of each in a thread's memory.

use std::ops::Range;

use super::counts::{Comparison, GROUPS, WithoutGroup, threshold};
use super::line::Line;
use super::pairs::{Counts, Pairs, fill_alone, ranges};
use super::partners::Together;
use super::{Sets, spectrum};
use crate::codes::{Codes, Latent};
use crate::error::Result;
use crate::run::{Blocks, Column, Job, Next, Tally};

/// Pairs of a block, all sets together. Every block walks over all rows: many pairs make few walks.
const PAIRS: u64 = 1 << 24;

/// Numbers of a partner: its latent, then product, Jaccard and PMI among the real rows and in every model.
pub(super) const PER_SET: usize = 3;

pub(super) struct Lines {
    pub sets: Sets,
    /// The number of the threshold of the headline.
    pub place: usize,
    partners: usize,
    /// Whether lines need sums by group of rows.
    by_group: bool,
    /// The real rows, then those of every model.
    counts: Vec<Counts>,
    /// The latents of every block.
    blocks: Vec<Range<usize>>,
    /// How many rows every group has.
    group_rows: [usize; GROUPS],
}

impl Lines {
    pub fn new(sets: Sets, place: usize, partners: usize) -> Result<Lines> {
        let counts = sets.all().map(|codes| Counts::of(codes)).collect::<Result<Vec<_>>>()?;
        let mut pairs = vec![0; sets.real.latents()];
        for counts in &counts {
            pairs.iter_mut().zip(&counts.others).for_each(|(pairs, others)| *pairs += others);
        }
        let mut group_rows = [0; GROUPS];
        sets.groups.iter().for_each(|&group| group_rows[usize::from(group)] += 1);
        let by_group = place > 0 || counts.iter().any(|counts| counts.is_signed);
        Ok(Lines { by_group, sets, place, partners, counts, blocks: ranges(&pairs, PAIRS), group_rows })
    }

    /// Bytes that a thread takes.
    pub fn bytes(&self) -> u64 {
        let total: u64 = self.counts.iter().flat_map(|counts| &counts.others).sum();
        self.counts.len() as u64 * Line::bytes(self.latents(), self.by_group) + total.min(PAIRS) * Pairs::BYTES
    }

    pub fn latents(&self) -> usize {
        self.sets.real.latents()
    }

    /// What fills the lines of a block. One latent alone may have more pairs than fit into memory, and needs no sorting.
    fn fillers(&self, block: &Range<usize>) -> Result<Vec<Filler<'_>>> {
        let groups = &self.sets.groups;
        let mut fillers = Vec::new();
        for (codes, counts) in self.sets.all().zip(&self.counts) {
            fillers.push(match block.len() {
                1 => Filler::Walk(codes, groups),
                _ => Filler::Sorted(Pairs::of(codes, groups, block.clone(), &counts.others)?),
            });
        }
        Ok(fillers)
    }
}

/// Where the lines of a set come from.
enum Filler<'a> {
    Sorted(Pairs),
    Walk(&'a Codes, &'a [u8]),
}

impl Filler<'_> {
    fn fill(&self, latent: usize, line: &mut Line) -> Result<()> {
        line.clear();
        match self {
            Filler::Sorted(pairs) => pairs.fill(latent, line),
            Filler::Walk(codes, groups) => fill_alone(codes, groups, latent as u32, line)?,
        }
        Ok(())
    }
}

/// Positions of the columns of a tally: the null first, then three per model, then the partners.
pub(super) fn column_of_model(model: usize) -> usize {
    1 + 3 * model
}

impl Blocks for Lines {
    fn count(&self) -> usize {
        self.blocks.len()
    }

    fn unit(&self) -> &'static str {
        "blocks of latents"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let (latents, rows) = (self.latents(), self.sets.real.rows());
        let block = self.blocks[block].clone();
        let fillers = self.fillers(&block)?;
        // Entries are means over rows (or sums), and so are the thresholds they are compared with.
        let scale = |rows: usize| if self.sets.sums { 1.0 } else { 1.0 / (rows as f64).max(1.0) };
        let whole = scale(rows);
        let half = |half: usize| scale(self.group_rows[half * GROUPS / 2..(half + 1) * GROUPS / 2].iter().sum());
        let halves = [half(0), half(1)];
        let thresholds = self.group_rows.map(|group| threshold(self.place) / scale(rows - group));

        let mut lines: Vec<Line> = fillers.iter().map(|_| Line::new(latents, self.by_group)).collect();
        let mut null = Comparison::new();
        let mut found: Vec<(Comparison, Comparison, WithoutGroup)> =
            vec![(Comparison::new(), Comparison::new(), WithoutGroup::new()); fillers.len() - 1];
        let mut lists = Vec::new();
        for latent in block {
            lines.iter_mut().zip(&fillers).try_for_each(|(line, filler)| filler.fill(latent, line))?;
            let latent = Latent(latent as u32);
            let (mine, models) = (&lines[0], &lines[1..]);
            for other in mine.either_after(mine, latent) {
                let [first, second] = mine.halves(other);
                null.add(first * halves[0], second * halves[1]);
            }
            for (theirs, (all, half, without)) in models.iter().zip(&mut found) {
                for other in mine.either_after(theirs, latent) {
                    let (a, b) = (mine.halves(other), theirs.halves(other));
                    all.add((a[0] + a[1]) * whole, (b[0] + b[1]) * whole);
                    half.add(a[0] * halves[0], b[1] * halves[1]);
                    without.add(mine.above_without(other, &thresholds), theirs.above_without(other, &thresholds));
                }
            }
            let mut list = Vec::new();
            for other in mine.best(self.partners) {
                list.push(f64::from(other));
                for (line, Counts { fired, .. }) in lines.iter().zip(&self.counts) {
                    let (mine, theirs) = (fired[latent.0 as usize], fired[other as usize]);
                    list.extend(numbers(line.together(other, mine, theirs, rows)));
                }
            }
            lists.push((u64::from(latent.0), list));
        }
        let mut columns = vec![Column::Count(null.into_counts())];
        for (all, half, without) in found {
            columns.extend([all.into_counts(), half.into_counts(), without.into_counts()].map(Column::Count));
        }
        columns.push(Column::Lists(lists));
        Ok(Tally { columns })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        spectrum::Spectra::start(self, tally, job)
    }
}

fn numbers(together: Together) -> [f64; PER_SET] {
    [together.product, together.jaccard.unwrap_or(f64::NAN), together.pmi.unwrap_or(f64::NAN)]
}
