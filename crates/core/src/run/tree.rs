//! Runs units on all threads and merges their states along a binary tree whose shape depends only on the number of
//! units.
//!
//! Units start in order, and a state is merged as soon as its sibling is finished. About `threads + levels` states are
//! alive at a time, instead of `threads × levels` with a recursive `join`. Every state has a reservation. A thread that
//! cannot reserve memory for its next unit ends and leaves the unit to the others, so a low memory limit reduces
//! parallelism instead of failing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::erased::AnyState;
use crate::context::{Context, Reservation, Reserved};
use crate::error::{Error, Result};

/// Merges states along the same tree as [`reduce`], one after the other: for the leaves of a unit, and for streams of
/// unknown length.
#[derive(Default)]
pub struct Sequence {
    /// Merged subtrees with their levels, which descend.
    subtrees: Vec<(u32, AnyState)>,
}

impl Sequence {
    /// Adds the state of the next leaf.
    pub fn push(&mut self, state: AnyState) -> Result<()> {
        let (mut level, mut state) = (0, state);
        while self.subtrees.last().is_some_and(|(other, _)| *other == level) {
            if let Some((_, mut earlier)) = self.subtrees.pop() {
                earlier.merge(state)?;
                state = earlier;
            }
            level += 1;
        }
        self.subtrees.push((level, state));
        Ok(())
    }

    /// The state of the leaves before the next one.
    pub fn last(&mut self) -> Option<&mut AnyState> {
        self.subtrees.last_mut().map(|(_, state)| state)
    }

    /// The merged state; `None` without leaves.
    pub fn finish(mut self) -> Result<Option<AnyState>> {
        let Some((_, mut state)) = self.subtrees.pop() else { return Ok(None) };
        while let Some((_, mut earlier)) = self.subtrees.pop() {
            earlier.merge(state)?;
            state = earlier;
        }
        Ok(Some(state))
    }
}

/// Runs units `0..units`, up to `at_once` at a time, and merges their states; `None` without units. A unit reserves `bytes` while
/// it runs.
pub fn reduce(
    context: &Context,
    what: &str,
    units: usize,
    at_once: usize,
    bytes: u64,
    run: &(dyn Fn(usize) -> Result<AnyState> + Sync),
) -> Result<Option<Reserved<AnyState>>> {
    let todo = (0..units).collect();
    let queue = Mutex::new(Queue { todo, running: 0, waiting: BTreeMap::new(), root: None, failure: None });
    let tree = Tree { context, what, units, bytes, run, queue };
    // In the pool of the context: a metric that runs in step with others calls this from a pool of one thread.
    let run = || {
        rayon::scope(|scope| (0..at_once.min(units)).for_each(|_| scope.spawn(|scope| tree.run_next(scope))));
    };
    context.install(run);
    let queue = tree.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    match queue.failure {
        Some((_, error)) => Err(error),
        None => Ok(queue.root),
    }
}

struct Tree<'a> {
    context: &'a Context,
    what: &'a str,
    units: usize,
    bytes: u64,
    run: &'a (dyn Fn(usize) -> Result<AnyState> + Sync),
    queue: Mutex<Queue>,
}

struct Queue {
    todo: BTreeSet<usize>,
    running: usize,
    /// States that wait for their sibling, by level and position in the tree.
    waiting: BTreeMap<(u32, usize), Reserved<AnyState>>,
    root: Option<Reserved<AnyState>>,
    /// The error of the lowest failed unit, so that messages do not depend on timing.
    failure: Option<(usize, Error)>,
}

impl Queue {
    fn fail(&mut self, unit: usize, error: Error) {
        self.todo.clear();
        if self.failure.as_ref().is_none_or(|(lowest, _)| unit < *lowest) {
            self.failure = Some((unit, error));
        }
    }
}

impl Tree<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one unit, then spawns itself again. A loop would be wrong: a thread that waits inside a unit steals a task,
    /// and that task must be one unit, not all that are left.
    fn run_next<'s>(&'s self, scope: &rayon::Scope<'s>) {
        let Some((unit, memory)) = self.take() else { return };
        let state = (self.run)(unit).map(|value| Reserved::new(value, memory));
        let no_memory = matches!(state, Err(Error::Memory { .. }));
        let done = state.and_then(|state| self.merge_upwards(unit, state));
        let mut queue = self.queue();
        queue.running -= 1;
        match done {
            Ok(()) => {}
            // Others still hold memory: they run this unit later.
            Err(_) if no_memory && queue.running > 0 => {
                queue.todo.insert(unit);
                return;
            }
            Err(error) => queue.fail(unit, error),
        }
        drop(queue);
        scope.spawn(|scope| self.run_next(scope));
    }

    /// The next unit with its reservation; `None` ends the thread.
    fn take(&self) -> Option<(usize, Reservation)> {
        let mut queue = self.queue();
        let unit = *queue.todo.first()?;
        match self.context.check().and_then(|()| self.context.budget().reserve(self.bytes, self.what)) {
            Ok(memory) => {
                queue.todo.pop_first();
                queue.running += 1;
                return Some((unit, memory));
            }
            Err(Error::Memory { .. }) if queue.running > 0 => {}
            Err(error) => queue.fail(unit, error),
        }
        None
    }

    /// Merges the state of a unit with its siblings, level by level, until one is not finished.
    fn merge_upwards(&self, unit: usize, state: Reserved<AnyState>) -> Result<()> {
        let (mut level, mut position, mut state) = (0, unit, state);
        state.fit(self.what)?;
        while 1 << level < self.units {
            // Only the last node of a level can lack a sibling; it moves up as it is.
            if (position ^ 1) << level < self.units {
                let mut queue = self.queue();
                let Some(sibling) = queue.waiting.remove(&(level, position ^ 1)) else {
                    queue.waiting.insert((level, position), state);
                    return Ok(());
                };
                drop(queue);
                let (mut left, right) = if position % 2 == 0 { (state, sibling) } else { (sibling, state) };
                let (right, memory) = right.into_parts();
                left.merge(right)?;
                drop(memory);
                left.fit(self.what)?;
                state = left;
            }
            (level, position) = (level + 1, position / 2);
        }
        self.queue().root = Some(state);
        Ok(())
    }
}

impl Reserved<AnyState> {
    /// Resizes the reservation to the size of the state.
    pub(super) fn fit(&mut self, what: &str) -> Result<()> {
        let bytes = self.bytes();
        self.memory().resize(bytes, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::state::{List, Sum};

    #[test]
    fn units_in_any_order_and_sequences_give_the_same_bits() {
        let context = Context::silent(3, 1 << 20).unwrap();
        for units in [0, 1, 2, 3, 5, 7, 8, 33] {
            let value = |unit: usize| {
                let mut sum = Sum::new(1);
                sum[0] = 1.0 / (unit * unit + 3) as f64;
                Ok((sum, List(vec![unit])))
            };
            let (sum, list) =
                (|unit| value(unit).map(|v| AnyState::new(v.0)), |unit| value(unit).map(|v| AnyState::new(v.1)));
            let parallel = context.install(|| reduce(&context, "sums", units, 3, 8, &sum)).unwrap();
            let order = context.install(|| reduce(&context, "order", units, 3, 8, &list)).unwrap();
            let (mut sequence, mut in_order) = (Sequence::default(), Sequence::default());
            for unit in 0..units {
                sequence.push(sum(unit).unwrap()).unwrap();
                in_order.push(list(unit).unwrap()).unwrap();
            }
            let total = |state: AnyState| state.into_inner::<Sum>().unwrap()[0];
            let blocks = |state: AnyState| state.into_inner::<List<usize>>().unwrap().0;
            assert_eq!(parallel.map(|state| total(state.into_parts().0)), sequence.finish().unwrap().map(total));
            assert_eq!(order.map(|state| blocks(state.into_parts().0)), in_order.finish().unwrap().map(blocks));
        }
        assert_eq!(context.budget().left(), 1 << 20);
    }

    #[test]
    fn low_memory_reduces_threads_and_too_little_is_an_error() {
        let context = Context::silent(8, 700).unwrap();
        let run = |_| Ok(AnyState::new(Sum::new(10)));
        // 80 bytes per state: one unit and one state per level fit into 700 bytes, eight units do not.
        let merged = context.install(|| reduce(&context, "sums", 16, 8, 80, &run)).unwrap().unwrap();
        assert_eq!(merged.into_parts().0.into_inner::<Sum>().unwrap().len(), 10);
        let small = Context::silent(2, 100).unwrap();
        let error = small.install(|| reduce(&small, "sums", 16, 2, 80, &run)).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Memory { .. }));
        assert_eq!(small.budget().left(), 100);
    }

    #[test]
    fn the_failure_of_the_lowest_unit_is_reported() {
        let context = Context::silent(4, 1 << 20).unwrap();
        let run = |unit: usize| match unit % 5 {
            3 => Err(Error::Bug(format!("unit {unit}"))),
            _ => Ok(AnyState::new(Sum::new(1))),
        };
        let error = context.install(|| reduce(&context, "sums", 40, 4, 8, &run)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("unit 3"), "{error}");
    }
}
