//! Kept pre-activations by latent instead of by row.

use crate::sae::selector::Entries;

/// Kept pre-activations in column order: for each latent its rows, ascending, and their pre-activations.
#[derive(Debug, Default)]
pub(super) struct Columns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
}

impl Columns {
    /// Transposes rows to columns by a counting sort. Reuses the buffers.
    pub fn fill(&mut self, active: &[Entries], latents: usize) {
        self.starts.clear();
        self.starts.resize(latents + 1, 0);
        active.iter().flatten().for_each(|entry| self.starts[entry.1 as usize + 1] += 1);
        let mut total = 0;
        for start in &mut self.starts {
            total += *start;
            *start = total;
        }
        self.rows.resize(total, 0);
        self.values.resize(total, 0.0);
        for (row, active) in active.iter().enumerate() {
            for &(value, latent) in active {
                // Until the end, `starts[latent]` is where the next entry of that latent goes.
                let position = self.starts[latent as usize];
                (self.rows[position], self.values[position]) = (row as u32, value);
                self.starts[latent as usize] += 1;
            }
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    /// The rows and pre-activations of a latent.
    pub fn of(&self, latent: usize) -> (&[u32], &[f32]) {
        match (self.starts.get(latent), self.starts.get(latent + 1)) {
            (Some(&start), Some(&end)) => (&self.rows[start..end], &self.values[start..end]),
            _ => (&[], &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_small_example() {
        let mut columns = Columns::default();
        for _ in 0..2 {
            columns.fill(&[vec![(0.5, 0), (1.5, 2)], vec![], vec![(2.5, 2)]], 4);
            assert_eq!(columns.of(0), (&[0u32][..], &[0.5f32][..]));
            assert_eq!(columns.of(1), (&[][..], &[][..]));
            assert_eq!(columns.of(2), (&[0u32, 2][..], &[1.5f32, 2.5][..]));
            assert!(columns.of(3).0.is_empty() && columns.of(99).0.is_empty());
        }
    }
}
