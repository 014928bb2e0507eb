//! Line by line of the co-occurrence matrices: never more than one line of each in a thread's memory.

use std::ops::Range;
use std::sync::Mutex;

use super::counts::{Comparison, GROUPS, WithoutGroup, threshold};
use super::line::{Line, Scale};
use super::pairs::{Counts, Note, Pairs, fill_alone, ranges};
use super::{Sets, numbers};
use crate::codes::Codes;
use crate::error::Result;
use crate::kernel::ahead::AHEAD;
use crate::kernel::large::Large;
use crate::run::{Blocks, Column, Job, Leaders, Next, Tally};

/// Pairs of a block, all sets together. Every block walks over all rows: many pairs make few walks.
const PAIRS: u64 = 1 << 24;

pub(super) struct Lines {
    pub sets: Sets,
    /// The number of the threshold of the headline.
    pub place: usize,
    partners: usize,
    /// Whether lines need sums by group of rows.
    by_group: bool,
    /// The real rows, then those of every model.
    pub counts: Vec<Counts>,
    /// The latents of every block.
    blocks: Vec<Range<usize>>,
    /// How many rows every group has.
    group_rows: [usize; GROUPS],
    /// The room that one set needs in the largest block of several latents.
    most: usize,
    /// Memory of blocks that are done: new memory costs as much as what is written into it.
    spare: Mutex<Vec<Large<Note>>>,
}

impl Lines {
    pub fn new(sets: Sets, place: usize, partners: usize) -> Result<Lines> {
        let counts = sets.all().map(|codes| Counts::of(codes)).collect::<Result<Vec<_>>>()?;
        let mut pairs = vec![0; sets.real.latents()];
        for counts in &counts {
            pairs.iter_mut().zip(&counts.after).for_each(|(pairs, after)| *pairs += after);
        }
        let mut group_rows = [0; GROUPS];
        sets.groups.iter().for_each(|&group| group_rows[usize::from(group)] += 1);
        let by_group = place > 0 || counts.iter().any(|counts| counts.is_signed);
        let blocks = ranges(&pairs, PAIRS);
        let room = |block| counts.iter().map(|counts| Pairs::room(block, &counts.after)).max().unwrap_or(0);
        let most = blocks.iter().filter(|block| block.len() > 1).map(room).max().unwrap_or(0);
        Ok(Lines { by_group, sets, place, partners, counts, blocks, group_rows, most, spare: Mutex::default() })
    }

    /// Bytes that a thread takes.
    pub fn bytes(&self) -> u64 {
        let of_set = Line::bytes(self.latents(), self.by_group) + self.most as u64 * Pairs::BYTES;
        self.counts.len() as u64 * of_set + Leaders::bytes(self.latents(), self.partners)
    }

    pub fn latents(&self) -> usize {
        self.sets.real.latents()
    }

    /// Entries are means over rows (or sums), and so are the thresholds they are compared with.
    fn scale(&self) -> Scale {
        let of = |rows: usize| if self.sets.sums { 1.0 } else { 1.0 / (rows as f64).max(1.0) };
        let rows = self.sets.real.rows();
        let half = |half: usize| of(self.group_rows[half * GROUPS / 2..(half + 1) * GROUPS / 2].iter().sum());
        Scale {
            whole: of(rows),
            halves: [half(0), half(1)],
            without: self.group_rows.map(|group| threshold(self.place) / of(rows - group)),
        }
    }

    /// What fills the lines of a block. One latent alone may have more pairs than fit into memory, and needs no sorting.
    fn fillers(&self, block: &Range<usize>) -> Result<Vec<Filler<'_>>> {
        let groups = &self.sets.groups;
        let mut fillers = Vec::new();
        for (codes, counts) in self.sets.all().zip(&self.counts) {
            fillers.push(match block.len() {
                1 => Filler::Walk(codes, groups),
                _ => {
                    let spare = self.spare.lock().ok().and_then(|mut spare| spare.pop());
                    let memory = spare.unwrap_or_else(|| Large::zeros(self.most));
                    Filler::Sorted(Pairs::of(codes, groups, block.clone(), &counts.after, memory)?)
                }
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
    fn into_memory(self) -> Option<Large<Note>> {
        match self {
            Filler::Sorted(pairs) => Some(pairs.into_memory()),
            Filler::Walk(..) => None,
        }
    }

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
        let latents = self.latents();
        let block = self.blocks[block].clone();
        let fillers = self.fillers(&block)?;
        let scale = self.scale();
        let mut lines: Vec<Line> = fillers.iter().map(|_| Line::new(latents, self.by_group)).collect();
        let mut null = Comparison::new();
        let mut found: Vec<(Comparison, Comparison, WithoutGroup)> =
            vec![(Comparison::new(), Comparison::new(), WithoutGroup::new()); fillers.len() - 1];
        let mut leaders = Leaders::new(latents, self.partners);
        let mut offers: Vec<(f32, usize)> = Vec::new();
        for latent in block {
            lines.iter_mut().zip(&fillers).try_for_each(|(line, filler)| filler.fill(latent, line))?;
            let Some((mine, models)) = lines.split_first_mut() else { continue };
            mine.rank(&scale, |other, rank, product| {
                null.add(rank.halves[0], rank.halves[1]);
                let product = (product as f32).min(f32::MAX);
                if product > 0.0 {
                    leaders.offer(latent, product, other as u32);
                    // The lists of other latents lie far apart: those that are needed are asked for ahead.
                    if leaders.takes(other, product) {
                        offers.push((product, other));
                    }
                }
            });
            for (place, &(product, other)) in offers.iter().enumerate() {
                if let Some(&(_, coming)) = offers.get(place + AHEAD) {
                    leaders.expect(coming);
                }
                leaders.offer(other, product, latent as u32);
            }
            offers.clear();
            for (theirs, (all, half, without)) in models.iter_mut().zip(&mut found) {
                theirs.rank(&scale, |_, _, _| {});
                mine.compare(theirs, |other, a, b| {
                    all.add(a.whole, b.whole);
                    half.add(a.halves[0], b.halves[1]);
                    without.add(a.case, b.case, || [&*mine, &*theirs].map(|line| line.above_without(other, &scale)));
                });
            }
        }
        if let Ok(mut spare) = self.spare.lock() {
            spare.extend(fillers.into_iter().filter_map(Filler::into_memory));
        }
        let mut columns = vec![Column::Count(null.into_counts())];
        for (all, half, without) in found {
            columns.extend([all.into_counts(), half.into_counts(), without.into_counts()].map(Column::Count));
        }
        columns.push(Column::Top(leaders));
        Ok(Tally { columns })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        numbers::Numbers::start(self, tally, job)
    }
}
