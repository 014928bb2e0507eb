//! Attacks that succeeded once: silently wrong answers, lost data, exhausted memory, hangs, and an interface that misleads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod data_loss;
mod hangs;
mod interface;
mod memory;
mod wrong_answers;

use std::time::Duration;

/// All inputs are small, so every command ends soon, also on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Reproducible numbers between -1 and 1.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
