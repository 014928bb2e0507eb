//! Fixes everything that may change a bit: which rows form a unit and a tile.

use std::ops::Range;

/// Rows cut into units of work. Depends on the number of rows only, never on workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    rows: usize,
    unit_rows: usize,
}

/// Rows that a pass sees at a time.
pub const TILE_ROWS: usize = 1024;

impl Plan {
    /// Aims at about 64 units of whole tiles, each at most 64 tiles long.
    pub fn of_rows(rows: usize) -> Plan {
        let tiles = rows.div_ceil(TILE_ROWS).div_ceil(64).clamp(1, 64);
        Plan { rows, unit_rows: tiles * TILE_ROWS }
    }

    /// How many units there are.
    pub fn units(&self) -> usize {
        self.rows.div_ceil(self.unit_rows)
    }

    /// The rows of a unit.
    pub fn unit(&self, unit: usize) -> Range<usize> {
        unit * self.unit_rows..((unit + 1) * self.unit_rows).min(self.rows)
    }

    /// The tiles of a unit.
    pub fn tiles(&self, unit: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = self.unit(unit);
        rows.clone().step_by(TILE_ROWS).map(move |first| first..(first + TILE_ROWS).min(rows.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_tiles_cover_every_row_once() {
        for rows in [0, 1, 1023, 1024, 1025, 65_536, 65_537, 5_000_000] {
            let plan = Plan::of_rows(rows);
            let mut next = 0;
            for unit in 0..plan.units() {
                for tile in plan.tiles(unit) {
                    assert_eq!(tile.start, next);
                    assert!(!tile.is_empty() && tile.len() <= TILE_ROWS);
                    next = tile.end;
                }
            }
            assert_eq!(next, rows);
        }
    }
}
