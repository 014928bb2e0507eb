//! Several metrics that read their rows together.

use std::sync::{Arc, Mutex};

use super::{CARD, Sums, context, inputs, recipe_of, sum};
use crate::error::{Error, Result};
use crate::metrics::{Card, Metric, evaluate, evaluate_together};
use crate::results::{Recipe, Scores};
use crate::run::{CODES, Job, Over, Work, leaves};

/// Makes `passes` passes over the rows and logs the first row of every batch.
struct Reads {
    passes: usize,
    fails: bool,
    log: Arc<Mutex<Vec<usize>>>,
}

impl Metric for Reads {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let mut total = 0.0;
        for _ in 0..self.passes {
            let sums = work.pass("thirds", Over::ROWS, Sums::new, |sums, rows| {
                self.log.lock().unwrap().push(rows.range.start);
                if self.fails && rows.range.start > 5000 {
                    return Err(Error::Bug("broken".into()));
                }
                sums.add(rows.get(&CODES)?);
                Ok(())
            })?;
            total += work.once("square", || Ok(sums.thirds[0] * sums.thirds[0]))?;
            // Between passes, a metric has all threads.
            let threads = work.blocks("threads", 1, |_| Ok(rayon::current_num_threads() as f64))?;
            assert_eq!(threads[..], [job.context.threads() as f64]);
        }
        let mut scores = Scores::default();
        scores.headline("sum", Some(total), None, self.passes);
        Ok(scores)
    }
}

/// Five metrics with a common log, leaked because lists of metrics are static.
fn readers(passes: [usize; 5], failing: Option<usize>) -> (Vec<&'static dyn Metric>, Arc<Mutex<Vec<usize>>>) {
    let log: Arc<Mutex<Vec<usize>>> = Arc::default();
    let reader = |index: usize| -> &'static dyn Metric {
        Box::leak(Box::new(Reads { passes: passes[index], fails: failing == Some(index), log: log.clone() }))
    };
    ((0..5).map(reader).collect(), log)
}

/// The number of cache misses of a log, with an LRU cache of `size` batches.
fn cache_misses(log: &[usize], size: usize) -> usize {
    let (mut recent, mut misses) = (Vec::<usize>::new(), 0);
    for batch in log {
        match recent.iter().position(|other| other == batch) {
            Some(index) => drop(recent.remove(index)),
            None => misses += 1,
        }
        recent.push(*batch);
        if recent.len() > size {
            recent.remove(0);
        }
    }
    misses
}

#[test]
fn shared_scans_read_rows_once_and_give_the_same_bits() {
    let (inputs, context) = (inputs(), context(2));
    let batches = 300_000usize.div_ceil(leaves::BATCH_ROWS);
    let (metrics, log) = readers([1; 5], None);
    let work: Vec<_> = metrics.iter().map(|metric| (*metric, recipe_of(*metric, &inputs))).collect();
    let alone = evaluate(work[0].0, &inputs, &work[0].1, &context).unwrap();
    log.lock().unwrap().clear();
    let together = evaluate_together(&work, &inputs, None, &context, |_, result| Ok(result));
    for result in together {
        assert_eq!(sum(&result.unwrap().scores).to_bits(), sum(&alone.scores).to_bits());
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 5 * batches);
    // Two leaves of sixteen batches fit into the cache; all rows do not.
    assert_eq!(cache_misses(&log, 48), batches);
    assert_eq!(context.budget().left(), 1 << 26);
}

#[test]
fn members_with_fewer_passes_or_errors_do_not_block_the_others() {
    let (inputs, context, directory) = (inputs(), context(3), tempfile::tempdir().unwrap());
    let (metrics, _) = readers([3, 0, 1, 2, 1], Some(2));
    let seeded = |seed: usize| Recipe { seed: seed as u64, ..recipe_of(metrics[seed], &inputs) };
    let work: Vec<_> = metrics.iter().enumerate().map(|(seed, metric)| (*metric, seeded(seed))).collect();
    for units in [None, Some(directory.path())] {
        let together = evaluate_together(&work, &inputs, units, &context, |index, result| Ok((index, result)));
        for (index, result) in together.into_iter().enumerate() {
            match result {
                Ok((stored, result)) => {
                    assert_eq!((stored, result.scores.headline[0].n), (index, [3, 0, 1, 2, 1][index]));
                }
                Err(error) => assert!(index == 2 && error.to_string().contains("broken"), "{index}: {error}"),
            }
        }
    }
    context.cancel();
    let together = evaluate_together(&work, &inputs, None, &context, |_, result| Ok(result.scores.headline.len()));
    assert!(together.into_iter().all(|done| done.is_err()));
}
