//! The memory limit. Code that allocates memory in proportion to its input reserves the bytes first.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A memory limit in bytes. Clones share the same limit.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Bytes>);

#[derive(Debug)]
struct Bytes {
    total: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

/// Reserved bytes. Store it next to the memory it is for: dropping it releases the bytes.
#[derive(Debug)]
pub struct Reservation {
    bytes: u64,
    budget: Budget,
}

/// A value with the reservation for its memory.
#[derive(Debug)]
pub struct Reserved<T> {
    value: T,
    memory: Reservation,
}

impl Budget {
    /// A limit of `bytes`.
    pub fn new(bytes: u64) -> Budget {
        Budget(Arc::new(Bytes { total: bytes, used: AtomicU64::new(0), peak: AtomicU64::new(0) }))
    }

    /// 70 % of the RAM, or of the memory of the control group or the address space that is left, if that is less.
    pub fn of_machine() -> Budget {
        let ram = kilobytes("/proc/meminfo", "MemTotal:");
        let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
        let bytes: u64 = ram.into_iter().chain(group).chain(address_space_left()).min().unwrap_or(4 << 30);
        Budget::new(bytes / 10 * 7)
    }

    /// Reserves bytes for `what`; fails with [`Error::Memory`] if fewer are left.
    pub fn reserve(&self, bytes: u64, what: impl Into<String>) -> Result<Reservation> {
        let mut reservation = Reservation { bytes: 0, budget: self.clone() };
        reservation.resize(bytes, what)?;
        Ok(reservation)
    }

    /// Bytes left.
    pub fn left(&self) -> u64 {
        self.0.total - self.0.used.load(Ordering::Relaxed)
    }

    /// The largest number of bytes reserved at a time so far.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }
}

/// Address space that a thread takes: its stack, and the area that the allocator of the C library sets aside for it.
const THREAD_SPACE: u64 = 66 << 20;

/// Bytes that this process can still allocate if its address space is limited (`ulimit -v`), one thread per core included.
/// An allocation beyond them ends the process.
pub fn address_space_left() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let used = kilobytes("/proc/self/status", "VmSize:").unwrap_or(0);
    let left = limit.saturating_sub(used);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    // The areas shrink if there is no space for them.
    Some(left.saturating_sub((threads + 1) * THREAD_SPACE).max(left / 4))
}

/// A number of kilobytes in a file of the kernel, in bytes.
fn kilobytes(file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

impl Reservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows or shrinks the reservation. It is unchanged after an error.
    pub fn resize(&mut self, bytes: u64, what: impl Into<String>) -> Result<()> {
        let shared = &*self.budget.0;
        let changed = |used: u64| (used - self.bytes).checked_add(bytes).filter(|used| *used <= shared.total);
        let used = shared.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).map_err(|used| {
            Error::Memory { what: what.into(), needed: bytes, left: shared.total - (used - self.bytes) }
        })?;
        shared.peak.fetch_max(used - self.bytes + bytes, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<T> Reserved<T> {
    /// A value with its reservation.
    pub fn new(value: T, memory: Reservation) -> Reserved<T> {
        Reserved { value, memory }
    }

    /// The parts. Keep the reservation as long as the value.
    pub fn into_parts(self) -> (T, Reservation) {
        (self.value, self.memory)
    }

    /// The reservation.
    pub(crate) fn memory(&mut self) -> &mut Reservation {
        &mut self.memory
    }

    /// Changes the value and keeps the reservation.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reserved<U> {
        Reserved { value: change(self.value), memory: self.memory }
    }
}

impl<T> Deref for Reserved<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Reserved<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservations_are_released() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(60, "a table").unwrap();
        let error = budget.reserve(50, "another").unwrap_err().to_string();
        assert!(error.contains("another") && error.contains("50 B") && error.contains("40 B"), "{error}");
        assert!(first.resize(101, "too much").is_err());
        first.resize(90, "more").unwrap();
        first.resize(10, "less").unwrap();
        assert_eq!((first.bytes(), budget.left(), budget.peak()), (10, 90, 90));
        drop(Reserved::new(1, first));
        assert_eq!(budget.left(), 100);
    }
}
