//! The similarity of two kernels on shared nearest neighbours.

use super::nearest::Neighbours;
use crate::results::Profile;

/// The released code adds this to the denominator.
const REFERENCE_TERM: f64 = 1e-6;

/// CKNNA of two kernels from lists of nearest neighbours. `rows` is the number of rows that take part; the others have
/// empty lists. `None` if a kernel has no similarity with itself.
pub(super) fn cknna(left: &[Neighbours], right: &[Neighbours], rows: usize, profile: Profile) -> Option<f64> {
    if rows < 4 {
        return None;
    }
    let shared = similarity(&edges(left, right), rows);
    let (own_left, own_right) = (similarity(&edges(left, left), rows), similarity(&edges(right, right), rows));
    let value = match profile {
        Profile::Paper if own_left > 0.0 && own_right > 0.0 => shared / (own_left.sqrt() * own_right.sqrt()),
        Profile::Paper => return None,
        Profile::Reference => shared / ((own_left * own_right).sqrt() + REFERENCE_TERM),
    };
    value.is_finite().then_some(value)
}

/// A neighbour in both kernels, with both values.
type Edge = (u32, f64, f64);

/// By row, the neighbours that both kernels share, ascending.
fn edges(left: &[Neighbours], right: &[Neighbours]) -> Vec<Vec<Edge>> {
    let both = |(left, right): (&Neighbours, &Neighbours)| {
        let value = |row: u32| right.iter().find(|other| other.0 == row).map(|other| other.1);
        let mut shared: Vec<Edge> =
            left.iter().filter_map(|&(row, left)| value(row).map(|right| (row, left, right))).collect();
        shared.sort_unstable_by_key(|edge| edge.0);
        shared
    };
    left.iter().zip(right).map(both).collect()
}

/// The unbiased estimate of dependence. With U and V the kernels where both agree and 0 elsewhere,
/// [Σ_ij U_ij V_ji + ΣU ΣV / ((n−1)(n−2)) − 2 Σ_j (Σ_i U_ij)(Σ_i V_ji) / (n−2)] / (n(n−3)).
fn similarity(edges: &[Vec<Edge>], rows: usize) -> f64 {
    let (mut mutual, mut total) = (0.0, (0.0, 0.0));
    let (mut into, mut from) = (vec![0.0; edges.len()], vec![0.0; edges.len()]);
    for (row, list) in edges.iter().enumerate() {
        for &(other, left, right) in list {
            let back = &edges[other as usize];
            if let Ok(index) = back.binary_search_by_key(&(row as u32), |edge| edge.0) {
                mutual += left * back[index].2;
            }
            into[other as usize] += left;
            from[row] += right;
            total = (total.0 + left, total.1 + right);
        }
    }
    let through: f64 = into.iter().zip(&from).map(|(into, from)| into * from).sum();
    let n = rows as f64;
    (mutual + total.0 * total.1 / ((n - 1.0) * (n - 2.0)) - 2.0 * through / (n - 2.0)) / (n * (n - 3.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        // Five rows, one neighbour each. Left: 0→1 (2), 1→0 (2), 2→3 (1), 3→2 (1), 4→0 (1).
        // Right: 0→1 (3), 1→0 (3), 2→4 (1), 3→2 (2), 4→0 (1). Both agree on 0→1, 1→0, 3→2 and 4→0.
        let list = |to: [(u32, f64); 5]| to.map(|neighbour| vec![neighbour]).to_vec();
        let left = list([(1, 2.0), (0, 2.0), (3, 1.0), (2, 1.0), (0, 1.0)]);
        let right = list([(1, 3.0), (0, 3.0), (4, 1.0), (2, 2.0), (0, 1.0)]);
        // Left with right: mutual 0↔1: 2·3 + 2·3 = 12; ΣU = 2+2+1+1 = 6, ΣV = 3+3+2+1 = 9;
        // into U: row 0 gets 2+1 = 3, row 1 gets 2, row 2 gets 1; from V: row 0 3, row 1 3, row 2 0: 3·3 + 2·3 = 15.
        // (12 + 54/12 − 30/3) / 10 = 0.65.
        assert!((similarity(&edges(&left, &right), 5) - 0.65).abs() < 1e-15);
        // Left with itself: mutual 0↔1 4+4, 2↔3 1+1 = 10; sums 7 and 7; into·from: 3·2 + 2·2 + 1·1 + 1·1 = 12.
        // (10 + 49/12 − 24/3) / 10 = 0.60833.
        assert!((similarity(&edges(&left, &left), 5) - (10.0 + 49.0 / 12.0 - 8.0) / 10.0).abs() < 1e-15);
        // Right with itself: mutual 9+9 = 18; sums 10; into: row 0 4, 1 3, 2 2, 4 1; from 3, 3, 1, 1: 12+9+2+1 = 24.
        // (18 + 100/12 − 48/3) / 10 = 1.03333.
        let own = ((10.0 + 49.0 / 12.0 - 8.0) / 10.0 * (18.0 + 100.0 / 12.0 - 16.0) / 10.0f64).sqrt();
        let value = cknna(&left, &right, 5, Profile::Paper).unwrap();
        assert!((value - 0.65 / own).abs() < 1e-14);
        let reference = cknna(&left, &right, 5, Profile::Reference).unwrap();
        assert!((reference - 0.65 / (own + 1e-6)).abs() < 1e-14);
    }

    #[test]
    fn a_kernel_agrees_with_itself_and_not_with_an_empty_one() {
        let ring: Vec<Neighbours> = (0..9u32).map(|row| vec![((row + 1) % 9, 1.0), ((row + 8) % 9, 1.0)]).collect();
        assert!((cknna(&ring, &ring, 9, Profile::Paper).unwrap() - 1.0).abs() < 1e-12);
        let nothing = vec![Vec::new(); 9];
        assert_eq!(cknna(&ring, &nothing, 9, Profile::Paper), None);
        assert_eq!(cknna(&ring, &nothing, 9, Profile::Reference), Some(0.0));
    }
}
