//! The memory budget: everything sized by input asks here first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A number of bytes that may be taken and is given back when the [`Taken`] is dropped. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<AtomicU64>,
}

/// A part of the budget in use.
#[derive(Debug)]
pub struct Taken {
    bytes: u64,
    left: Arc<AtomicU64>,
}

impl Taken {
    /// Keeps the part for as long as the process lives.
    pub fn for_good(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: u64) -> Budget {
        Budget { left: Arc::new(AtomicU64::new(bytes)) }
    }

    /// 70 % of the memory that this machine, or the control group we run in, has.
    pub fn of_machine() -> Budget {
        let number = |text: String| text.trim().parse::<u64>().ok();
        let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
        });
        let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(number);
        let bytes = machine.into_iter().chain(group).min().unwrap_or(4 << 30);
        Budget::new(bytes / 10 * 7)
    }

    /// Takes bytes, or says what they were wanted for and how many are left.
    pub fn take(&self, bytes: u64, what: impl Into<String>) -> Result<Taken> {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes))
            .map(|_| Taken { bytes, left: self.left.clone() })
            .map_err(|left| Error::Memory { what: what.into(), needed: bytes, left })
    }

    /// How many bytes are left.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let taken = budget.take(60, "a table").unwrap();
        let error = budget.take(50, "another").unwrap_err().to_string();
        assert!(error.contains("another") && error.contains("50 B") && error.contains("40 B"), "{error}");
        drop(taken);
        assert_eq!(budget.left(), 100);
    }
}
