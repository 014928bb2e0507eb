//! Progress: a bar on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use etalon::context::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows the progress of long computations.
pub struct Bar {
    state: Mutex<State>,
    silent: bool,
    terminal: bool,
}

struct State {
    bar: ProgressBar,
    what: String,
    unit: String,
    began: Instant,
    /// When the last plain line was written.
    last_line: Instant,
}

/// The bar, and what is shown while the total is unknown.
const STYLE: &str = "{msg:<28} {bar:32} {human_pos}/{human_len} {prefix}  {per_sec}  {eta} left";
const UNKNOWN: &str = "{msg:<28} {human_pos} {prefix}  {per_sec}";

fn style(total: u64) -> ProgressStyle {
    let template = if total == 0 { UNKNOWN } else { STYLE };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Interval between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

impl Bar {
    /// A progress bar; shows nothing if `silent`.
    pub fn new(silent: bool) -> Bar {
        let terminal = std::io::stderr().is_terminal();
        let (what, unit, now) = (String::new(), String::new(), Instant::now());
        let state = State { bar: ProgressBar::hidden(), what, unit, began: now, last_line: now };
        Bar { state: Mutex::new(state), silent, terminal }
    }

    /// Writes a line above the bar.
    pub fn line(&self, text: &str) {
        self.with(|state| state.bar.suspend(|| eprintln!("{text}")));
    }

    fn with(&self, work: impl FnOnce(&mut State)) {
        // A poisoned lock means that another thread panicked while drawing, which must not hide its error.
        work(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

impl Progress for Bar {
    fn start(&self, what: &str, total: u64, unit: &str) {
        if self.silent {
            return;
        }
        self.with(|state| {
            let target =
                if self.terminal { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
            state.bar = ProgressBar::with_draw_target(Some(total), target).with_style(style(total));
            state.bar.set_message(what.to_string());
            state.bar.set_prefix(unit.to_string());
            (state.what, state.unit) = (what.into(), unit.into());
            (state.began, state.last_line) = (Instant::now(), Instant::now());
        });
    }

    fn estimate(&self, total: u64) {
        if self.silent {
            return;
        }
        self.with(|state| {
            if state.bar.length().unwrap_or(0) == 0 && total > 0 {
                state.bar.set_style(style(total));
            }
            state.bar.set_length(total.max(state.bar.position()));
        });
    }

    fn advance(&self, steps: u64) {
        if self.silent {
            return;
        }
        self.with(|state| {
            state.bar.inc(steps);
            if !self.terminal && state.last_line.elapsed() >= LINE_INTERVAL {
                let (done, total) = (state.bar.position(), state.bar.length().unwrap_or(0));
                let total = if total > 0 { format!(" of {total}") } else { String::new() };
                let rate = done as f64 / state.began.elapsed().as_secs_f64().max(1e-9);
                eprintln!("{}: {done}{total} {}, {rate:.0} per second", state.what, state.unit);
                state.last_line = Instant::now();
            }
        });
    }

    fn finish(&self) {
        self.with(|state| state.bar.finish_and_clear());
    }
}
