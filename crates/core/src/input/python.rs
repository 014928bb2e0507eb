//! The header of a numpy array, which is a Python dictionary.
//!
//! A general parser of Python literals recurses as deep as the file nests, and overflows the stack. This one knows the
//! three keys that numpy writes and does not recurse.

use crate::error::{InputError, Result};

/// The entries of the dictionary.
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
    let mut cursor = Cursor { text, offset: 0 };
    let (mut descr, mut fortran, mut dimensions) = (None, None, None);
    cursor.expect('{')?;
    while !cursor.accept('}') {
        let key = cursor.string()?;
        cursor.expect(':')?;
        let repeated = match key {
            "descr" => descr.replace(cursor.descr()?).is_some(),
            "fortran_order" => fortran.replace(cursor.truth()?).is_some(),
            "shape" => dimensions.replace(cursor.tuple()?).is_some(),
            _ => {
                return Err(cursor
                    .error("unknown key in the numpy header")
                    .expected("descr, fortran_order and shape")
                    .found(key)
                    .into());
            }
        };
        if repeated {
            return Err(cursor.error("a key appears twice in the numpy header").found(key).into());
        }
        if !cursor.accept(',') {
            cursor.expect('}')?;
            break;
        }
    }
    if !cursor.rest().trim().is_empty() {
        return Err(cursor.error("the numpy header has text after its closing brace").into());
    }
    match (descr, fortran, dimensions) {
        (Some(descr), Some(fortran), Some(dimensions)) => Ok(Description { descr, fortran, dimensions }),
        _ => {
            Err(cursor.error("a key is missing in the numpy header").expected("descr, fortran_order and shape").into())
        }
    }
}

struct Cursor<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or("")
    }

    fn error(&self, what: &str) -> InputError {
        InputError::new(what)
            .at(format!("character {} of the header", self.offset))
            .advice("the file is damaged or not a numpy array; save it again with numpy.save")
    }

    /// Consumes a character if it is the next one after spaces.
    fn accept(&mut self, expected: char) -> bool {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let found = trimmed.starts_with(expected);
        if found {
            self.offset += rest.len() - trimmed.len() + expected.len_utf8();
        }
        found
    }

    fn expect(&mut self, expected: char) -> Result<()> {
        if self.accept(expected) {
            return Ok(());
        }
        let found: String = self.rest().chars().take(12).collect();
        Err(self.error("invalid numpy header").expected(format!("`{expected}`")).found(format!("{found:?}")).into())
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.accept('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect('\'')?;
        }
        let rest = self.rest();
        let end = rest.find([quote, '\\']).filter(|&end| rest[end..].starts_with(quote));
        let end = end.ok_or_else(|| self.error("a string in the numpy header has no end"))?;
        self.offset += end + 1;
        Ok(&rest[..end])
    }

    fn descr(&mut self) -> Result<String> {
        match self.rest().trim_start().chars().next() {
            Some('[' | '(') => Err(self
                .error("the numpy array is structured: its elements are records")
                .expected("numbers of one type")
                .advice("save each field as a separate array, such as a['field']")
                .into()),
            _ => Ok(self.string()?.to_string()),
        }
    }

    fn truth(&mut self) -> Result<bool> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if trimmed.starts_with(word) {
                self.offset += rest.len() - trimmed.len() + word.len();
                return Ok(value);
            }
        }
        Err(self.error("invalid `fortran_order` in the numpy header").expected("True or False").into())
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
        let end = trimmed.find(|character: char| !character.is_ascii_digit()).unwrap_or(trimmed.len());
        let digits = &trimmed[..end];
        let size = digits.parse().map_err(|_| {
            let found: String = trimmed.chars().take(24).collect();
            self.error("invalid dimension in the numpy header")
                .expected("a whole number from 0")
                .found(format!("{found:?}"))
        })?;
        self.offset += rest.len() - trimmed.len() + end;
        // Python 2 wrote long integers with an L.
        self.accept('L');
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_numpy_are_read() {
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
    fn other_headers_are_refused() {
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
