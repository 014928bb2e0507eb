//! Nearest latents by the cosine of their directions, computed on request.

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::Result;
use etalon::load::load_directions;
use etalon_kernel::neighbours::{Distance, Points};
use serde_json::{Value, json};

/// Neighbours shown per latent.
const SHOWN: usize = 20;

/// The directions, scaled to length 1.
pub struct Directions {
    points: Points,
    _memory: Reservation,
}

impl Directions {
    /// The file, store or dictionary `directions` next to the results.
    pub fn beside(directory: &Path) -> Option<PathBuf> {
        let candidates = ["directions", "directions.npy", "directions.safetensors"].map(|name| directory.join(name));
        candidates.into_iter().find(|path| path.exists() && !path.is_symlink())
    }

    /// Reads the directions of a dictionary, or an array of them.
    pub fn read(path: &Path, budget: &Budget) -> Result<Directions> {
        let store = load_directions(path, budget)?;
        let (rows, width) = (store.rows(), store.width());
        let bytes = (rows as u64).saturating_mul(8 * width as u64);
        let memory = budget.reserve(bytes, format!("{rows} directions of width {width}"))?;
        let tile = store.tile(0..rows)?;
        Ok(Directions { points: Points::new(&tile.values, width, Distance::Cosine), _memory: memory })
    }

    /// Number of latents.
    pub fn latents(&self) -> usize {
        self.points.count()
    }

    /// The latents with the largest cosine (ties to the lower latent), and the one with the smallest, because opposite
    /// directions are informative too. A zero direction has cosine 0 with all others.
    pub fn near(&self, latent: u32) -> Option<Value> {
        let (own, count) = (latent as usize, self.points.count());
        if own >= count {
            return None;
        }
        let mut cosines = vec![0f32; count];
        self.points.nearness_to_all(&[own], &mut cosines);
        let nearer = |a: &usize, b: &usize| cosines[*b].total_cmp(&cosines[*a]).then(a.cmp(b));
        let mut order: Vec<usize> = (0..count).filter(|&other| other != own).collect();
        if order.len() > SHOWN {
            order.select_nth_unstable_by(SHOWN - 1, nearer);
            order.truncate(SHOWN);
        }
        order.sort_by(nearer);
        let opposite = (0..count).filter(|&other| other != own).max_by(nearer);
        // Computed in `f64` from the vectors, because the product above has single precision.
        let shown: Vec<u32> = order.into_iter().chain(opposite).map(|other| other as u32).collect();
        let mut shown: Vec<Value> = (shown.iter().zip(self.points.distances(own, &shown)))
            .map(|(other, distance)| json!({"latent": other, "cosine": 1.0 - distance}))
            .collect();
        let opposite = opposite.and_then(|_| shown.pop());
        Some(json!({"latent": latent, "nearest": shown, "opposite": opposite}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_of_a_small_example() {
        // (3, 4)/5 with (1, 0): 0.6; with (0, 2): 0.8; with (−1, 0): −0.6; with (0, 0): 0.
        let rows = [3.0, 4.0, 1.0, 0.0, 0.0, 2.0, -1.0, 0.0, 0.0, 0.0];
        let directions = Directions {
            points: Points::new(&rows, 2, Distance::Cosine),
            _memory: Budget::of_machine().reserve(1, "a test").unwrap(),
        };
        let near = directions.near(0).unwrap();
        let ids: Vec<u64> =
            near["nearest"].as_array().unwrap().iter().map(|one| one["latent"].as_u64().unwrap()).collect();
        assert_eq!(ids, [2, 1, 4, 3]);
        let cosine = |rank: usize| near["nearest"][rank]["cosine"].as_f64().unwrap();
        assert!((cosine(0) - 0.8).abs() < 1e-7 && (cosine(1) - 0.6).abs() < 1e-7 && cosine(2) == 0.0);
        assert_eq!(near["opposite"]["latent"], 3);
        assert!(directions.near(5).is_none());
    }
}
