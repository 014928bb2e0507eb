//! The footer of a parquet file, walked before its reader sees it.
//!
//! The reader reserves memory by the number of children that a schema element claims, and calls itself for each level
//! of nesting. So the schema is checked first: its list is found by stepping over the fields of Thrift's compact
//! encoding, and nothing else is understood here.

use super::file::Regular;
use crate::error::{Complaint, Result};

/// Longer footers than this are not those of an array or a table.
const LONGEST_FOOTER: u64 = 1 << 26;

/// Columns of arrays and tables nest at most three deep; a few more for files with other columns beside them.
const DEEPEST_SCHEMA: usize = 32;

/// Structures in structures that are stepped over.
const DEEPEST_FIELD: usize = 32;

/// Refuses a file whose footer would make the reader run out of memory or stack.
pub(super) fn check(file: &mut Regular) -> Result<()> {
    let wrong = |what: &str| Complaint::new(what).advice("copy or write the file again");
    if file.length < 12 {
        return Err(wrong("the parquet file ends too early").expected("at least 12 bytes").found(file.length).into());
    }
    let mut end = [0; 8];
    file.read_at(file.length - 8, &mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    if magic != *b"PAR1" {
        return Err(wrong("this is not a whole parquet file")
            .expected("PAR1 at the end")
            .found(format!("\"{}\"", magic.escape_ascii()))
            .into());
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let longest = LONGEST_FOOTER.min(file.length - 12);
    if length > longest {
        return Err(wrong("the footer of the parquet file is too long")
            .expected(format!("at most {longest} bytes"))
            .found(length)
            .into());
    }
    let mut footer = vec![0; length as usize];
    file.read_at(file.length - 8 - length, &mut footer)?;
    Footer { bytes: &footer }.check_schema().ok_or_else(|| wrong("the schema of the parquet file is wrong").into())
}

/// What is left of the footer. Every step says `None` when the bytes make no sense.
struct Footer<'a> {
    bytes: &'a [u8],
}

impl Footer<'_> {
    fn check_schema(&mut self) -> Option<()> {
        let mut number = 0;
        while let Some((next, kind)) = self.field(number)? {
            number = next;
            if number == 2 && kind == LIST {
                return self.schema();
            }
            self.skip(kind, 0)?;
        }
        None
    }

    /// The elements of the schema come in the order of a walk from the root; each says how many children follow.
    fn schema(&mut self) -> Option<()> {
        let (kind, count) = self.list()?;
        if kind != STRUCT {
            return None;
        }
        let mut waiting: Vec<u64> = vec![1];
        for place in 0..count {
            let children = self.element()?;
            if children > count - place {
                return None;
            }
            *waiting.last_mut()? = waiting.last()?.checked_sub(1)?;
            if children > 0 {
                waiting.push(children);
            }
            if waiting.len() > DEEPEST_SCHEMA {
                return None;
            }
            while waiting.last() == Some(&0) {
                waiting.pop();
            }
        }
        waiting.is_empty().then_some(())
    }

    /// Steps over a schema element; returns its number of children.
    fn element(&mut self) -> Option<u64> {
        let (mut number, mut children) = (0, 0);
        while let Some((next, kind)) = self.field(number)? {
            number = next;
            if number == 5 && matches!(kind, I16 | I32 | I64) {
                let zigzag = self.varint()?;
                children = if zigzag & 1 == 0 { zigzag >> 1 } else { return None };
            } else {
                self.skip(kind, 0)?;
            }
        }
        Some(children)
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next field's number and kind, or nothing at the end of the structure.
    fn field(&mut self, before: i64) -> Option<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        let number = match byte >> 4 {
            0 => {
                let zigzag = self.varint()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            }
            delta => before.checked_add(i64::from(delta))?,
        };
        Some(Some((number, byte & 15)))
    }

    fn list(&mut self) -> Option<(u8, u64)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        // An element takes a byte at least.
        (count <= self.bytes.len() as u64).then_some((byte & 15, count))
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST_FIELD {
            return None;
        }
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                // In a list, a truth value takes a byte.
                let kind = if matches!(kind, TRUE | FALSE) { BYTE } else { kind };
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))
            }
            STRUCT => {
                let mut number = 0;
                while let Some((next, kind)) = self.field(number)? {
                    number = next;
                    self.skip(kind, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer that holds only a schema: each element is its number of children.
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
    fn schemas_are_trees_of_a_few_levels() {
        let check = |elements: &[u64]| Footer { bytes: &footer(elements) }.check_schema().is_some();
        assert!(check(&[2, 0, 0]));
        assert!(check(&[2, 1, 1, 0, 0]));
        assert!(!check(&[3, 0, 0]));
        assert!(!check(&[1, 0, 0]));
        assert!(!check(&[1 << 31, 0]));
        assert!(!check(&[vec![1; 100], vec![0]].concat()));
        let good = footer(&[2, 1, 0, 0]);
        for end in 0..good.len() - 1 {
            assert!(Footer { bytes: &good[..end] }.check_schema().is_none());
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = Footer { bytes: &bytes }.check_schema();
            let _ = Footer { bytes: &[&[0x29][..], &bytes].concat() }.check_schema();
        }
    }
}
