//! What every command has: threads, memory, a progress bar, a way to stop, and the only place that prints.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use etalon::context::{Budget, Context};
use etalon::error::{Error, InputError, Result};
use serde_json::{Value, json};

use crate::bar::Bar;
use crate::cli::Common;

/// Everything a command needs from the outside world.
pub struct Console {
    /// Threads, memory, progress, cancellation.
    pub context: Context,
    bar: Arc<Bar>,
    quiet: bool,
    json: bool,
}

/// Every thread has a stack, so a slip of the hand would fill the machine.
const MOST_THREADS: usize = 1024;

impl Console {
    /// Reads the common options and listens for Ctrl-C.
    pub fn new(common: &Common) -> Result<Console> {
        let budget = match &common.memory {
            Some(text) => Budget::new(parse_size(text)?),
            None => Budget::of_machine(),
        };
        let threads = common.threads.unwrap_or(0);
        if threads > MOST_THREADS {
            return Err(InputError::new(format!("`--threads` must be at most {MOST_THREADS}"))
                .expected("a number of threads; 0 for one per core")
                .found(threads)
                .into());
        }
        let bar = Arc::new(Bar::new(common.quiet || common.json));
        let context = Context::new(threads, budget, bar.clone())?;
        // The first Ctrl-C stops after the current unit of work, the second at once.
        let shared = context.clone();
        let listening = ctrlc::set_handler(move || {
            if shared.cancel() {
                std::process::exit(130);
            }
        });
        listening.map_err(|error| Error::Bug(format!("cannot listen for Ctrl-C: {error}")))?;
        Ok(Console { context, bar, quiet: common.quiet, json: common.json })
    }

    /// The memory limit.
    pub fn budget(&self) -> &Budget {
        self.context.budget()
    }

    /// Says something on the way; silent with `--quiet` and `--json`.
    pub fn say(&self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            self.bar.line(text.as_ref());
        }
    }

    /// Gives the answer: text for people, or JSON.
    pub fn answer(&self, text: impl AsRef<str>, json: impl FnOnce() -> Value) {
        if self.json { print_line(&json().to_string()) } else { print_line(text.as_ref()) }
    }

    /// Names where something was written, on its own line at the end.
    pub fn wrote(&self, what: &str, path: &Path) {
        self.say(format!("{what}: {}", path.display()));
    }
}

/// Prints to standard output; a closed pipe ends the program quietly, as it should in `etalon … | head`.
fn print_line(text: &str) {
    use std::io::Write;
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Prints an error for a person or a program, and says which exit code it is.
pub fn report_failure(error: &Error, json: bool) -> ExitCode {
    let code: u8 = match error {
        Error::Cancelled => 130,
        error if error.is_input() => 2,
        _ => 1,
    };
    if json {
        print_line(&json!({"error": message(error), "exit_code": code}).to_string());
    }
    eprintln!("error: {}", message(error));
    ExitCode::from(code)
}

/// The message of an error, with inputs and parameters as options.
pub fn message(error: &Error) -> String {
    error.text(|key| format!("`--{}`", key.replace('_', "-")))
}

fn parse_size(text: &str) -> Result<u64> {
    let lower = text.trim().to_lowercase();
    let digits = lower.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(lower.len());
    let scale = match lower[digits..].trim() {
        "" | "b" => Some(1u64),
        "k" | "kb" => Some(1000),
        "m" | "mb" => Some(1_000_000),
        "g" | "gb" => Some(1_000_000_000),
        "t" | "tb" => Some(1_000_000_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1 << 30),
        _ => None,
    };
    let number = lower[..digits].parse::<f64>().ok().filter(|number| *number > 0.0);
    number.zip(scale).map(|(number, scale)| (number * scale as f64) as u64).ok_or_else(|| {
        InputError::new("`--memory` is not a size")
            .expected("a number with a unit, such as 500MB or 2GB")
            .found(text)
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("2GB").unwrap(), 2_000_000_000);
        assert_eq!(parse_size("1.5 kib").unwrap(), 1536);
        assert!(parse_size("much").is_err() && parse_size("-1GB").is_err() && parse_size("0").is_err());
    }
}
