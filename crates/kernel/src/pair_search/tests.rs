use super::*;
use crate::product::dot;
use crate::random::{stream, unit};

fn cloud(count: usize, width: usize, shift: f32) -> Vec<f32> {
    let mut random = stream(count as u64, "pair search", 0);
    (0..count * width).map(|_| unit(&mut random) as f32 - shift).collect()
}

fn find(search: &PairSearch, values: &[f32], keep: usize) -> Vec<Option<RowCandidates>> {
    search.candidates::<()>(values, 0..search.count, 0..search.count, keep, &|| Ok(())).unwrap()
}

#[test]
fn what_is_not_listed_is_below_the_floor() {
    for (count, width, shift) in [(1000, 40, 0.5), (900, 100, -3.0), (390, 5, 0.4), (384, 64, 0.5), (3, 2, 0.5)] {
        let values = cloud(count, width, shift);
        let row = |row: usize| &values[row * width..][..width];
        let offset = |row: usize| -0.1 * (row % 7) as f64;
        for arithmetic in Arithmetic::ALL {
            let search = PairSearch::with(&values, width, &offset, arithmetic);
            let found = find(&search, &values, 9);
            for i in (0..count).step_by(7) {
                let found = found[i].as_ref().unwrap();
                assert!(found.rows.is_sorted() && !found.rows.contains(&(i as u32)));
                let mut values = Vec::new();
                for j in (0..count).filter(|&j| j != i) {
                    let value = dot(row(i), row(j)) + offset(i) + offset(j);
                    assert!(found.rows.binary_search(&(j as u32)).is_ok() || value < f64::from(found.below), "{i} {j}");
                    values.push(value);
                }
                // The guess is good, and most rows are dropped.
                values.sort_by(|a, b| b.total_cmp(a));
                assert!(values.len() < 9 || values[8] >= f64::from(found.below), "{count} × {width}: {i}");
                assert!(count < 900 || found.rows.len() < 300, "{count} × {width}: {} rows", found.rows.len());
            }
        }
    }
}

#[test]
fn threads_change_no_candidate() {
    let values = cloud(1500, 30, 0.4);
    let search = PairSearch::new(&values, 30, &|_| 0.0);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| find(&search, &values, 5))
    };
    let one = with(1);
    assert!(one == with(2) && one == with(7));
}

#[test]
fn rows_that_cannot_be_bounded_are_candidates_of_all() {
    let mut values = cloud(500, 40, 0.5);
    values[40 * 17] = f32::NAN;
    values[40 * 450 + 2] = 1e20;
    let search = PairSearch::new(&values, 40, &|_| 0.0);
    let found = find(&search, &values, 4);
    assert_eq!(search.unbounded, [17, 450]);
    for (row, found) in found.iter().enumerate() {
        match found {
            Some(found) => assert!([17, 450].iter().all(|other| found.rows.contains(other))),
            None => assert!(row == 17 || row == 450),
        }
    }
    // All rows are equal: too many candidates.
    let equal = vec![0.5; 3 * 3000];
    assert!(find(&PairSearch::new(&equal, 3, &|_| 0.0), &equal, 4).iter().all(Option::is_none));
}

#[test]
fn rounds_have_every_pair_once() {
    let all = |mine: Range<usize>, theirs: Range<usize>| {
        let rounds = rounds(&mine, &theirs);
        let mut pairs: Vec<(usize, usize)> = rounds.into_iter().flatten().collect();
        if mine == theirs {
            pairs.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
        }
        pairs.sort_unstable();
        pairs
    };
    for count in 0..9 {
        let expected: Vec<_> = (0..count).flat_map(|one| (one..count).map(move |other| (2 + one, 2 + other))).collect();
        assert_eq!(all(2..2 + count, 2..2 + count), expected);
        for others in 0..7 {
            let expected: Vec<_> = (0..count).flat_map(|one| (0..others).map(move |other| (one, 20 + other))).collect();
            assert_eq!(all(0..count, 20..20 + others), expected);
        }
    }
    assert_eq!(rounds(&(0..3), &(0..3)), [vec![(0, 0), (1, 1), (2, 2)], vec![(0, 1), (1, 2), (2, 0)]]);
}
