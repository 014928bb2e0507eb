//! Patches: fixed changes of activations at a site.

use super::site::SiteId;
use super::state::Layout;
use super::tap::Tap;
use crate::error::{InputError, Result};

/// What a patch does with every row it changes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Replaces the row by this one.
    Set(Vec<f32>),
    /// Replaces every row by the row with the same index here.
    Replace(Vec<f32>),
    /// Adds this vector.
    Add(Vec<f32>),
    /// Multiplies the row.
    Scale(f32),
    /// Removes the component along this direction, and puts `level · direction / |direction|` in its place.
    Clamp {
        /// The direction; its length does not matter.
        direction: Vec<f32>,
        /// The new component along it; 0 removes the direction.
        level: f32,
    },
}

/// An edit at a site, of all rows or of some positions of every sample.
#[derive(Clone, Debug)]
pub struct Patch {
    site: SiteId,
    edit: Edit,
    positions: Option<Vec<usize>>,
}

impl Patch {
    /// Changes every row.
    pub fn new(site: SiteId, edit: Edit) -> Patch {
        Patch { site, edit, positions: None }
    }

    /// Changes only these rows of every sample.
    #[must_use]
    pub fn at(mut self, positions: Vec<usize>) -> Patch {
        self.positions = Some(positions);
        self
    }
}

impl Edit {
    fn apply(&self, index: usize, row: &mut [f32]) {
        match self {
            Edit::Set(values) => row.copy_from_slice(values),
            Edit::Replace(rows) => row.copy_from_slice(&rows[index * row.len()..][..row.len()]),
            Edit::Add(values) => row.iter_mut().zip(values).for_each(|(value, add)| *value += add),
            Edit::Scale(by) => row.iter_mut().for_each(|value| *value *= by),
            Edit::Clamp { direction, level } => {
                let square: f64 = direction.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
                if square > 0.0 {
                    let along: f64 = row.iter().zip(direction).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let by = (f64::from(*level) / square.sqrt() - along / square) as f32;
                    row.iter_mut().zip(direction).for_each(|(value, part)| *value += by * part);
                }
            }
        }
    }

    /// The number of values that the edit must have for these rows, and how many it has.
    fn sizes(&self, layout: Layout) -> Option<(usize, usize)> {
        match self {
            Edit::Set(values) | Edit::Add(values) | Edit::Clamp { direction: values, .. } => {
                Some((layout.width, values.len()))
            }
            Edit::Replace(rows) => Some((layout.values(), rows.len())),
            Edit::Scale(_) => None,
        }
    }
}

impl Tap for Patch {
    fn wants(&self, site: SiteId) -> bool {
        site == self.site
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        if let Some((expected, found)) = self.edit.sizes(layout).filter(|(expected, found)| expected != found) {
            return Err(InputError::new("a patch does not fit the activations of its site")
                .expected(format!("{expected} values"))
                .found(format!("{found} values"))
                .into());
        }
        if let Some(outside) = self.positions.iter().flatten().find(|position| **position >= layout.rows) {
            return Err(InputError::new("position of a patch out of range")
                .expected(format!("less than {}", layout.rows))
                .found(outside)
                .into());
        }
        for (index, row) in rows.chunks_exact_mut(layout.width).enumerate() {
            let position = index % layout.rows;
            if self.positions.as_ref().is_none_or(|wanted| wanted.contains(&position)) {
                self.edit.apply(index, row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(edit: Edit, positions: Option<Vec<usize>>) -> Result<Vec<f32>> {
        let mut rows = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let layout = Layout { samples: 2, rows: 2, width: 2, grid: None };
        let patch = Patch::new(SiteId(0), edit);
        let mut patch = if let Some(positions) = positions { patch.at(positions) } else { patch };
        patch.visit(SiteId(0), layout, &mut rows)?;
        Ok(rows)
    }

    #[test]
    fn edits_by_hand() {
        let one = Some(vec![1]);
        assert_eq!(edited(Edit::Set(vec![0.0, 9.0]), one.clone()).unwrap(), [1.0, 2.0, 0.0, 9.0, 5.0, 6.0, 0.0, 9.0]);
        let rows: Vec<f32> = (10..18).map(|v| v as f32).collect();
        assert_eq!(edited(Edit::Replace(rows), one.clone()).unwrap(), [1.0, 2.0, 12.0, 13.0, 5.0, 6.0, 16.0, 17.0]);
        assert_eq!(edited(Edit::Add(vec![1.0, 0.0]), None).unwrap(), [2.0, 2.0, 4.0, 4.0, 6.0, 6.0, 8.0, 8.0]);
        assert_eq!(edited(Edit::Scale(0.0), one).unwrap(), [1.0, 2.0, 0.0, 0.0, 5.0, 6.0, 0.0, 0.0]);
        let clamp = Edit::Clamp { direction: vec![0.0, 2.0], level: 5.0 };
        assert_eq!(edited(clamp, None).unwrap(), [1.0, 5.0, 3.0, 5.0, 5.0, 5.0, 7.0, 5.0]);
        let nothing = Edit::Clamp { direction: vec![0.0, 0.0], level: 5.0 };
        assert_eq!(edited(nothing, None).unwrap()[..2], [1.0, 2.0]);
        assert!(edited(Edit::Set(vec![0.0]), None).unwrap_err().to_string().contains("2 values"));
        assert!(edited(Edit::Scale(1.0), Some(vec![2])).unwrap_err().to_string().contains("out of range"));
    }
}
