//! The footer of a parquet file, checked before the parquet crate parses it.
//!
//! The crate allocates by the number of children that a schema element states, and recurses for each level of nesting.
//! So the schema is checked first, and the type of every field that the crate knows.

use super::file::Regular;
use super::parquet_thrift::{CHILDREN, ELEMENT, FILE, LIST, STRUCT, Thrift};
use crate::error::{InputError, Result};

/// Maximum length of a footer in bytes.
const LONGEST_FOOTER: u64 = 1 << 26;

/// Maximum nesting of the schema. Columns of arrays and tables nest three deep; other columns may nest deeper.
const DEEPEST_SCHEMA: usize = 32;

/// Refuses a file whose footer would make the reader run out of memory or stack.
pub(super) fn check(file: &mut Regular) -> Result<()> {
    let wrong = |what: &str| InputError::new(what).advice("copy or write the file again");
    if file.length < 12 {
        return Err(wrong("the parquet file ends too early")
            .expected("at least 12 bytes")
            .found(format!("{} bytes", file.length))
            .into());
    }
    let mut end = [0; 8];
    file.read_at(file.length - 8, &mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    if magic != *b"PAR1" {
        return Err(wrong("the file is not a complete parquet file")
            .expected("PAR1 at the end")
            .found(format!("\"{}\"", magic.escape_ascii()))
            .into());
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let longest = LONGEST_FOOTER.min(file.length - 12);
    if length > longest {
        return Err(wrong("the footer of the parquet file is too long")
            .expected(format!("at most {longest} bytes"))
            .found(format!("{length} bytes"))
            .into());
    }
    let mut footer = vec![0; length as usize];
    file.read_at(file.length - 8 - length, &mut footer)?;
    check_footer(&footer).ok_or_else(|| wrong("the footer of the parquet file is invalid").into())
}

/// `None` if the bytes are not a footer.
fn check_footer(bytes: &[u8]) -> Option<()> {
    let mut footer = Thrift { bytes };
    let (mut number, mut has_schema) = (0, false);
    while let Some((next, kind)) = footer.field(number)? {
        number = next;
        match FILE.iter().find(|(number, _)| *number == next) {
            Some((_, encoded)) => footer.known(kind, encoded)?,
            None if number == SCHEMA => {
                (kind == LIST).then_some(())?;
                check_schema(&mut footer)?;
                has_schema = true;
            }
            None => footer.skip(kind, 0)?,
        }
    }
    has_schema.then_some(())
}

/// Checks the schema: its elements come in depth-first order, each with the number of its children.
fn check_schema(footer: &mut Thrift<'_>) -> Option<()> {
    let (kind, count) = footer.list()?;
    if kind != STRUCT {
        return None;
    }
    let mut missing: Vec<u64> = vec![1];
    for index in 0..count {
        let mut children = 0;
        footer.structure(ELEMENT, &mut |number, value| {
            if number == CHILDREN {
                children = value;
            }
        })?;
        let children = u64::try_from(children).ok().filter(|children| *children <= count - index)?;
        *missing.last_mut()? = missing.last()?.checked_sub(1)?;
        if children > 0 {
            missing.push(children);
        }
        if missing.len() > DEEPEST_SCHEMA {
            return None;
        }
        while missing.last() == Some(&0) {
            missing.pop();
        }
    }
    missing.is_empty().then_some(())
}

/// The field of the footer that holds the schema.
const SCHEMA: i64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer with only a schema; an element is given by its number of children.
    fn footer(elements: &[u64]) -> Vec<u8> {
        let varint = |mut value: u64| {
            let mut bytes = Vec::new();
            while value > 0x7f {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
            bytes
        };
        let mut bytes = vec![0x29, 0xfc];
        bytes.extend(varint(elements.len() as u64));
        for &children in elements {
            bytes.push(0x55);
            bytes.extend(varint(children << 1));
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn schemas_are_trees_of_bounded_depth() {
        let check = |elements: &[u64]| check_footer(&footer(elements)).is_some();
        assert!(check(&[2, 0, 0]));
        assert!(check(&[2, 1, 1, 0, 0]));
        assert!(!check(&[3, 0, 0]));
        assert!(!check(&[1, 0, 0]));
        assert!(!check(&[1 << 31, 0]));
        assert!(!check(&[vec![1; 100], vec![0]].concat()));
        let good = footer(&[2, 1, 0, 0]);
        for end in 0..good.len() {
            assert!(check_footer(&good[..end]).is_none());
        }
    }

    #[test]
    fn fields_must_have_their_type() {
        let check = |more: &[u8]| {
            let mut bytes = footer(&[1, 0]);
            bytes.pop();
            check_footer(&[&bytes[..], more, &[0]].concat()).is_some()
        };
        // The version is an integer and may come after the schema.
        assert!(check(&[0x05, 0x02, 0x02]));
        assert!(!check(&[0x08, 0x02, 0x00]));
        // Field 100 is unknown: lists of bytes are skipped, booleans and maps are refused.
        assert!(check(&[0x09, 0xc8, 0x01, 0x23, 7, 7]));
        assert!(!check(&[0x09, 0xc8, 0x01, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07]));
        assert!(!check(&[0x09, 0xc8, 0x01, 0x21, 1, 1]));
        assert!(!check(&[0x0b, 0xc8, 0x01, 0x01, 0x11]));
        // 65538 is 2 in 16 bits.
        assert!(!check(&[0x05, 0x84, 0x80, 0x08, 0x02]));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = check_footer(&bytes);
            let _ = check_footer(&[&[0x29][..], &bytes].concat());
            let _ = check_footer(&[&footer(&[1, 0])[..9], &bytes].concat());
        }
    }
}
