//! The one Python expression that the gate reads: the dictionary at the start of a numpy array.
//!
//! A general reader of Python literals nests as deep as the file likes and overflows the stack. This one knows the
//! three keys that numpy writes and does not nest at all.

use crate::error::{InputError, Result};

/// What the dictionary says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// The type of an element, such as `<f4`.
    pub descr: String,
    /// True when the first index changes fastest.
    pub fortran: bool,
    /// The dimensions.
    pub dimensions: Vec<usize>,
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` with its padding.
pub(super) fn description(text: &str) -> Result<Description> {
    let mut at = Cursor { text, place: 0 };
    let (mut descr, mut fortran, mut dimensions) = (None, None, None);
    at.expect('{')?;
    while !at.accept('}') {
        let key = at.string()?;
        at.expect(':')?;
        let again = match key {
            "descr" => descr.replace(at.descr()?).is_some(),
            "fortran_order" => fortran.replace(at.truth()?).is_some(),
            "shape" => dimensions.replace(at.tuple()?).is_some(),
            _ => return Err(at.complaint("the header has a key that numpy does not write").found(key).into()),
        };
        if again {
            return Err(at.complaint("the header has a key twice").found(key).into());
        }
        if !at.accept(',') {
            at.expect('}')?;
            break;
        }
    }
    if !at.rest().trim().is_empty() {
        return Err(at.complaint("the header goes on after its end").into());
    }
    match (descr, fortran, dimensions) {
        (Some(descr), Some(fortran), Some(dimensions)) => Ok(Description { descr, fortran, dimensions }),
        _ => Err(at.complaint("the header lacks a key").expected("descr, fortran_order and shape").into()),
    }
}

struct Cursor<'a> {
    text: &'a str,
    place: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.place..).unwrap_or("")
    }

    fn complaint(&self, what: &str) -> InputError {
        InputError::new(what).at(format!("character {} of the header", self.place))
    }

    /// Passes a character, if it is the next one after spaces.
    fn accept(&mut self, wanted: char) -> bool {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let found = trimmed.starts_with(wanted);
        if found {
            self.place += rest.len() - trimmed.len() + wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.accept(wanted) {
            return Ok(());
        }
        let found: String = self.rest().chars().take(12).collect();
        Err(self.complaint("the header is not what numpy writes").expected(wanted).found(format!("{found:?}")).into())
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.accept('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect('\'')?;
        }
        let rest = self.rest();
        let end = rest.find([quote, '\\']).filter(|&end| rest[end..].starts_with(quote));
        let end = end.ok_or_else(|| self.complaint("a string in the header does not end"))?;
        self.place += end + 1;
        Ok(&rest[..end])
    }

    fn descr(&mut self) -> Result<String> {
        match self.rest().trim_start().chars().next() {
            Some('[' | '(') => Err(self
                .complaint("the array is structured: its elements are records")
                .expected("one kind of number")
                .advice("save one field of it as an array of its own")
                .into()),
            _ => Ok(self.string()?.to_string()),
        }
    }

    fn truth(&mut self) -> Result<bool> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if trimmed.starts_with(word) {
                self.place += rest.len() - trimmed.len() + word.len();
                return Ok(value);
            }
        }
        Err(self.complaint("the header does not say the order").expected("True or False").into())
    }

    fn tuple(&mut self) -> Result<Vec<usize>> {
        self.expect('(')?;
        let mut sizes = Vec::new();
        while !self.accept(')') {
            sizes.push(self.size()?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn size(&mut self) -> Result<usize> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let end = trimmed.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(trimmed.len());
        let digits = &trimmed[..end];
        let size = digits.parse().map_err(|_| {
            let found: String = trimmed.chars().take(24).collect();
            self.complaint("a dimension in the header is not a size").found(format!("{found:?}"))
        })?;
        self.place += rest.len() - trimmed.len() + end;
        // Python 2 wrote long integers with an L.
        self.accept('L');
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_numpy_writes_is_read() {
        let read = description("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }    \n").unwrap();
        assert_eq!(read, Description { descr: "<f4".into(), fortran: false, dimensions: vec![3, 4] });
        let read = description("{\"shape\":(7L,),\"fortran_order\":True,\"descr\":\"|b1\"}").unwrap();
        assert_eq!(read, Description { descr: "|b1".into(), fortran: true, dimensions: vec![7] });
        assert_eq!(
            description("{'descr': '<f8', 'fortran_order': False, 'shape': ()}").unwrap().dimensions,
            Vec::<usize>::new()
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
        for end in 0..good.len() {
            assert!(description(&good[..end]).is_err(), "{end}");
        }
        for bad in [
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': ((3,),)}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} 7",
            "{'descr': 'a\\'b', 'fortran_order': False, 'shape': (3,)}",
        ] {
            assert!(description(bad).is_err(), "{bad}");
        }
        assert!(description(&"{(".repeat(500_000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[{}()',:\\\\ \"a-zA-Z0-9é]{0,80}") {
            let _ = description(&text);
        }
    }
}
