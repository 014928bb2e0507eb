//! The error type, in three families: wrong input, a failure of the machine, and a bug of this program.
//!
//! An input error states what is wrong, what was expected and found, where, and how to fix it. The file comes last,
//! because paths may be private.

mod closest;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

pub use closest::closest;
pub use words::{Command, Key, Word};
use words::{plain, write_words};

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error of this library.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The data or the request is wrong.
    Input(Box<InputError>),
    /// An operation of the operating system failed.
    Io {
        /// The failed operation as a verb phrase, such as "read the manifest".
        doing: &'static str,
        /// The file or directory.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The memory limit is too low.
    Memory {
        /// The purpose of the memory.
        what: String,
        /// Bytes requested.
        needed: u64,
        /// Bytes left.
        left: u64,
    },
    /// The user cancelled.
    Cancelled,
    /// Ends the function of a metric when a stage has no result in this process; never reaches a user.
    Stopped,
    /// An invariant of this program is violated; input cannot cause this.
    Bug(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(plain))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// Adds the failed operation and the file to an operating-system error.
    pub fn io(doing: &'static str, file: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let file = file.to_path_buf();
        move |source| Error::Io { doing, file, source }
    }

    /// The message, with every [`Key`] and [`Command`] formatted by `write`.
    pub fn text(&self, write: impl Fn(Word<'_>) -> String) -> String {
        let message = match self {
            Error::Input(input) => input.delimited(),
            Error::Io { doing, file, source } => format!("could not {doing}: {source}\n  file: {}", file.display()),
            Error::Memory { what, needed, left } => format!(
                "not enough memory for {what}\n  needed: {}\n  left in the budget: {}\n  help: raise {}, or use a smaller input",
                Size(*needed),
                Size(*left),
                Key("memory")
            ),
            Error::Cancelled => "cancelled; finished work was saved, rerun to resume".into(),
            Error::Stopped => "stopped".into(),
            Error::Bug(what) => format!("internal error, please report it: {what}"),
        };
        write_words(&message, write)
    }

    /// Whether the user can fix it: true for all but bugs and cancellation.
    pub fn is_input(&self) -> bool {
        matches!(self, Error::Input(_) | Error::Memory { .. } | Error::Io { .. })
    }
}

/// An input error: what is wrong, and details that help to fix it. Build it with a chain of methods.
#[derive(Debug, Default)]
pub struct InputError {
    what: String,
    expected: Option<String>,
    found: Option<String>,
    position: Option<String>,
    advice: Option<String>,
    missing: Vec<&'static str>,
    file: Option<PathBuf>,
}

impl InputError {
    /// States what is wrong: one sentence, in lower case and without a full stop.
    pub fn new(what: impl fmt::Display) -> InputError {
        InputError { what: what.to_string(), ..InputError::default() }
    }

    /// What was expected.
    pub fn expected(mut self, expected: impl fmt::Display) -> InputError {
        self.expected = Some(expected.to_string());
        self
    }

    /// What was found instead.
    pub fn found(mut self, found: impl fmt::Display) -> InputError {
        self.found = Some(found.to_string());
        self
    }

    /// The position in the file: a line, a row and column, a byte, a key.
    pub fn at(mut self, position: impl fmt::Display) -> InputError {
        self.position = Some(position.to_string());
        self
    }

    /// How to fix it.
    pub fn advice(mut self, advice: impl fmt::Display) -> InputError {
        self.advice = Some(advice.to_string());
        self
    }

    /// Lists the known names as expected, and asks whether the one closest to `name` was meant.
    pub fn one_of(mut self, name: &str, known: &[&str]) -> InputError {
        self.expected = Some(known.join(", "));
        if let Some(meant) = closest(name, known.iter().copied()) {
            let advice = self.advice.map_or(String::new(), |advice| format!(" {advice}"));
            self.advice = Some(format!("did you mean `{meant}`?{advice}"));
        }
        self
    }

    /// The key of a missing input; the message advises to add it.
    pub fn needs(mut self, key: &'static str) -> InputError {
        self.missing.push(key);
        self
    }

    /// The file. The first call, which is that of the innermost caller, wins.
    pub fn file(mut self, file: &Path) -> InputError {
        self.file.get_or_insert_with(|| file.to_path_buf());
        self
    }
}

impl InputError {
    /// What is wrong, and the details by name: `what`, `expected`, `found`, `at`, `help`, `file`; every [`Key`] and
    /// [`Command`] formatted by `write`.
    pub fn details(&self, write: impl Fn(Word<'_>) -> String) -> Vec<(&'static str, String)> {
        let what = std::iter::once(("what", self.what.clone()));
        what.chain(self.lines()).map(|(name, text)| (name, write_words(&text, &write))).collect()
    }

    /// The message, with [`Key`]s and [`Command`]s still delimited.
    fn delimited(&self) -> String {
        let lines = self.lines().into_iter().map(|(name, text)| format!("\n  {name}: {text}"));
        self.what.clone() + &lines.collect::<String>()
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let add = (!self.missing.is_empty()).then(|| {
            format!("add {}", self.missing.iter().map(|key| Key(key).to_string()).collect::<Vec<_>>().join(", "))
        });
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let lines = [
            ("expected", &self.expected),
            ("found", &self.found),
            ("at", &self.position),
            ("help", &self.advice),
            ("help", &add),
            ("file", &file),
        ];
        lines.into_iter().filter_map(|(name, text)| text.clone().map(|text| (name, text))).collect()
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write_words(&self.delimited(), plain))
    }
}

impl std::error::Error for InputError {}

impl From<InputError> for Error {
    fn from(input: InputError) -> Error {
        Error::Input(Box::new(input))
    }
}

impl From<etalon_kernel::monitor::Cancelled> for Error {
    fn from(_: etalon_kernel::monitor::Cancelled) -> Error {
        Error::Cancelled
    }
}

impl From<etalon_kernel::umap::UmapError> for Error {
    fn from(failure: etalon_kernel::umap::UmapError) -> Error {
        use etalon_kernel::umap::UmapError;
        match failure {
            UmapError::Cancelled(cancelled) => cancelled.into(),
            UmapError::Invalid { what, expected, found } => {
                InputError::new(format!("{what} out of range")).expected(expected).found(found).into()
            }
        }
    }
}

/// Adds the file to an input error that does not name one yet.
pub trait InFile<T> {
    /// See [`InputError::file`].
    fn in_file(self, file: &Path) -> Result<T>;
}

impl<T> InFile<T> for Result<T> {
    fn in_file(self, file: &Path) -> Result<T> {
        self.map_err(|error| match error {
            Error::Input(input) => input.file(file).into(),
            other => other,
        })
    }
}

/// A number of bytes in a readable unit, such as `2.5 GB`.
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1000.0 && unit + 1 < units.len() {
            value /= 1000.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {}", units[unit]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_all_parts() {
        let error: Error = InputError::new("labels and codes differ in rows")
            .expected("400 rows")
            .found("399 rows")
            .advice("export both from the same split")
            .file(Path::new("labels.csv"))
            .into();
        assert_eq!(
            error.to_string(),
            "labels and codes differ in rows\n  expected: 400 rows\n  found: 399 rows\n  help: export both from the same split\n  file: labels.csv"
        );
    }

    #[test]
    fn keys_and_commands_are_formatted_by_the_program() {
        let input = InputError::new(format!("{} is too large", Key("value_range"))).advice(format!(
            "lower {}; {} lists all",
            Key("k"),
            Command("metrics")
        ));
        let error: Error = input.needs("sae").into();
        assert_eq!(
            error.to_string(),
            "`value_range` is too large\n  help: lower `k`; the command `metrics` lists all\n  help: add `sae`"
        );
        let typed = |word: Word<'_>| match word {
            Word::Key(key) => format!("--{}", key.replace('_', "-")),
            Word::Command(name) => format!("etalon {name}"),
        };
        assert_eq!(
            error.text(typed),
            "--value-range is too large\n  help: lower --k; etalon metrics lists all\n  help: add --sae"
        );
    }

    #[test]
    fn the_innermost_file_wins() {
        let inner: Result<()> = Err(InputError::new("bad").file(Path::new("a")).into());
        assert!(inner.in_file(Path::new("b")).unwrap_err().to_string().ends_with("file: a"));
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(Size(999).to_string(), "999 B");
        assert_eq!(Size(2_500_000_000).to_string(), "2.5 GB");
    }
}
