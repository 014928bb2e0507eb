//! Which latents fire together with one latent.

use super::Entries;
use crate::codes::{Codes, Latent};
use crate::error::{Complaint, Result};
use crate::kernel::top::truncate_to_largest;

/// How one latent goes with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// The sum over rows of the product of the two values.
    pub product: f64,
    /// Rows where both fire, as a share of those where one does; `None` where neither ever fires.
    pub jaccard: Option<f64>,
    /// The logarithm of how much oftener both fire than if they did not know of each other; `None` where they never do.
    pub pmi: Option<f64>,
}

/// A latent that fires together with the one in question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partner {
    /// Which.
    pub latent: Latent,
    /// How the two go together.
    pub together: Together,
}

/// The partners of one latent with the largest products, the lower latent among equals. A latent fires above 0.
pub fn partners(codes: &Codes, latent: Latent, keep: usize) -> Result<Vec<Partner>> {
    if latent.0 as usize >= codes.latents() {
        return Err(Complaint::new("there is no such latent")
            .expected(format!("a latent below {}", codes.latents()))
            .found(latent.0)
            .into());
    }
    let groups = vec![0; codes.rows()];
    let mut line = Line::new(codes.latents(), 1);
    let entries = Entries::new(codes, &groups)?;
    line.fill(&entries, latent);
    let found = line.best(keep);
    let fired = &entries.fired;
    let partner = |&other: &u32| Partner {
        latent: Latent(other),
        together: line.together(other, fired[latent.0 as usize], fired[other as usize], codes.rows()),
    };
    let partners = found.iter().map(partner).collect();
    Ok(partners)
}

/// One line of the co-occurrence matrix, by groups of rows.
pub(super) struct Line {
    groups: usize,
    products: Vec<f64>,
    both: Vec<u32>,
    /// The columns that are not empty, ascending.
    pub touched: Vec<u32>,
    is_touched: Vec<bool>,
}

impl Line {
    pub fn new(latents: usize, groups: usize) -> Line {
        let products = vec![0.0; latents * groups];
        Line { groups, products, both: vec![0; latents], touched: Vec::new(), is_touched: vec![false; latents] }
    }

    /// Forgets the line before and computes that of a latent, itself left out.
    pub fn fill(&mut self, entries: &Entries<'_>, latent: Latent) {
        for other in self.touched.drain(..) {
            let other = other as usize;
            self.products[other * self.groups..(other + 1) * self.groups].fill(0.0);
            (self.both[other], self.is_touched[other]) = (0, false);
        }
        let (rows, values) = entries.columns.latent(latent);
        for (&row, &mine) in rows.iter().zip(values) {
            let group = usize::from(entries.groups[row as usize]);
            let (others, values) = entries.rows.row(row as usize);
            for (&other, &value) in others.iter().zip(values).filter(|(other, _)| **other != latent.0) {
                let place = other as usize;
                if !std::mem::replace(&mut self.is_touched[place], true) {
                    self.touched.push(other);
                }
                self.products[place * self.groups + group] += f64::from(mine) * f64::from(value);
                self.both[place] += u32::from(mine > 0.0 && value > 0.0);
            }
        }
        self.touched.sort_unstable();
    }

    /// The parts of an entry, by groups.
    pub fn parts(&self, other: u32) -> &[f64] {
        &self.products[other as usize * self.groups..][..self.groups]
    }

    /// The columns with the largest positive entries.
    pub fn best(&self, keep: usize) -> Vec<u32> {
        let product = |other: u32| self.parts(other).iter().sum::<f64>();
        let mut list: Vec<(f32, u32)> =
            self.touched.iter().map(|&other| (product(other) as f32, other)).filter(|entry| entry.0 > 0.0).collect();
        truncate_to_largest(&mut list, keep);
        list.into_iter().map(|entry| entry.1).collect()
    }

    pub fn together(&self, other: u32, mine: u64, theirs: u64, rows: usize) -> Together {
        let both = u64::from(self.both[other as usize]);
        let either = mine + theirs - both;
        let pmi = || libm::log(both as f64 * rows as f64 / (mine as f64 * theirs as f64));
        Together {
            product: self.parts(other).iter().sum(),
            jaccard: (either > 0).then(|| both as f64 / either as f64),
            pmi: (both > 0).then(pmi),
        }
    }
}
