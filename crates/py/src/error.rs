//! Errors of the library as exceptions of Python.

use etalon::error::{Error, Result, Word};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

/// Inputs and parameters as Python names them, commands as a shell does.
fn written(word: Word<'_>) -> String {
    match word {
        Word::Key(key) => format!("`{}`", key.replace('-', "_")),
        Word::Command(name) => format!("`etalon {name}`"),
    }
}

/// The exception for an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let text = error.text(written);
    match error {
        Error::Input(input) => {
            let raised = py.import("etalon._errors").and_then(|module| {
                let details = input.details(written).into_iter().collect::<Vec<_>>();
                module.getattr("InputError")?.call1((text, details))
            });
            raised.map_or_else(|failed| failed, PyErr::from_value)
        }
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, text)),
            None => PyOSError::new_err(text),
        },
        Error::Memory { .. } => PyMemoryError::new_err(text),
        Error::Cancelled => PyKeyboardInterrupt::new_err(()),
        _ => PyRuntimeError::new_err(text),
    }
}

/// The result as Python takes it.
pub fn raised<T>(py: Python<'_>, result: Result<T>) -> PyResult<T> {
    result.map_err(|error| exception(py, &error))
}
