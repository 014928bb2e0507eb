//! Selects the rows of a batch that are stored.

use etalon::network::{Grid, Layout};

use super::request::RowChoice;

/// The rows of one sample that are stored; `keep` tells which rows may be stored at all.
pub(super) fn of_sample(
    rows: &[f32],
    layout: Layout,
    choice: RowChoice,
    keep: &dyn Fn(usize) -> bool,
    out: &mut Vec<f32>,
) -> usize {
    let width = layout.width;
    let prefix = layout.grid.map_or(0, |grid| grid.prefix);
    let kept: Vec<&[f32]> =
        rows.chunks_exact(width).enumerate().filter(|(row, _)| keep(*row)).map(|(_, row)| row).collect();
    match choice {
        // The caller keeps the row of the word only.
        RowChoice::All | RowChoice::Word => kept.iter().for_each(|row| out.extend_from_slice(row)),
        RowChoice::Class => kept.iter().take(1).for_each(|row| out.extend_from_slice(row)),
        RowChoice::Patches => kept.iter().skip(prefix).for_each(|row| out.extend_from_slice(row)),
        RowChoice::Last => kept.iter().rev().take(1).for_each(|row| out.extend_from_slice(row)),
        RowChoice::Mean if !kept.is_empty() => {
            let mean = |i: usize| kept.iter().map(|row| f64::from(row[i])).sum::<f64>() / kept.len() as f64;
            out.extend((0..width).map(|i| mean(i) as f32));
        }
        RowChoice::Mean => {}
    }
    count(kept.len(), prefix, choice)
}

/// The number of stored rows of a sample with this many rows.
pub(super) fn count(kept: usize, prefix: usize, choice: RowChoice) -> usize {
    match choice {
        RowChoice::All | RowChoice::Word => kept,
        RowChoice::Patches => kept.saturating_sub(prefix),
        RowChoice::Class | RowChoice::Last | RowChoice::Mean => kept.min(1),
    }
}

/// The grid of the stored rows of an image; `None` if they are not all positions of it.
pub(super) fn grid(layout: Layout, choice: RowChoice) -> Option<Grid> {
    let grid = layout.grid.filter(|grid| grid.prefix + grid.height * grid.width == layout.rows)?;
    match choice {
        RowChoice::All => Some(grid),
        RowChoice::Patches => Some(Grid { prefix: 0, ..grid }),
        RowChoice::Class | RowChoice::Last | RowChoice::Mean | RowChoice::Word => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_hand() {
        let grid = Some(Grid { prefix: 1, height: 1, width: 2 });
        let layout = Layout { samples: 1, rows: 3, width: 2, grid };
        let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let stored = |choice, keep: &dyn Fn(usize) -> bool| {
            let mut out = Vec::new();
            let count = of_sample(&rows, layout, choice, keep, &mut out);
            assert_eq!(out.len(), 2 * count);
            out
        };
        assert_eq!(super::grid(layout, RowChoice::All), grid);
        assert_eq!(super::grid(layout, RowChoice::Patches), Some(Grid { prefix: 0, height: 1, width: 2 }));
        assert_eq!(super::grid(layout, RowChoice::Mean), None);
        assert_eq!(super::grid(Layout { rows: 1, ..layout }, RowChoice::All), None);
        assert_eq!(stored(RowChoice::All, &|row| row != 1), [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(stored(RowChoice::Class, &|_| true), [1.0, 2.0]);
        assert_eq!(stored(RowChoice::Patches, &|_| true), [3.0, 4.0, 5.0, 6.0]);
        assert_eq!(stored(RowChoice::Mean, &|row| row > 0), [4.0, 5.0]);
        assert_eq!(stored(RowChoice::Last, &|_| true), [5.0, 6.0]);
        assert!(stored(RowChoice::Mean, &|_| false).is_empty());
    }
}
