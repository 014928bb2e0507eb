//! What can go wrong, in three families: *your input*, *the machine*, *our bug*.
//!
//! A message is read by a person who wants to continue working, so an input error always says what is wrong, what was
//! expected and found, where, and what to do. The file comes last, because paths may be private.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything in this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller's data or request is wrong.
    #[error(transparent)]
    Input(Box<InputError>),
    /// The operating system said no.
    #[error("could not {doing}: {source}\n  file: {}", file.display())]
    Io {
        /// The verb phrase that failed, such as "read the manifest".
        doing: &'static str,
        /// The file or directory that was touched.
        file: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// The memory budget does not allow it.
    #[error(
        "not enough memory for {what}\n  needed: {}\n  left in the budget: {}\n  help: raise --memory, or use a smaller input",
        Size(*needed), Size(*left)
    )]
    Memory {
        /// What the memory was wanted for.
        what: String,
        /// Bytes asked for.
        needed: u64,
        /// Bytes left.
        left: u64,
    },
    /// The user asked to stop.
    #[error("cancelled; finished work was saved, rerun to resume")]
    Cancelled,
    /// Ends a metric's function when a stage gives no result here; never reaches a user.
    #[error("stopped")]
    Stopped,
    /// A promise of ours is broken; a user cannot cause this.
    #[error("internal error, please report it: {0}")]
    Bug(String),
}

impl Error {
    /// Wraps an operating-system error with what was being done, and to which file.
    pub fn io(doing: &'static str, file: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let file = file.to_path_buf();
        move |source| Error::Io { doing, file, source }
    }

    /// True when the user, not this program, has to act.
    pub fn is_input(&self) -> bool {
        matches!(self, Error::Input(_) | Error::Memory { .. } | Error::Io { .. })
    }
}

/// An input error under construction: what is wrong, then whatever helps to mend it.
#[derive(Debug, Default)]
pub struct InputError {
    what: String,
    expected: Option<String>,
    found: Option<String>,
    place: Option<String>,
    advice: Option<String>,
    missing: Vec<&'static str>,
    file: Option<PathBuf>,
}

impl InputError {
    /// Starts with one sentence, in lower case and without a full stop, that says what is wrong.
    pub fn new(what: impl fmt::Display) -> InputError {
        InputError { what: what.to_string(), ..InputError::default() }
    }

    /// What would have been right.
    pub fn expected(mut self, expected: impl fmt::Display) -> InputError {
        self.expected = Some(expected.to_string());
        self
    }

    /// What was there instead.
    pub fn found(mut self, found: impl fmt::Display) -> InputError {
        self.found = Some(found.to_string());
        self
    }

    /// The place inside the file: a line, a row and column, a byte, a key.
    pub fn at(mut self, place: impl fmt::Display) -> InputError {
        self.place = Some(place.to_string());
        self
    }

    /// What to do about it.
    pub fn advice(mut self, advice: impl fmt::Display) -> InputError {
        self.advice = Some(advice.to_string());
        self
    }

    /// The input that is missing, by its key: programs say how it is given.
    pub fn needs(mut self, key: &'static str) -> InputError {
        self.missing.push(key);
        self
    }

    /// The keys of missing inputs, if that is what is wrong.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// The file it is in. The innermost caller that knows it wins.
    pub fn file(mut self, file: &Path) -> InputError {
        self.file.get_or_insert_with(|| file.to_path_buf());
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        let lines = [("expected", &self.expected), ("found", &self.found), ("at", &self.place), ("help", &self.advice)];
        for (name, text) in lines {
            if let Some(text) = text {
                write!(f, "\n  {name}: {text}")?;
            }
        }
        match &self.file {
            Some(file) => write!(f, "\n  file: {}", file.display()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for InputError {}

impl From<InputError> for Error {
    fn from(complaint: InputError) -> Error {
        Error::Input(Box::new(complaint))
    }
}

impl From<etalon_kernel::monitor::Cancelled> for Error {
    fn from(_: etalon_kernel::monitor::Cancelled) -> Error {
        Error::Cancelled
    }
}

impl From<etalon_kernel::umap::Failure> for Error {
    fn from(failure: etalon_kernel::umap::Failure) -> Error {
        use etalon_kernel::umap::Failure;
        match failure {
            Failure::Cancelled(cancelled) => cancelled.into(),
            Failure::Invalid { what, expected, found } => {
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
            Error::Input(complaint) => complaint.file(file).into(),
            other => other,
        })
    }
}

/// A number of bytes for people.
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
    fn a_complaint_reads_like_a_letter() {
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
