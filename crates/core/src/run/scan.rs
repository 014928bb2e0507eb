//! Several metrics in step: their passes over the same rows visit them together, so that rows that do not fit into memory are
//! read once for all of them.
//!
//! Every metric's function runs on a thread of its own and is a *member* here. Between passes one member runs at a time, so
//! progress, memory and messages are those of one metric. A member that comes to a pass waits until all others wait too or
//! have finished; then all that wait for the same rows scan them together, window by window.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::inputs::Over;
use super::role::Axis;

/// Rows that passes visit, as a key.
type RowSet = (Axis, String);

/// Brings members together.
#[derive(Default)]
pub struct Scanner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Members that have not finished.
    members: usize,
    /// The member that runs between passes.
    running: Option<usize>,
    /// Members that wait at a pass.
    waiting: BTreeMap<usize, RowSet>,
    /// The scan under way.
    scan: Option<Scan>,
}

struct Scan {
    members: BTreeSet<usize>,
    /// Members that have done the present window.
    arrived: usize,
    windows: u64,
}

impl Scan {
    /// Goes to the next window if everybody has arrived.
    fn advance(&mut self) {
        if self.arrived >= self.members.len() {
            (self.arrived, self.windows) = (0, self.windows + 1);
        }
    }
}

impl Scanner {
    /// For a number of members.
    pub fn new(members: usize) -> Scanner {
        Scanner { state: Mutex::new(State { members, ..State::default() }), changed: Condvar::new() }
    }

    /// A member; the thread that calls this waits for its turn.
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

/// One metric among several. Dropped when its function ends, however it ends.
pub struct Member<'s> {
    scanner: &'s Scanner,
    index: usize,
}

impl<'s> Member<'s> {
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

    /// Waits for the others and joins the scan of some rows.
    pub fn join(&self, over: Over<'_>) -> Window<'_, 's> {
        let mut state = self.scanner.lock();
        state.running = None;
        state.waiting.insert(self.index, (over.0, over.1.to_string()));
        self.scanner.changed.notify_all();
        loop {
            if state.scan.is_none() && state.running.is_none() && state.waiting.len() == state.members {
                let rows = state.waiting.values().next().cloned();
                let here: BTreeSet<usize> =
                    state.waiting.iter().filter(|(_, other)| Some(*other) == rows.as_ref()).map(|(i, _)| *i).collect();
                state.waiting.retain(|index, _| !here.contains(index));
                state.scan = Some(Scan { members: here, arrived: 0, windows: 0 });
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

/// A member's part in a scan. Dropping it leaves the scan and takes the next turn.
pub struct Window<'m, 's> {
    member: &'m Member<'s>,
    /// Whether this member reports the progress of the scan.
    pub leads: bool,
}

impl Window<'_, '_> {
    /// Waits until all members have done the present window.
    pub fn next(&self) {
        let scanner = self.member.scanner;
        let mut state = scanner.lock();
        let Some(scan) = &mut state.scan else { return };
        let before = scan.windows;
        scan.arrived += 1;
        scan.advance();
        scanner.changed.notify_all();
        while state.scan.as_ref().is_some_and(|scan| scan.windows == before) {
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
