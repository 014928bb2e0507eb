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
    /// When the last plain line was written.
    last_line: Instant,
}

/// Interval between plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

impl Bar {
    /// A progress bar; shows nothing if `silent`.
    pub fn new(silent: bool) -> Bar {
        let terminal = std::io::stderr().is_terminal();
        let state =
            State { bar: ProgressBar::hidden(), what: String::new(), unit: String::new(), last_line: Instant::now() };
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
            let style = "{msg:<28} {bar:32} {human_pos}/{human_len} {prefix}  {per_sec}  {eta} left";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            state.bar = ProgressBar::with_draw_target(Some(total), target).with_style(style);
            state.bar.set_message(what.to_string());
            state.bar.set_prefix(unit.to_string());
            (state.what, state.unit, state.last_line) = (what.into(), unit.into(), Instant::now());
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
                eprintln!("{}: {done} of {total} {}", state.what, state.unit);
                state.last_line = Instant::now();
            }
        });
    }

    fn finish(&self) {
        self.with(|state| state.bar.finish_and_clear());
    }
}
