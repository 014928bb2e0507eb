//! Which samples of a latent people look at: the strongest, one of each tenth of its activations, and any. The writer of
//! samples chooses rows by it and the explorer shows samples by it, so that what is shown is what was kept.

use etalon_kernel::random::{permutation, stream, unit};

/// Samples of each kind, of which there are ten among the tenths.
pub const SHOWN: usize = 16;

/// Tenths in an order that begins in the middle and soon has both ends.
const TURNS: [usize; 10] = [5, 9, 2, 7, 0, 4, 8, 1, 6, 3];

/// Places in the list of samples on which a latent fires, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gallery {
    /// The first of the list: alone they make a latent look purer than it is.
    pub strongest: Vec<usize>,
    /// The middle of each tenth, as far as the list has any of it.
    pub tenths: Vec<usize>,
    /// Spread evenly over all activations but for chance, in no order.
    pub any: Vec<usize>,
}

impl Gallery {
    /// `above` is the share of all rows with the latent that fire more strongly than the one at a place; it ascends. The
    /// list may hold some of those rows only.
    pub fn of(latent: u32, count: usize, above: impl Fn(usize) -> f64) -> Gallery {
        let nearest = |wanted: f64, fits: &dyn Fn(f64) -> bool| {
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low.midpoint(high);
                if above(middle) < wanted { low = middle + 1 } else { high = middle }
            }
            let both = [low.checked_sub(1), Some(low).filter(|&place| place < count)];
            let far = |place: &usize| (above(*place) - wanted).abs();
            both.into_iter().flatten().filter(|&place| fits(above(place))).min_by(|a, b| far(a).total_cmp(&far(b)))
        };
        let tenth = |part: usize| {
            // Shares are written with few digits, and whole tenths must not slip below themselves.
            nearest((part as f64 + 0.5) / 10.0, &|above| (above * 10.0 + 1e-6).floor() == part as f64)
        };
        let mut random = stream(0, "gallery", u64::from(latent));
        let mut any: Vec<usize> = if count <= SHOWN {
            (0..count).collect()
        } else {
            let share = |part: usize| (part as f64 + unit(&mut random)) / SHOWN as f64;
            (0..SHOWN)
                .map(share)
                .collect::<Vec<_>>()
                .into_iter()
                .filter_map(|share| nearest(share, &|_| true))
                .collect()
        };
        any.dedup();
        let any = permutation(any.len(), &mut random).into_iter().map(|place| any[place]).collect();
        Gallery { strongest: (0..count.min(SHOWN)).collect(), tenths: (0..10).filter_map(tenth).collect(), any }
    }

    /// All of its places once, the three kinds by turns: whoever takes the first few has some of each.
    pub fn in_turn(&self) -> Vec<usize> {
        let mut turns = Vec::new();
        let tenths: Vec<usize> = TURNS.iter().filter_map(|&turn| self.tenths.get(turn).copied()).collect();
        for turn in 0..SHOWN {
            for kind in [&self.strongest, &tenths, &self.any] {
                turns.extend(kind.get(turn).filter(|place| !turns.contains(*place)).copied());
            }
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_has_all_kinds() {
        let gallery = Gallery::of(3, 1000, |place| place as f64 / 1000.0);
        assert_eq!(gallery.strongest, (0..16).collect::<Vec<_>>());
        // The middle of the first tenth is at 0.05, which is place 50.
        assert_eq!(gallery.tenths, (0..10).map(|part| 50 + 100 * part).collect::<Vec<_>>());
        // One of every sixteenth: of 62.5 places.
        let mut any = gallery.any.clone();
        any.sort_unstable();
        assert!(
            any.len() == 16 && any.iter().enumerate().all(|(part, place)| place * 16 / 1000 <= part + 1),
            "{any:?}"
        );
        assert!(any[15] > 900 && any[0] < 70 && any != gallery.any);
        assert_eq!(gallery, Gallery::of(3, 1000, |place| place as f64 / 1000.0));
        assert_ne!(gallery.any, Gallery::of(4, 1000, |place| place as f64 / 1000.0).any);
        // The first of three turns: the strongest, the tenth in the middle, any; and nothing twice.
        let turns = gallery.in_turn();
        assert_eq!(turns[..2], [0, 550]);
        let mut once = turns.clone();
        once.sort_unstable();
        once.dedup();
        assert!(turns.len() == once.len() && turns.len() > 35, "{turns:?}");
    }

    #[test]
    fn a_short_list_is_shown_whole() {
        for count in 0..10 {
            let gallery = Gallery::of(0, count, |place| place as f64 / count as f64);
            let all: Vec<usize> = (0..count).collect();
            let mut any = gallery.any.clone();
            any.sort_unstable();
            assert_eq!((&gallery.strongest, &gallery.tenths, &any), (&all, &all, &all), "{count}");
        }
        assert_eq!(Gallery::of(0, 30, |place| place as f64 / 30.0).tenths.len(), 10);
    }

    #[test]
    fn tenths_are_those_of_all_rows_and_not_of_the_list() {
        // The list has the four strongest of 100, one of the fifth tenth, and the weakest.
        let above = [0.0, 0.01, 0.02, 0.03, 0.44, 0.99];
        let gallery = Gallery::of(0, 6, |place| above[place]);
        assert_eq!(gallery.tenths, [3, 4, 5]);
    }
}
