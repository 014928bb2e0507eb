//! The environment of a command: threads, memory, progress, Ctrl-C, and all printing.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use etalon::context::{Budget, Context, address_space_left};
use etalon::error::{Error, InputError, Result, Size, Word};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bar::Bar;
use crate::cli::Common;

/// The environment of a command.
#[derive(Clone)]
pub struct Console {
    /// Threads, memory, progress, cancellation.
    pub context: Context,
    bar: Arc<Bar>,
    quiet: bool,
    json: bool,
    /// The global options, for processes that do a part of the work.
    options: Vec<String>,
}

/// Every thread has a stack, so a typo could exhaust the machine.
const MAX_THREADS: usize = 1024;

impl Console {
    /// Reads the global options and installs the Ctrl-C handler.
    pub fn new(common: &Common) -> Result<Console> {
        let budget = match &common.memory {
            Some(text) => Budget::new(within_address_space(parse_size("--memory", text)?)?),
            None => Budget::of_machine(),
        };
        let threads = common.threads.unwrap_or(0);
        if threads > MAX_THREADS {
            return Err(InputError::new(format!("`--threads` must be at most {MAX_THREADS}"))
                .expected("a number of threads; 0 for one per core")
                .found(threads)
                .into());
        }
        let bar = Arc::new(Bar::new(common.quiet || common.json));
        let context = Context::new(threads, budget, bar.clone())?;
        // The first Ctrl-C stops after the current unit of work, the second at once.
        let shared = context.clone();
        let handler = ctrlc::set_handler(move || {
            if shared.cancel() {
                std::process::exit(130);
            }
        });
        handler.map_err(|error| Error::Bug(format!("cannot listen for Ctrl-C: {error}")))?;
        let mut options = Vec::new();
        options.extend(common.threads.map(|threads| format!("--threads={threads}")));
        options.extend(common.memory.as_ref().map(|memory| format!("--memory={memory}")));
        options.extend((common.quiet || common.json).then(|| "--quiet".to_string()));
        Ok(Console { context, bar, quiet: common.quiet, json: common.json, options })
    }

    /// The global options of this command, as another process of the program takes them.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Whether nothing but errors and the result is printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.json
    }

    /// The memory limit.
    pub fn budget(&self) -> &Budget {
        self.context.budget()
    }

    /// Prints a status message to standard error; silent with `--quiet` and `--json`.
    pub fn status(&self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            self.bar.line(text.as_ref());
        }
    }

    /// Prints what was left out or failed to standard error, also with `--quiet` and `--json`.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.bar.line(text.as_ref());
    }

    /// Prints the result to standard output: text, or JSON with `--json`.
    pub fn print(&self, text: impl AsRef<str>, json: impl FnOnce() -> Value) -> Result<()> {
        if self.json { print_line(&json().to_string()) } else { print_line(text.as_ref()) }
    }

    /// Prints a text, or a value as JSON, which is written piece by piece.
    pub fn print_value(&self, text: impl AsRef<str>, value: &impl Serialize) -> Result<()> {
        if !self.json {
            return print_line(text.as_ref());
        }
        let mut out = BufWriter::new(std::io::stdout().lock());
        let written = serde_json::to_writer(&mut out, value).map_err(std::io::Error::from);
        printed(written.and_then(|()| writeln!(out)).and_then(|()| out.flush()))
    }

    /// Prints where a file was written.
    pub fn wrote(&self, what: &str, path: &Path) {
        self.status(format!("{what}: {}", path.display()));
    }
}

/// Prints to standard output.
pub fn print_line(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    printed(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// The outcome of writing to standard output. A closed pipe, as in `etalon … | head`, is not an error: the reader has stopped.
pub fn printed(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("write the result", Path::new("standard output"))(error))
        }
        _ => Ok(()),
    }
}

/// Prints an error and returns its exit code.
pub fn report_failure(error: &Error, json: bool) -> ExitCode {
    let code: u8 = match error {
        Error::Cancelled => 130,
        error if error.is_input() => 2,
        _ => 1,
    };
    if json {
        // The message on standard error and the exit code remain if this fails too.
        let _ = print_line(&json!({"error": message(error), "exit_code": code}).to_string());
    }
    eprintln!("error: {}", message(error));
    ExitCode::from(code)
}

/// The message of an error, with inputs, parameters and commands written as on the command line.
pub fn message(error: &Error) -> String {
    error.text(|word| match word {
        Word::Key(key) => format!("`--{}`", key.replace('_', "-")),
        Word::Command(name) => format!("`etalon {name}`"),
    })
}

/// Refuses a memory limit above what the system lets this process use.
fn within_address_space(bytes: u64) -> Result<u64> {
    match address_space_left() {
        Some(left) if bytes > left => Err(InputError::new("`--memory` is more than the system allows")
            .expected(format!("at most {}, what `ulimit -v` leaves", Size(left)))
            .found(Size(bytes))
            .advice("lower `--memory`, or raise the limit with `ulimit -v unlimited`")
            .into()),
        _ => Ok(bytes),
    }
}

/// A size in bytes, such as `2GB`; `option` is named in the error.
pub fn parse_size(option: &str, text: &str) -> Result<u64> {
    let lower = text.trim().to_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
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
        InputError::new(format!("`{option}` is not a size"))
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
        let parse_size = |text| parse_size("--memory", text);
        assert_eq!(parse_size("2GB").unwrap(), 2_000_000_000);
        assert_eq!(parse_size("1.5 kib").unwrap(), 1536);
        assert!(parse_size("much").is_err() && parse_size("-1GB").is_err() && parse_size("0").is_err());
    }
}
