//! Every rule against sorting all entries, with and without guesses and the pre-filter.

use super::*;
use etalon_kernel::random::{stream, unit};
use etalon_kernel::top_k::by_value;

fn plain<'a>(panels: &'a Panels, bias: &'a [f32], floors: &'a [f32]) -> Selector<'a> {
    Selector { panels, bias, floors, rounded: None, threads: 2, keeps_nan: false }
}

/// Rows, a packed encoder, and all their products.
fn dense(rows: usize, latents: usize, stride: usize, seed: u64) -> (Vec<f32>, Panels, Vec<f32>) {
    let mut random = stream(seed, "select test", 0);
    let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
    let mut x = draw(rows * stride);
    let w = draw(latents * stride);
    x.resize(rows.next_multiple_of(TILE_ROWS) * stride, 0.0);
    let panels = Panels::pack(&w, stride);
    let chain = |row: &[f32], w: &[f32]| row.iter().zip(w).fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
    let all = x[..rows * stride]
        .chunks_exact(stride)
        .flat_map(|row| w.chunks_exact(stride).map(move |w| chain(row, w)).collect::<Vec<_>>())
        .collect();
    (x, panels, all)
}

#[test]
fn selections_agree_with_sorting_everything() {
    for (rows, latents, keep) in [(1, 1, 1), (5, 40, 3), (30, 700, 8), (300, 500, 60)] {
        let stride = 16;
        let (x, panels, all) = dense(rows, latents, stride, rows as u64);
        let padded = latents.next_multiple_of(PANEL);
        let mut floors = vec![0.0; latents];
        floors.resize(padded, f32::INFINITY);
        let bias = vec![0.0; padded];
        let selector = plain(&panels, &bias, &floors);
        let entries = |row: usize| -> Entries {
            let row = &all[row * latents..][..latents];
            let pairs = row.iter().enumerate().map(|(latent, &value)| (value, latent as u32));
            pairs.filter(|entry| entry.0 > 0.0).collect()
        };
        let mut lists = vec![Entries::new(); rows];
        let warm_start = WarmStart::default();
        selector.select(Rule::Above, &x, &warm_start, &mut lists);
        assert!((0..rows).all(|row| lists[row] == entries(row)));
        // Without a guess, with the guess of the first time, and with one that is too high for most rows.
        for guess in [None, None, Some(0.6)] {
            guess.into_iter().for_each(|guess| warm_start.set_guess(guess));
            selector.select(Rule::PerRow(keep), &x, &warm_start, &mut lists);
            for (row, lists) in lists.iter().enumerate() {
                let mut best = entries(row);
                best.sort_by(by_value);
                best.truncate(keep);
                best.sort_by_key(|entry| entry.1);
                assert_eq!(*lists, best);
            }
        }
        warm_start.set_guess(f32::NEG_INFINITY);
        let mut best: Vec<(f32, usize, u32)> =
            (0..rows).flat_map(|row| entries(row).into_iter().map(move |entry| (entry.0, row, entry.1))).collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        best.truncate(keep * rows);
        best.sort_by_key(|entry| (entry.1, entry.2));
        // Without a guess, with the right one, and with one that is too high.
        for guess in [Some(f32::NEG_INFINITY), None, Some(1e9)] {
            guess.into_iter().for_each(|guess| warm_start.set_guess(guess));
            selector.select(Rule::PerBatch(keep), &x, &warm_start, &mut lists);
            let selected: Vec<(f32, usize, u32)> = lists
                .iter()
                .enumerate()
                .flat_map(|(row, lists)| lists.iter().map(move |entry| (entry.0, row, entry.1)))
                .collect();
            assert_eq!(selected, best);
        }
    }
}

#[test]
fn ties_keep_the_first_rows_and_latents() {
    let panels = Panels::pack(&[1.0; 3 * 16], 16);
    let floors: Vec<f32> = (0..PANEL).map(|latent| if latent < 3 { 0.0 } else { f32::INFINITY }).collect();
    let rows = vec![1.0; TILE_ROWS * 16];
    let selector = plain(&panels, &[0.0; PANEL], &floors);
    let mut lists = vec![Entries::new(); 2];
    selector.select(Rule::PerRow(2), &rows, &WarmStart::default(), &mut lists);
    assert_eq!(lists, vec![vec![(16.0, 0), (16.0, 1)]; 2]);
    selector.select(Rule::PerBatch(2), &rows, &WarmStart::default(), &mut lists);
    assert_eq!(lists, [vec![(16.0, 0), (16.0, 1), (16.0, 2)], vec![(16.0, 0)]]);
}

/// Rows of three distributions: bell-shaped, heavy-tailed, and anisotropic with a common mean.
fn data(kind: usize, rows: usize, stride: usize) -> Vec<f32> {
    let mut random = stream(kind as u64, "rows to select from", 0);
    let mut x: Vec<f32> = (0..rows * stride)
        .map(|index| {
            let value = (0..4).map(|_| unit(&mut random) as f32 - 0.5).sum::<f32>();
            match kind {
                0 => value,
                1 => value.powi(5) * 10.0,
                _ => 0.3 + value / (1 + index % stride) as f32,
            }
        })
        .collect();
    x.resize(rows.next_multiple_of(TILE_ROWS) * stride, 0.0);
    x
}

#[test]
fn the_prefilter_changes_no_result() {
    let (rows, latents, stride) = (100, 700, 32);
    let (_, mut panels, _) = dense(1, latents, stride, 5);
    // Latents that are equal make ties.
    let mut column = vec![0.0; stride];
    panels.column(3, &mut column);
    [40, 41, 400].iter().for_each(|&latent| panels.set_column(latent, &column));
    let rounded = Columns::new(panels.values(), stride);
    let bias: Vec<f32> = (0..704).map(|latent| (latent % 5) as f32 / 100.0).collect();
    let floors: Vec<f32> = (0..704).map(|latent| if latent < latents { 0.01 } else { f32::INFINITY }).collect();
    for kind in 0..3 {
        let mut x = data(kind, rows, stride);
        // One row with an outlier, one of zeros, two that are equal.
        x[7 * stride] = 1e4;
        x[8 * stride..9 * stride].fill(0.0);
        x.copy_within(0..stride, 9 * stride);
        let plain = plain(&panels, &bias, &floors);
        for (rule, guesses) in [
            (Rule::PerRow(9), &[0.05, 0.3, 0.5, 30.0][..]),
            (Rule::PerBatch(9), &[0.1, 0.4, 1e6]),
            (Rule::Above, &[0.0]),
        ] {
            let mut expected = vec![Entries::new(); rows];
            plain.select(rule, &x, &WarmStart::default(), &mut expected);
            for (&guess, threads) in guesses.iter().cycle().zip([1, 2, 7, 2]) {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let (mut lists, warm_start) = (vec![Entries::new(); rows], WarmStart::default());
                warm_start.set_guess(guess);
                let prefiltering = Selector { rounded: Some(&rounded), threads, ..plain };
                pool.install(|| prefiltering.select(rule, &x, &warm_start, &mut lists));
                assert_eq!(lists, expected, "kind {kind}, {rule:?} from {guess}");
                assert!(warm_start.has_prefiltered());
            }
        }
    }
}
