//! Words of a message that programs write in different ways: keys of inputs and parameters, and names of commands.

use std::fmt;

/// An input or parameter in a message, by its key in study files and, if wanted, a value. `Display` of an error writes `` `latents` ``; a
/// program can write what its users type, such as `` `--latents` ``, with [`super::Error::text`].
pub struct Key<T>(pub T);

/// A command in a message, by its name and, if wanted, arguments. `Display` of an error writes "the command `encode`"; a program can
/// write what its users type, with [`super::Error::text`].
pub struct Command<T>(pub T);

/// A [`Key`] or [`Command`] of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// The key of an input or parameter.
    Key(&'a str),
    /// The name of a command.
    Command(&'a str),
}

/// A word in a message of the library.
pub(super) fn plain(word: Word<'_>) -> String {
    match word {
        Word::Key(key) => format!("`{key}`"),
        Word::Command(name) => format!("the command `{name}`"),
    }
}

// Delimiters inside an unfinished message: private-use characters, which no other text contains.
const KEY: char = '\u{E000}';
const COMMAND: char = '\u{E001}';
const END: char = '\u{E002}';

impl<T: fmt::Display> fmt::Display for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY}{}{END}", self.0)
    }
}

impl<T: fmt::Display> fmt::Display for Command<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COMMAND}{}{END}", self.0)
    }
}

/// Replaces the delimited words of a message by `write`.
pub(super) fn write_words(text: &str, write: impl Fn(Word<'_>) -> String) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find([KEY, COMMAND]) {
        let (before, word) = rest.split_at(start);
        let (name, after) = word.split_once(END).unwrap_or((word, ""));
        written += before;
        written += &match name.strip_prefix(KEY) {
            Some(key) => write(Word::Key(key)),
            None => write(Word::Command(name.trim_start_matches(COMMAND))),
        };
        rest = after;
    }
    written + rest
}
