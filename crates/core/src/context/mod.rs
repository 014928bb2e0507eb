//! Threads, memory limit, progress and cancellation, in one handle that is passed to all long work.

mod budget;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use budget::{Budget, Reservation, Reserved, address_space_left};
pub use etalon_kernel::monitor::Monitor;
pub use progress::{Progress, Silent};

use crate::error::{Error, InputError, Key, Result};

/// Threads, memory limit, progress listener and cancellation. Clones share all of them.
///
/// ```
/// use etalon::context::{Budget, Context, Silent};
///
/// let context = Context::new(2, Budget::new(1 << 30), Silent)?;
/// let sum: u64 = context.install(|| (0..1000).sum());
/// assert_eq!((sum, context.threads()), (499_500, 2));
/// # Ok::<(), etalon::error::Error>(())
/// ```
#[derive(Clone)]
pub struct Context(Arc<Shared>);

struct Shared {
    pool: rayon::ThreadPool,
    budget: Budget,
    progress: Box<dyn Progress + Send>,
    cancelled: AtomicBool,
}

impl Context {
    /// A context with its own thread pool; 0 threads means one per core.
    pub fn new(threads: usize, budget: Budget, progress: impl Progress + Send + 'static) -> Result<Context> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| {
            InputError::new("the system cannot start the threads")
                .found(error)
                .advice(format!("lower {}, or raise the limits of the system (`ulimit -a`)", Key("threads")))
        })?;
        let (progress, cancelled) = (Box::new(progress), AtomicBool::new(false));
        Ok(Context(Arc::new(Shared { pool, budget, progress, cancelled })))
    }

    /// A context that reports nothing.
    pub fn silent(threads: usize, memory: u64) -> Result<Context> {
        Context::new(threads, Budget::new(memory), Silent)
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.0.pool.current_num_threads()
    }

    /// Runs a closure in the thread pool. Parallel code inside it uses only these threads.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.pool.install(work)
    }

    /// The memory limit.
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Reports an estimate of the total of work whose number of steps was unknown at its start.
    pub fn estimate(&self, total: u64) {
        self.0.progress.estimate(total);
    }

    /// Cancels all work; returns whether it was cancelled before.
    pub fn cancel(&self) -> bool {
        self.0.cancelled.swap(true, Ordering::SeqCst)
    }

    /// Returns [`Error::Cancelled`] after [`Context::cancel`]. Call it in every long loop.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Monitor for Context {
    fn start(&self, what: &str, total: u64, unit: &str) {
        self.0.progress.start(what, total, unit);
    }

    fn advance(&self, steps: u64) {
        self.0.progress.advance(steps);
    }

    fn finish(&self) {
        self.0.progress.finish();
    }

    fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }
}
