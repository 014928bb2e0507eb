//! Optimal one-to-one assignment, by shortest augmenting paths over reduced costs.

use crate::monitor::{Cancelled, Monitor, Silent};

/// Assigns every row its own column (or every column its own row if there are more rows) at minimal total cost.
///
/// `costs` is row-major. A pair whose cost is not finite is forbidden: the result has as many allowed pairs as possible,
/// and among those the lowest cost. Returns the column of each row; `None` for rows without a column. Ties go to the lower
/// column, so the result is a function of the costs. Worst-case time, with the shorter side as rows:
/// rows × rows × columns; memory: the longer side.
pub fn assign(costs: &[f64], rows: usize, columns: usize) -> Vec<Option<usize>> {
    // This monitor never stops the work.
    assign_monitored(costs, rows, columns, &Silent).unwrap_or_default()
}

/// [`assign`] that can be cancelled.
pub fn assign_monitored(
    costs: &[f64],
    rows: usize,
    columns: usize,
    monitor: &dyn Monitor,
) -> Result<Vec<Option<usize>>, Cancelled> {
    assert!(rows.checked_mul(columns) == Some(costs.len()), "assignment shapes differ");
    if rows <= columns {
        return shorter_side(rows, columns, |row, column| costs[row * columns + column], spread(costs, rows), monitor);
    }
    let cost = |column: usize, row: usize| costs[row * columns + column];
    let of_column = shorter_side(columns, rows, cost, spread(costs, columns), monitor)?;
    let mut of_row = vec![None; rows];
    for (column, row) in of_column.into_iter().enumerate() {
        if let Some(row) = row {
            of_row[row] = Some(column);
        }
    }
    Ok(of_row)
}

/// A cost that no number of allowed pairs can outweigh.
fn spread(costs: &[f64], shorter: usize) -> f64 {
    let finite = costs.iter().copied().filter(|cost| cost.is_finite());
    let (low, high) = finite.fold((0f64, 0f64), |(low, high), cost| (low.min(cost), high.max(cost)));
    (high - low + 1.0) * (shorter as f64 + 1.0)
}

/// The case of no more rows than columns.
///
/// The duals keep every reduced cost `cost − row_price − column_price` non-negative, so each new row finds its cheapest
/// augmenting path to a free column by Dijkstra's algorithm.
fn shorter_side(
    rows: usize,
    columns: usize,
    raw: impl Fn(usize, usize) -> f64,
    forbidden: f64,
    monitor: &dyn Monitor,
) -> Result<Vec<Option<usize>>, Cancelled> {
    let cost = |row, column| Some(raw(row, column)).filter(|cost| cost.is_finite()).unwrap_or(forbidden);
    let (mut row_price, mut column_price) = (vec![0f64; rows], vec![0f64; columns]);
    let mut row_of: Vec<Option<usize>> = vec![None; columns];
    let mut column_of: Vec<Option<usize>> = vec![None; rows];
    let mut distance = vec![f64::INFINITY; columns];
    let mut came_from = vec![0usize; columns];
    let mut open: Vec<usize> = Vec::with_capacity(columns);
    let mut closed: Vec<usize> = Vec::new();
    for new in 0..rows {
        monitor.check()?;
        distance.fill(f64::INFINITY);
        open.clear();
        open.extend(0..columns);
        closed.clear();
        let (mut row, mut walked) = (new, 0.0);
        let end = loop {
            // The nearest open column; ties go to a free one, then to the lowest. `open` is unordered.
            let mut best: Option<(f64, bool, usize, usize)> = None;
            for (position, &column) in open.iter().enumerate() {
                let through = walked + cost(row, column) - row_price[row] - column_price[column];
                if through < distance[column] {
                    distance[column] = through;
                    came_from[column] = row;
                }
                let key = (distance[column], row_of[column].is_some(), column, position);
                let better = best
                    .is_none_or(|old| key.0.total_cmp(&old.0).then(key.1.cmp(&old.1)).then(key.2.cmp(&old.2)).is_lt());
                if better {
                    best = Some(key);
                }
            }
            // There are at least as many columns as rows, so one is always open.
            let Some((nearest, _, column, position)) = best else { break None };
            walked = nearest;
            open.swap_remove(position);
            match row_of[column] {
                None => break Some(column),
                Some(taken) => {
                    closed.push(column);
                    row = taken;
                }
            }
        };
        let Some(end) = end else { continue };
        row_price[new] += walked;
        for &column in &closed {
            let slack = walked - distance[column];
            column_price[column] -= slack;
            if let Some(row) = row_of[column] {
                row_price[row] += slack;
            }
        }
        let mut column = end;
        loop {
            let row = came_from[column];
            row_of[column] = Some(row);
            let before = column_of[row].replace(column);
            match before {
                Some(before) if row != new => column = before,
                _ => break,
            }
        }
    }
    let allowed = |(row, column): (usize, Option<usize>)| column.filter(|&column| raw(row, column).is_finite());
    Ok(column_of.into_iter().enumerate().map(allowed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream, unit};

    fn total(costs: &[f64], columns: usize, of: &[Option<usize>]) -> f64 {
        of.iter().enumerate().filter_map(|(row, column)| column.map(|column| costs[row * columns + column])).sum()
    }

    /// The most pairs, then the least cost, over every way to assign.
    fn brute(costs: &[f64], rows: usize, columns: usize, row: usize, used: &mut Vec<bool>) -> (usize, f64) {
        if row == rows {
            return (0, 0.0);
        }
        let mut best = brute(costs, rows, columns, row + 1, used);
        for column in 0..columns {
            let cost = costs[row * columns + column];
            if !used[column] && cost.is_finite() {
                used[column] = true;
                let rest = brute(costs, rows, columns, row + 1, used);
                used[column] = false;
                let here = (rest.0 + 1, rest.1 + cost);
                if here.0 > best.0 || (here.0 == best.0 && here.1 < best.1) {
                    best = here;
                }
            }
        }
        best
    }

    #[test]
    fn small_examples() {
        // Row 0 prefers column 0 (1), but giving it to row 1 is cheaper: 2 + 2 = 4 < 1 + 9.
        assert_eq!(assign(&[1.0, 2.0, 2.0, 9.0], 2, 2), [Some(1), Some(0)]);
        // Three rows, one column: the cheapest row gets it.
        assert_eq!(assign(&[3.0, 1.0, 2.0], 3, 1), [None, Some(0), None]);
        assert_eq!(assign(&[], 0, 3), []);
        assert_eq!(assign(&[], 2, 0), [None, None]);
        // All equal: the lower column first.
        assert_eq!(assign(&[0.0; 6], 2, 3), [Some(0), Some(1)]);
    }

    #[test]
    fn agrees_with_brute_force() {
        for trial in 0..400 {
            let mut random = stream(trial, "assignment/test", 0);
            let (rows, columns) = (1 + index(5, &mut random), 1 + index(5, &mut random));
            // Few distinct costs make ties; some pairs are forbidden in a third of the trials.
            let costs: Vec<f64> = (0..rows * columns)
                .map(|_| match trial % 3 {
                    0 => unit(&mut random) * 2.0 - 1.0,
                    1 => index(3, &mut random) as f64,
                    _ if index(3, &mut random) == 0 => f64::INFINITY,
                    _ => unit(&mut random),
                })
                .collect();
            let of = assign(&costs, rows, columns);
            let mut columns_used: Vec<usize> = of.iter().flatten().copied().collect();
            columns_used.sort_unstable();
            assert!(columns_used.windows(2).all(|pair| pair[0] < pair[1]), "a column is given twice");
            let (count, cost) = brute(&costs, rows, columns, 0, &mut vec![false; columns]);
            assert_eq!(columns_used.len(), count, "trial {trial}");
            assert!((total(&costs, columns, &of) - cost).abs() < 1e-9, "trial {trial}");
        }
    }

    #[test]
    fn a_large_diagonal_is_found() {
        let size = 300;
        let mut random = stream(0, "assignment/large", 0);
        let order = crate::random::permutation(size, &mut random);
        let mut costs: Vec<f64> = (0..size * size).map(|_| unit(&mut random)).collect();
        (0..size).for_each(|row| costs[row * size + order[row]] = -1.0);
        let found: Vec<usize> = assign(&costs, size, size).into_iter().flatten().collect();
        assert_eq!(found, order);
    }
}
