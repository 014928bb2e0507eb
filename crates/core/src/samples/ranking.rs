//! Which rows are written as samples, and where each of them stands among all rows on which a latent fires.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::gallery::{Gallery, SHOWN};
use crate::codes::{Codes, Columns, Latent};
use crate::error::Result;
use etalon_kernel::random::{permutation, stream};

/// What a latent does on the row of another set that it shows comes after the three kinds that it shows of its own.
const COUNTERPARTS: u16 = 3 * SHOWN as u16;

/// The rows that are written.
pub(super) struct Chosen {
    /// Ascending.
    pub rows: Vec<usize>,
    /// Of which rows they were chosen.
    eligible: Vec<bool>,
    /// Are they all of those?
    pub all: bool,
}

/// Where a firing of a written row stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    /// The share of the rows with this latent that fire more strongly, in four digits.
    pub above: f32,
    /// Its turn among what is shown of the latent; nothing if it is not shown.
    pub turn: Option<u16>,
}

impl Chosen {
    /// All rows (of `seen`, unless it is empty); or, if there are more than `most`, rows that every latent shows in every
    /// set, by turns, so that it has strong, middling and weak ones; and if room is left, any.
    pub fn of(sets: &[&Codes], most: usize, seen: &BTreeSet<usize>) -> Result<Chosen> {
        let rows = sets.first().map_or(0, |codes| codes.rows());
        let mut eligible = vec![seen.is_empty(); rows];
        seen.iter().for_each(|&row| eligible[row] = true);
        let count = eligible.iter().filter(|is| **is).count();
        if count <= most {
            let rows = (0..rows).filter(|&row| eligible[row]).collect();
            return Ok(Chosen { rows, eligible, all: true });
        }
        // Of every set and latent the rows that it wishes for: a few dozen numbers, however many rows there are.
        let mut wishes: Vec<Vec<u32>> = Vec::new();
        for codes in sets {
            let columns = codes.columns()?;
            let of_latent = |latent: usize| {
                let order = strongest_first(columns, latent as u32, &eligible);
                let gallery = Gallery::of(latent as u32, order.len(), |place| place as f64 / order.len() as f64);
                gallery.in_turn().into_iter().map(|place| order[place]).collect()
            };
            wishes.par_extend((0..codes.latents()).into_par_iter().map(of_latent));
        }
        let longest = wishes.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|turn| wishes.iter().filter_map(move |wishes| wishes.get(turn).copied()));
        let any = permutation(rows, &mut stream(0, "samples", 0)).into_iter().filter(|&row| eligible[row]);
        let mut found = BTreeSet::new();
        for row in in_turn.map(|row| row as usize).chain(any) {
            if found.len() >= most {
                break;
            }
            found.insert(row);
        }
        Ok(Chosen { rows: found.into_iter().collect(), eligible, all: false })
    }

    /// By set, by chosen row, and by latent of that row in their order. Whoever sees a row may ask for the same row of the
    /// other sets, so what a latent does there is shown too, after all that it shows by itself.
    pub fn standings(&self, sets: &[&Codes]) -> Result<Vec<Vec<Vec<Standing>>>> {
        let mut all = sets.iter().map(|codes| self.of_set(codes)).collect::<Result<Vec<_>>>()?;
        for (place, &row) in self.rows.iter().enumerate() {
            let mut turns: BTreeMap<u32, u16> = BTreeMap::new();
            for (codes, standings) in sets.iter().zip(&all) {
                for (latent, standing) in codes.view(row..row + 1)?.row(0).0.iter().zip(&standings[place]) {
                    if let Some(turn) = standing.turn {
                        turns.entry(*latent).and_modify(|first| *first = turn.min(*first)).or_insert(turn);
                    }
                }
            }
            for (codes, standings) in sets.iter().zip(&mut all) {
                for (latent, standing) in codes.view(row..row + 1)?.row(0).0.iter().zip(&mut standings[place]) {
                    standing.turn = standing.turn.or_else(|| turns.get(latent).map(|turn| turn + COUNTERPARTS));
                }
            }
        }
        Ok(all)
    }

    fn of_set(&self, codes: &Codes) -> Result<Vec<Vec<Standing>>> {
        let mut place_of = vec![None; codes.rows()];
        self.rows.iter().enumerate().for_each(|(place, &row)| place_of[row] = Some(place));
        let columns = codes.columns()?;
        let of_latent = |latent: u32| -> Vec<(usize, Standing)> {
            let order = strongest_first(columns, latent, &self.eligible);
            let share = |place: usize| (1e4 * place as f64 / order.len() as f64).round() / 1e4;
            let mut written: Vec<(usize, Standing)> = order
                .iter()
                .enumerate()
                .filter_map(|(place, &row)| {
                    Some((place_of[row as usize]?, Standing { above: share(place) as f32, turn: None }))
                })
                .collect();
            // As somebody sees it who knows the written rows only.
            let count = written.len();
            let above = |place: usize| {
                if self.all { place as f64 / count as f64 } else { f64::from(written[place].1.above) }
            };
            for (turn, place) in Gallery::of(latent, count, above).in_turn().into_iter().enumerate() {
                written[place].1.turn = Some(turn as u16);
            }
            written
        };
        let by_latent: Vec<Vec<(usize, Standing)>> =
            (0..codes.latents() as u32).into_par_iter().map(of_latent).collect();
        let mut by_row = vec![Vec::new(); self.rows.len()];
        for (place, standing) in by_latent.into_iter().flatten() {
            by_row[place].push(standing);
        }
        Ok(by_row)
    }
}

/// The rows on which a latent fires, of those that are eligible; of equal values the lower row first.
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
    fn few_rows_are_the_first_choice_of_every_latent() {
        // Latent 0 is strongest in row 1, latent 1 in row 2.
        let of = |most, seen: &[usize]| {
            let chosen = Chosen::of(&[&codes()], most, &seen.iter().copied().collect()).unwrap();
            (chosen.rows, chosen.all)
        };
        assert_eq!(of(2, &[]), (vec![1, 2], false));
        assert_eq!(of(3, &[]), (vec![0, 1, 2], true));
        assert_eq!(of(0, &[]), (vec![], false));
        // Only rows that can be seen, if there are any: of 0 and 2 latent 0 is strongest in row 0.
        assert_eq!(of(9, &[0, 2]), (vec![0, 2], true));
        assert_eq!(of(1, &[0, 2]), (vec![0], false));
        // A generator that fires elsewhere has a say: latent 0 is strongest in row 0 there.
        let other = Codes::from_dense(&[9.0, 0.0, 0.0, 0.0, 0.0, 0.0], 2).unwrap();
        assert_eq!(Chosen::of(&[&codes(), &other], 3, &BTreeSet::new()).unwrap().rows, [0, 1, 2]);
    }

    #[test]
    fn a_latent_keeps_weak_rows_too() {
        // One latent that fires on 1000 rows, the first the strongest.
        let codes = Codes::from_dense(&(0..1000).map(|row| 1000.0 - row as f32).collect::<Vec<_>>(), 1).unwrap();
        let chosen = Chosen::of(&[&codes], 60, &BTreeSet::new()).unwrap();
        assert_eq!(chosen.rows.len(), 60);
        let tenths: BTreeSet<usize> = chosen.rows.iter().map(|row| row / 100).collect();
        assert_eq!(tenths.len(), 10, "{:?}", chosen.rows);
        assert_eq!(chosen.rows[..16], (0..16).collect::<Vec<_>>());
        // They say where they stand among all rows, and all kinds are shown.
        let standings = chosen.standings(&[&codes]).unwrap().remove(0);
        let standing = |row: usize| standings[chosen.rows.binary_search(&row).unwrap()][0];
        assert_eq!(standing(0), Standing { above: 0.0, turn: Some(0) });
        assert_eq!(standing(550), Standing { above: 0.55, turn: Some(1) });
        let shown = standings.iter().filter(|one| one[0].turn.is_some()).count();
        assert!((30..=42).contains(&shown), "{shown}");
        // With few places there are some of all kinds already.
        let few = Chosen::of(&[&codes], 6, &BTreeSet::new()).unwrap().rows;
        assert!(few.contains(&0) && few.contains(&550) && few.contains(&950), "{few:?}");
    }

    #[test]
    fn the_same_row_of_another_set_comes_after_all_others() {
        // One latent on 100 rows; in the other set it is strongest in the last row, which is weak here.
        let ascending = Codes::from_dense(&(0..100).map(|row| 1.0 + row as f32).collect::<Vec<_>>(), 1).unwrap();
        let flat = Codes::from_dense(
            &(0..100).map(|row| if row == 42 { 0.0 } else { 200.0 - row as f32 }).collect::<Vec<_>>(),
            1,
        )
        .unwrap();
        let chosen = Chosen::of(&[&ascending, &flat], 100, &BTreeSet::new()).unwrap();
        let alone = chosen.standings(&[&ascending]).unwrap().remove(0);
        let both = chosen.standings(&[&ascending, &flat]).unwrap();
        for row in 0..100 {
            let other = both[1][row].first().and_then(|one| one.turn);
            let expected =
                alone[row][0].turn.or(other.filter(|&turn| turn < COUNTERPARTS).map(|turn| turn + COUNTERPARTS));
            assert_eq!(both[0][row][0].turn, expected, "row {row}");
        }
        assert!(both[1][42].is_empty() && both[1][99][0].turn.is_some());
    }

    #[test]
    fn threads_change_nothing() {
        let value = |place: usize| if (place * 7919) % 13 < 3 { (place * 31 % 97) as f32 } else { 0.0 };
        let codes = Codes::from_dense(&(0..4000).map(value).collect::<Vec<_>>(), 20).unwrap();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let chosen = Chosen::of(&[&codes], 50, &BTreeSet::new()).unwrap();
                let standings = chosen.standings(&[&codes]).unwrap().remove(0);
                (chosen.rows, standings)
            })
        };
        assert_eq!(with(1), with(7));
        let (rows, standings) = with(2);
        let lengths = |row: &usize| codes.view(*row..row + 1).unwrap().row(0).0.len();
        assert!(rows.iter().map(lengths).eq(standings.iter().map(Vec::len)));
    }
}
