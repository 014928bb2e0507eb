//! Which rows are written as samples, and how strong each activation is among all rows on which its latent fires.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::gallery::{Gallery, SHOWN};
use crate::codes::{Codes, Columns, Latent};
use crate::error::Result;
use etalon_kernel::random::{permutation, stream};

/// Offset of the display order of counterparts: the same row in another set comes after all samples of the gallery.
const COUNTERPARTS: u16 = 3 * SHOWN as u16;

/// The rows that are written as samples.
pub(super) struct Chosen {
    /// Ascending.
    pub rows: Vec<usize>,
    /// Which rows they were chosen from.
    eligible: Vec<bool>,
    /// Whether all eligible rows are chosen.
    pub all: bool,
}

/// The strength of an activation of a written row among all activations of the latent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rank {
    /// The fraction of activations that are stronger, rounded to four digits.
    pub above: f32,
    /// Position among the shown samples of the latent; `None` if it is not shown.
    pub order: Option<u16>,
}

impl Chosen {
    /// Chooses from all rows, or from `described` unless it is empty. If there are more than `limit`, takes rows of the
    /// gallery of every latent in every set in turn, so that each latent has strong, medium and weak ones, and then
    /// random rows.
    pub fn of(sets: &[&Codes], limit: usize, described: &BTreeSet<usize>) -> Result<Chosen> {
        let rows = sets.first().map_or(0, |codes| codes.rows());
        let mut eligible = vec![described.is_empty(); rows];
        described.iter().for_each(|&row| eligible[row] = true);
        let count = eligible.iter().filter(|is_eligible| **is_eligible).count();
        if count <= limit {
            let rows = (0..rows).filter(|&row| eligible[row]).collect();
            return Ok(Chosen { rows, eligible, all: true });
        }
        // The gallery of every set and latent: a few dozen rows each, however many rows there are.
        let mut galleries: Vec<Vec<u32>> = Vec::new();
        for codes in sets {
            let columns = codes.columns()?;
            let of_latent = |latent: usize| {
                let order = strongest_first(columns, latent as u32, &eligible);
                let gallery = Gallery::of(latent as u32, order.len(), |rank| rank as f64 / order.len() as f64);
                gallery.interleaved().into_iter().map(|rank| order[rank]).collect()
            };
            galleries.par_extend((0..codes.latents()).into_par_iter().map(of_latent));
        }
        let longest = galleries.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|index| galleries.iter().filter_map(move |rows| rows.get(index).copied()));
        let random = permutation(rows, &mut stream(0, "samples", 0)).into_iter().filter(|&row| eligible[row]);
        let mut chosen = BTreeSet::new();
        for row in in_turn.map(|row| row as usize).chain(random) {
            if chosen.len() >= limit {
                break;
            }
            chosen.insert(row);
        }
        Ok(Chosen { rows: chosen.into_iter().collect(), eligible, all: false })
    }

    /// Ranks by set, chosen row, and latent of that row in their order. The explorer can show the same row of another
    /// set, so counterparts of shown samples are shown too, after the samples of the gallery.
    pub fn ranks(&self, sets: &[&Codes]) -> Result<Vec<Vec<Vec<Rank>>>> {
        let mut all = sets.iter().map(|codes| self.of_set(codes)).collect::<Result<Vec<_>>>()?;
        for (index, &row) in self.rows.iter().enumerate() {
            let mut orders: BTreeMap<u32, u16> = BTreeMap::new();
            for (codes, ranks) in sets.iter().zip(&all) {
                for (latent, rank) in codes.view(row..row + 1)?.row(0).0.iter().zip(&ranks[index]) {
                    if let Some(order) = rank.order {
                        orders.entry(*latent).and_modify(|first| *first = order.min(*first)).or_insert(order);
                    }
                }
            }
            for (codes, ranks) in sets.iter().zip(&mut all) {
                for (latent, rank) in codes.view(row..row + 1)?.row(0).0.iter().zip(&mut ranks[index]) {
                    rank.order = rank.order.or_else(|| orders.get(latent).map(|order| order + COUNTERPARTS));
                }
            }
        }
        Ok(all)
    }

    fn of_set(&self, codes: &Codes) -> Result<Vec<Vec<Rank>>> {
        let mut index_of = vec![None; codes.rows()];
        self.rows.iter().enumerate().for_each(|(index, &row)| index_of[row] = Some(index));
        let columns = codes.columns()?;
        let of_latent = |latent: u32| -> Vec<(usize, Rank)> {
            let order = strongest_first(columns, latent, &self.eligible);
            let above = |rank: usize| (1e4 * rank as f64 / order.len() as f64).round() / 1e4;
            let mut written: Vec<(usize, Rank)> = order
                .iter()
                .enumerate()
                .filter_map(|(rank, &row)| {
                    Some((index_of[row as usize]?, Rank { above: above(rank) as f32, order: None }))
                })
                .collect();
            // The explorer knows the written rows only, so the gallery is computed from them as the explorer does.
            let count = written.len();
            let above = |index: usize| {
                if self.all { index as f64 / count as f64 } else { f64::from(written[index].1.above) }
            };
            for (order, index) in Gallery::of(latent, count, above).interleaved().into_iter().enumerate() {
                written[index].1.order = Some(order as u16);
            }
            written
        };
        let by_latent: Vec<Vec<(usize, Rank)>> = (0..codes.latents() as u32).into_par_iter().map(of_latent).collect();
        let mut by_row = vec![Vec::new(); self.rows.len()];
        for (index, rank) in by_latent.into_iter().flatten() {
            by_row[index].push(rank);
        }
        Ok(by_row)
    }
}

/// The eligible rows on which a latent fires, strongest first; among equal values the lower row first.
fn strongest_first(columns: &Columns, latent: u32, eligible: &[bool]) -> Vec<u32> {
    let (rows, values) = columns.latent(Latent(latent));
    let entries = values.iter().copied().zip(rows.iter().copied());
    let mut order: Vec<(f32, u32)> = entries.filter(|(_, row)| eligible[*row as usize]).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows × latents: 1 0 | 3 2 | 0 4.
    fn codes() -> Codes {
        Codes::from_dense(&[1.0, 0.0, 3.0, 2.0, 0.0, 4.0], 2).unwrap()
    }

    #[test]
    fn a_low_limit_keeps_the_strongest_row_of_every_latent() {
        // Latent 0 is strongest in row 1, latent 1 in row 2.
        let of = |limit, described: &[usize]| {
            let chosen = Chosen::of(&[&codes()], limit, &described.iter().copied().collect()).unwrap();
            (chosen.rows, chosen.all)
        };
        assert_eq!(of(2, &[]), (vec![1, 2], false));
        assert_eq!(of(3, &[]), (vec![0, 1, 2], true));
        assert_eq!(of(0, &[]), (vec![], false));
        // Only described rows, if there are any: of 0 and 2, latent 0 is strongest in row 0.
        assert_eq!(of(9, &[0, 2]), (vec![0, 2], true));
        assert_eq!(of(1, &[0, 2]), (vec![0], false));
        // Generators count too: there, latent 0 is strongest in row 0.
        let other = Codes::from_dense(&[9.0, 0.0, 0.0, 0.0, 0.0, 0.0], 2).unwrap();
        assert_eq!(Chosen::of(&[&codes(), &other], 3, &BTreeSet::new()).unwrap().rows, [0, 1, 2]);
    }

    #[test]
    fn a_latent_keeps_weak_rows_too() {
        // One latent that fires on 1000 rows, the first the strongest.
        let codes = Codes::from_dense(&(0..1000).map(|row| 1000.0 - row as f32).collect::<Vec<_>>(), 1).unwrap();
        let chosen = Chosen::of(&[&codes], 60, &BTreeSet::new()).unwrap();
        assert_eq!(chosen.rows.len(), 60);
        let deciles: BTreeSet<usize> = chosen.rows.iter().map(|row| row / 100).collect();
        assert_eq!(deciles.len(), 10, "{:?}", chosen.rows);
        assert_eq!(chosen.rows[..16], (0..16).collect::<Vec<_>>());
        // Ranks are among all rows, and samples of all kinds are shown.
        let ranks = chosen.ranks(&[&codes]).unwrap().remove(0);
        let rank_of = |row: usize| ranks[chosen.rows.binary_search(&row).unwrap()][0];
        assert_eq!(rank_of(0), Rank { above: 0.0, order: Some(0) });
        assert_eq!(rank_of(550), Rank { above: 0.55, order: Some(1) });
        let shown = ranks.iter().filter(|one| one[0].order.is_some()).count();
        assert!((30..=42).contains(&shown), "{shown}");
        // A low limit has samples of all kinds too.
        let few = Chosen::of(&[&codes], 6, &BTreeSet::new()).unwrap().rows;
        assert!(few.contains(&0) && few.contains(&550) && few.contains(&950), "{few:?}");
    }

    #[test]
    fn counterparts_come_after_the_gallery() {
        // One latent on 100 rows; in the other set it is strongest in the last row, which is weak here.
        let ascending = Codes::from_dense(&(0..100).map(|row| 1.0 + row as f32).collect::<Vec<_>>(), 1).unwrap();
        let flat = Codes::from_dense(
            &(0..100).map(|row| if row == 42 { 0.0 } else { 200.0 - row as f32 }).collect::<Vec<_>>(),
            1,
        )
        .unwrap();
        let chosen = Chosen::of(&[&ascending, &flat], 100, &BTreeSet::new()).unwrap();
        let alone = chosen.ranks(&[&ascending]).unwrap().remove(0);
        let both = chosen.ranks(&[&ascending, &flat]).unwrap();
        for row in 0..100 {
            let other = both[1][row].first().and_then(|one| one.order);
            let expected =
                alone[row][0].order.or(other.filter(|&order| order < COUNTERPARTS).map(|order| order + COUNTERPARTS));
            assert_eq!(both[0][row][0].order, expected, "row {row}");
        }
        assert!(both[1][42].is_empty() && both[1][99][0].order.is_some());
    }

    #[test]
    fn threads_do_not_change_the_result() {
        let value = |index: usize| if (index * 7919) % 13 < 3 { (index * 31 % 97) as f32 } else { 0.0 };
        let codes = Codes::from_dense(&(0..4000).map(value).collect::<Vec<_>>(), 20).unwrap();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let chosen = Chosen::of(&[&codes], 50, &BTreeSet::new()).unwrap();
                let ranks = chosen.ranks(&[&codes]).unwrap().remove(0);
                (chosen.rows, ranks)
            })
        };
        assert_eq!(with(1), with(7));
        let (rows, ranks) = with(2);
        let lengths = |row: &usize| codes.view(*row..row + 1).unwrap().row(0).0.len();
        assert!(rows.iter().map(lengths).eq(ranks.iter().map(Vec::len)));
    }
}
