//! Which samples of a latent are shown: those with the strongest activations, one per decile, and a random selection.
//! The writer of samples and the explorer use the same choice, so that every shown sample was written.

use etalon_kernel::random::{permutation, stream, unit};

/// Number of strongest and of random samples; there are ten deciles.
pub const SHOWN: usize = 16;

/// Order in which deciles are shown: the middle first, then both ends.
const DECILE_ORDER: [usize; 10] = [5, 9, 2, 7, 0, 4, 8, 1, 6, 3];

/// Samples of a latent, as ranks in the list of its activations, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gallery {
    /// The first ranks. Alone they make a latent look more selective than it is.
    pub strongest: Vec<usize>,
    /// The middle of each decile; deciles without a sample are missing.
    pub deciles: Vec<usize>,
    /// A stratified random selection from all activations, in random order.
    pub random: Vec<usize>,
}

impl Gallery {
    /// Chooses from `count` samples of a latent. `above(rank)` is the fraction of all rows with the latent whose
    /// activation is stronger than that of the sample; it ascends. The samples may be a subset of those rows.
    pub fn of(latent: u32, count: usize, above: impl Fn(usize) -> f64) -> Gallery {
        let nearest = |target: f64, fits: &dyn Fn(f64) -> bool| {
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low.midpoint(high);
                if above(middle) < target { low = middle + 1 } else { high = middle }
            }
            let neighbours = [low.checked_sub(1), Some(low).filter(|&rank| rank < count)];
            let distance = |rank: &usize| (above(*rank) - target).abs();
            let fitting = neighbours.into_iter().flatten().filter(|&rank| fits(above(rank)));
            fitting.min_by(|a, b| distance(a).total_cmp(&distance(b)))
        };
        let decile = |part: usize| {
            // Stored fractions are rounded: a multiple of 0.1 must not fall into the decile below.
            nearest((part as f64 + 0.5) / 10.0, &|above| (above * 10.0 + 1e-6).floor() == part as f64)
        };
        let mut stream = stream(0, "gallery", u64::from(latent));
        let mut random: Vec<usize> = if count <= SHOWN {
            (0..count).collect()
        } else {
            let stratum = |part: usize| (part as f64 + unit(&mut stream)) / SHOWN as f64;
            (0..SHOWN).map(stratum).filter_map(|fraction| nearest(fraction, &|_| true)).collect()
        };
        random.dedup();
        let random = permutation(random.len(), &mut stream).into_iter().map(|index| random[index]).collect();
        Gallery { strongest: (0..count.min(SHOWN)).collect(), deciles: (0..10).filter_map(decile).collect(), random }
    }

    /// All ranks once, alternating between the three kinds, so that the first few have some of each.
    pub fn interleaved(&self) -> Vec<usize> {
        let mut ranks = Vec::new();
        let deciles: Vec<usize> = DECILE_ORDER.iter().filter_map(|&decile| self.deciles.get(decile).copied()).collect();
        for index in 0..SHOWN {
            for kind in [&self.strongest, &deciles, &self.random] {
                ranks.extend(kind.get(index).filter(|rank| !ranks.contains(*rank)).copied());
            }
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_has_samples_of_all_kinds() {
        let gallery = Gallery::of(3, 1000, |rank| rank as f64 / 1000.0);
        assert_eq!(gallery.strongest, (0..16).collect::<Vec<_>>());
        // The middle of the first decile is at 0.05, which is rank 50.
        assert_eq!(gallery.deciles, (0..10).map(|part| 50 + 100 * part).collect::<Vec<_>>());
        // One of every 62.5 ranks.
        let mut random = gallery.random.clone();
        random.sort_unstable();
        let in_stratum = |(part, rank): (usize, &usize)| rank * 16 / 1000 <= part + 1;
        assert!(random.len() == 16 && random.iter().enumerate().all(in_stratum), "{random:?}");
        assert!(random[15] > 900 && random[0] < 70 && random != gallery.random);
        assert_eq!(gallery, Gallery::of(3, 1000, |rank| rank as f64 / 1000.0));
        assert_ne!(gallery.random, Gallery::of(4, 1000, |rank| rank as f64 / 1000.0).random);
        // The strongest first, then the middle decile; no rank twice.
        let ranks = gallery.interleaved();
        assert_eq!(ranks[..2], [0, 550]);
        let mut once = ranks.clone();
        once.sort_unstable();
        once.dedup();
        assert!(ranks.len() == once.len() && ranks.len() > 35, "{ranks:?}");
    }

    #[test]
    fn a_short_list_is_shown_whole() {
        for count in 0..10 {
            let gallery = Gallery::of(0, count, |rank| rank as f64 / count as f64);
            let all: Vec<usize> = (0..count).collect();
            let mut random = gallery.random.clone();
            random.sort_unstable();
            assert_eq!((&gallery.strongest, &gallery.deciles, &random), (&all, &all, &all), "{count}");
        }
        assert_eq!(Gallery::of(0, 30, |rank| rank as f64 / 30.0).deciles.len(), 10);
    }

    #[test]
    fn deciles_are_those_of_all_rows_and_not_of_the_list() {
        // The list has the four strongest of 100, one of the fifth decile, and the weakest.
        let above = [0.0, 0.01, 0.02, 0.03, 0.44, 0.99];
        let gallery = Gallery::of(0, 6, |rank| above[rank]);
        assert_eq!(gallery.deciles, [3, 4, 5]);
    }
}
