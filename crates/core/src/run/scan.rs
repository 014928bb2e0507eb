//! Shared scans: the passes of several metrics over the same rows read them together, so that rows that do not fit into
//! memory are read once for all metrics.
//!
//! The function of every metric runs on its own thread as a *member*. Between passes, one member runs at a time, so
//! progress and memory use are those of one metric. A member that reaches a pass waits until all others wait at a pass
//! or have finished. Then the members that wait for the same rows scan them together, one *window* of rows after the
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::inputs::Over;
use super::role::Axis;

/// The rows of a pass, as a map key.
type RowSet = (Axis, String);

/// Synchronises the members of shared scans.
#[derive(Default)]
pub struct Scanner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Members that have not finished.
    members: usize,
    /// The member that runs outside of scans.
    running: Option<usize>,
    /// Members that wait at a pass, with its rows.
    waiting: BTreeMap<usize, RowSet>,
    /// The current scan.
    scan: Option<Scan>,
}

struct Scan {
    members: BTreeSet<usize>,
    /// Members that have finished the current window.
    arrived: usize,
    /// Number of the current window.
    window: u64,
}

impl Scan {
    /// Moves to the next window if all members have finished the current one.
    fn advance(&mut self) {
        if self.arrived >= self.members.len() {
            (self.arrived, self.window) = (0, self.window + 1);
        }
    }
}

impl Scanner {
    /// A scanner for a number of members.
    pub fn new(members: usize) -> Scanner {
        Scanner { state: Mutex::new(State { members, ..State::default() }), changed: Condvar::new() }
    }

    /// Makes the calling thread a member; blocks until it is its turn to run.
    pub fn member(&self, index: usize) -> Member<'_> {
        let member = Member { scanner: self, index };
        drop(member.take_turn(self.lock()));
        member
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of several metrics that share scans. Drop it when the metric's function ends, also on errors.
pub struct Member<'s> {
    scanner: &'s Scanner,
    index: usize,
}

impl<'s> Member<'s> {
    /// Blocks until no other member runs and no scan is under way.
    fn take_turn<'g>(&self, mut state: MutexGuard<'g, State>) -> MutexGuard<'g, State>
    where
        's: 'g,
    {
        while state.running.is_some() || state.scan.is_some() {
            state = self.scanner.wait(state);
        }
        state.running = Some(self.index);
        state
    }

    /// Waits for the other members and joins the scan of some rows.
    pub fn join(&self, over: Over<'_>) -> Window<'_, 's> {
        let mut state = self.scanner.lock();
        state.running = None;
        state.waiting.insert(self.index, (over.0, over.1.to_string()));
        self.scanner.changed.notify_all();
        loop {
            if state.scan.is_none() && state.running.is_none() && state.waiting.len() == state.members {
                let rows = state.waiting.values().next().cloned();
                let members: BTreeSet<usize> =
                    state.waiting.iter().filter(|(_, other)| Some(*other) == rows.as_ref()).map(|(i, _)| *i).collect();
                state.waiting.retain(|index, _| !members.contains(index));
                state.scan = Some(Scan { members, arrived: 0, window: 0 });
                self.scanner.changed.notify_all();
            }
            if let Some(scan) = state.scan.as_ref().filter(|scan| scan.members.contains(&self.index)) {
                return Window { member: self, leads: scan.members.first() == Some(&self.index) };
            }
            state = self.scanner.wait(state);
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut state = self.scanner.lock();
        state.members -= 1;
        if state.running == Some(self.index) {
            state.running = None;
        }
        self.scanner.changed.notify_all();
    }
}

/// A member's part in a scan. Dropping it leaves the scan and blocks until it is the member's turn to run.
pub struct Window<'m, 's> {
    member: &'m Member<'s>,
    /// Whether this member reports the progress of the scan.
    pub leads: bool,
}

impl Window<'_, '_> {
    /// Waits until all members have finished the current window.
    pub fn next(&self) {
        let scanner = self.member.scanner;
        let mut state = scanner.lock();
        let Some(scan) = &mut state.scan else { return };
        let before = scan.window;
        scan.arrived += 1;
        scan.advance();
        scanner.changed.notify_all();
        while state.scan.as_ref().is_some_and(|scan| scan.window == before) {
            state = scanner.wait(state);
        }
    }
}

impl Drop for Window<'_, '_> {
    fn drop(&mut self) {
        let scanner = self.member.scanner;
        let mut state = scanner.lock();
        if let Some(scan) = &mut state.scan {
            scan.members.remove(&self.member.index);
            if scan.members.is_empty() {
                state.scan = None;
            } else {
                scan.advance();
            }
        }
        scanner.changed.notify_all();
        drop(self.member.take_turn(state));
    }
}
