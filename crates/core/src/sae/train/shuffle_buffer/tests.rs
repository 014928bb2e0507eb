use super::super::numbers::Numbers;
use super::*;

fn context() -> Context {
    Context::silent(1, 1 << 28).unwrap()
}

/// Draws batches of 50 rows and returns the numbers of the rows.
fn draw(buffer: &mut ShuffleBuffer<'_>, batches: usize) -> Vec<usize> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    for _ in 0..batches {
        buffer.draw(50, &mut batch).unwrap();
        all.extend(batch.chunks_exact(buffer.width).map(|row| row[0] as usize));
    }
    all
}

#[test]
fn an_input_that_fits_is_read_once() {
    let (mut stream, context) = (Numbers::new(430, 3, 64), context());
    let mut buffer = ShuffleBuffer::fill(&mut stream, 430, 5, &context).unwrap();
    let held_out: Vec<usize> = buffer.held_out().chunks_exact(3).map(|row| row[0] as usize).collect();
    assert_eq!((held_out.len(), buffer.first_count(), buffer.is_held_out()), (43, 430, true));
    let (state, all) = (buffer.state(), draw(&mut buffer, 20));
    let others: Vec<usize> = (0..430).filter(|row| !held_out.contains(row)).collect();
    for pass in all.chunks_exact(387) {
        let mut sorted = pass.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, others);
    }
    assert!(all[..387] != all[387..774] && buffer.stream().work().done == 430 && state.whole);
    // Interrupted after the twelfth batch.
    let (mut half, mut again) = (Numbers::new(430, 3, 64), Numbers::new(430, 3, 64));
    let mut interrupted = ShuffleBuffer::fill(&mut half, 430, 5, &context).unwrap();
    draw(&mut interrupted, 12);
    let (state, rows) = (interrupted.state(), interrupted.held_out().to_vec());
    let mut rebuilt = ShuffleBuffer::rebuild(&mut again, (430, 5), (&state, rows), &context).unwrap();
    assert_eq!(draw(&mut rebuilt, 8), all[600..]);
}

#[test]
fn rows_wait_for_a_bounded_time_and_leave_once() {
    let (mut stream, context) = (Numbers::new(2600, 2, 32), context());
    let mut buffer = ShuffleBuffer::fill(&mut stream, 1000, 7, &context).unwrap();
    assert_eq!((buffer.first_count(), buffer.held_out().len() / 2), (1000, 100));
    let held_out: Vec<usize> = buffer.held_out().chunks_exact(2).map(|row| row[0] as usize).collect();
    // Training rows of a pass, in order: a pass has 2,500, and 900 wait on average.
    let rows: Vec<usize> = (0..2600).filter(|row| !held_out.contains(row)).collect();
    let mut seen = vec![0; rows.len()];
    let (mut all, mut largest) = (Vec::new(), 0);
    for _ in 0..200 {
        all.extend(draw(&mut buffer, 1));
        largest = largest.max(buffer.waiting.len());
    }
    assert!(largest <= 900 + 4 * 32 + 32 && buffer.values.len() / 2 < 1100, "{largest}");
    for (drawn, row) in all.iter().enumerate() {
        let index = rows.binary_search(row).unwrap_or_else(|_| panic!("row {row} is held out"));
        let number = seen[index] * rows.len() + index;
        seen[index] += 1;
        // A row is drawn after it arrived, and before 2 · 900 others have arrived after it (3 · 900 at the beginning).
        assert!(number < drawn + 1100 && drawn < number + 1950, "{drawn} {number}");
    }
    // The first batches come from the whole buffer.
    assert!(all[..50].iter().filter(|row| **row < 500).count() > 12, "{:?}", &all[..50]);
    assert!(all[..50].iter().filter(|row| **row >= 500).count() > 12, "{:?}", &all[..50]);
    // 10,000 rows in passes of 2,500: every row three, four or five times.
    assert!(seen.iter().all(|count| (3..=5).contains(count)));
}

#[test]
fn the_order_depends_neither_on_chunks_nor_on_interruptions() {
    let context = context();
    let all: Vec<Vec<usize>> = [1, 7, 64, 999]
        .map(|chunk| {
            let mut stream = Numbers::new(3100, 2, chunk);
            draw(&mut ShuffleBuffer::fill(&mut stream, 500, 3, &context).unwrap(), 150)
        })
        .to_vec();
    assert!(all.iter().all(|order| *order == all[0]));
    let mut other = Numbers::new(3100, 2, 64);
    assert_ne!(draw(&mut ShuffleBuffer::fill(&mut other, 500, 4, &context).unwrap(), 150), all[0]);
    for done in [0, 1, 9, 26, 40, 77, 149] {
        let (mut first, mut second) = (Numbers::new(3100, 2, 64), Numbers::new(3100, 2, 64));
        let mut buffer = ShuffleBuffer::fill(&mut first, 500, 3, &context).unwrap();
        draw(&mut buffer, done);
        let (state, held_out) = (buffer.state(), buffer.held_out().to_vec());
        let mut rebuilt = ShuffleBuffer::rebuild(&mut second, (500, 3), (&state, held_out), &context).unwrap();
        // At most 3 · 450 rows and a chunk, and the held-out rows among them.
        assert!(rebuilt.stream().work().done <= 1350 + 50 + 2 * 64, "{}", rebuilt.stream().work().done);
        assert_eq!(draw(&mut rebuilt, 150 - done), all[0][50 * done..], "{done}");
    }
}

#[test]
fn little_memory_and_empty_streams_are_refused() {
    let small = Context::silent(1, 1000).unwrap();
    let error = ShuffleBuffer::fill(&mut Numbers::new(600, 2, 64), 500, 3, &small).map(drop).unwrap_err().to_string();
    assert!(error.contains("shuffle buffer") && error.contains("`buffer`"), "{error}");
    let error = ShuffleBuffer::fill(&mut Numbers::new(0, 2, 64), 500, 3, &context()).map(drop).unwrap_err().to_string();
    assert!(error.contains("no rows"), "{error}");
    // Too few rows to hold some out: all of them set thresholds.
    let (mut stream, context) = (Numbers::new(9, 2, 64), context());
    let buffer = ShuffleBuffer::fill(&mut stream, 500, 3, &context).unwrap();
    assert!(!buffer.is_held_out() && buffer.held_out().len() == 18);
}
