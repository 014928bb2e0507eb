//! Which latents point the same way: cosines of the directions of a dictionary, computed when somebody asks for a latent.

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::Result;
use etalon::load::load_directions;
use etalon_kernel::neighbours::{Distance, Points};
use serde_json::{Value, json};

/// Neighbours shown of a latent.
const SHOWN: usize = 20;

/// The directions, scaled to length 1.
pub struct Directions {
    points: Points,
    _memory: Reservation,
}

impl Directions {
    /// `directions.npy` or the store or dictionary `directions` beside the results.
    pub fn beside(directory: &Path) -> Option<PathBuf> {
        let places = ["directions", "directions.npy", "directions.safetensors"].map(|name| directory.join(name));
        places.into_iter().find(|path| path.exists() && !path.is_symlink())
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

    /// How many latents there are.
    pub fn latents(&self) -> usize {
        self.points.count()
    }

    /// The latents with the largest cosine to one, ties to the lower latent, and the one with the smallest: an opposite
    /// direction says something too. A direction of length 0 has cosine 0 with all.
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
        // From the two vectors themselves, since the product above is of single precision.
        let shown = |other: usize| json!({"latent": other, "cosine": 1.0 - self.points.between(own, other)});
        Some(json!({
            "latent": latent, "nearest": order.into_iter().map(shown).collect::<Vec<_>>(), "opposite": opposite.map(shown),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_by_hand() {
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
        let cosine = |place: usize| near["nearest"][place]["cosine"].as_f64().unwrap();
        assert!((cosine(0) - 0.8).abs() < 1e-7 && (cosine(1) - 0.6).abs() < 1e-7 && cosine(2) == 0.0);
        assert_eq!(near["opposite"]["latent"], 3);
        assert!(directions.near(5).is_none());
    }
}
