//! Threads, memory, progress and Ctrl-C of one call.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etalon::context::{Budget, Context, Progress};
use etalon::error::{Error, Result};
use pyo3::prelude::*;

use crate::error::{exception, raised};

/// Time between two looks at signals and progress.
const TURN: Duration = Duration::from_millis(100);

/// Threads, memory, progress and cancellation of one call.
#[pyclass(frozen)]
pub struct Session {
    /// What the library is given.
    pub context: Context,
    meter: Arc<Meter>,
    /// Is called with what, steps done, total and unit.
    progress: Option<Py<PyAny>>,
}

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, threads: usize, memory: Option<u64>, progress: Option<Py<PyAny>>) -> PyResult<Session> {
        let budget = memory.map_or_else(Budget::of_machine, Budget::new);
        let meter = Arc::new(Meter::default());
        let context = raised(py, Context::new(threads, budget, meter.clone()))?;
        Ok(Session { context, meter, progress })
    }

    /// Bytes that are left of the memory limit.
    fn memory_left(&self) -> u64 {
        self.context.budget().left()
    }
}

impl Session {
    /// Runs work without the interpreter's lock, in a thread outside of the pool. Ctrl-C cancels it; progress is shown meanwhile.
    pub fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&Context) -> Result<T> + Send) -> PyResult<T> {
        let context = &self.context;
        let mut interrupted = None;
        let outcome = py.detach(|| {
            std::thread::scope(|scope| {
                let (done, wait) = channel::<()>();
                let worker = scope.spawn(move || {
                    let result = work(context);
                    drop(done);
                    result
                });
                while matches!(wait.recv_timeout(TURN), Err(RecvTimeoutError::Timeout)) {
                    let looked = Python::attach(|py| py.check_signals().and_then(|()| self.show(py)));
                    if let Err(error) = looked {
                        context.cancel();
                        interrupted.get_or_insert(error);
                    }
                }
                worker.join().unwrap_or_else(|_| Err(Error::Bug("a thread of the library panicked".into())))
            })
        });
        if self.progress.is_some() && interrupted.is_none() {
            self.show(py)?;
        }
        match (outcome, interrupted) {
            (Ok(value), None) => Ok(value),
            (_, Some(error)) => Err(error),
            (Err(error), None) => Err(exception(py, &error)),
        }
    }

    /// Tells Python how far the work is, if that has changed.
    fn show(&self, py: Python<'_>) -> PyResult<()> {
        let (Some(progress), Some(state)) = (&self.progress, self.meter.news()) else { return Ok(()) };
        progress.call1(py, (state.what, state.done, state.total, state.unit)).map(drop)
    }
}

/// Collects progress from all threads, for one that shows it.
#[derive(Default)]
struct Meter(Mutex<(Position, bool)>);

#[derive(Clone, Default)]
struct Position {
    what: String,
    done: u64,
    total: u64,
    unit: String,
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, (Position, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position, if it has changed since the last call.
    fn news(&self) -> Option<Position> {
        let mut state = self.lock();
        std::mem::take(&mut state.1).then(|| state.0.clone())
    }
}

impl Progress for Meter {
    fn start(&self, what: &str, total: u64, unit: &str) {
        *self.lock() = (Position { what: what.into(), done: 0, total, unit: unit.into() }, true);
    }

    fn estimate(&self, total: u64) {
        let mut state = self.lock();
        (state.0.total, state.1) = (total, true);
    }

    fn advance(&self, steps: u64) {
        let mut state = self.lock();
        state.0.done += steps;
        state.1 = true;
    }

    fn finish(&self) {
        let mut state = self.lock();
        state.0.total = state.0.total.max(state.0.done);
        (state.0.done, state.1) = (state.0.total, true);
    }
}
