//! The only state that a pass or a block may keep: merging, bytes and checksum are written once, here.

use crate::error::{Complaint, Error, Result};
use crate::run::leaders::Leaders;

/// Named by position: a metric knows its own columns.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tally {
    /// The columns.
    pub columns: Vec<Column>,
}

/// A mergeable column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Exact counts.
    Count(Vec<u64>),
    /// Sums, added in tree order.
    Sum(Vec<f64>),
    /// Smallest values; infinity before any.
    Min(Vec<f32>),
    /// Largest values; minus infinity before any.
    Max(Vec<f32>),
    /// For each thing, the rows with its largest values.
    Top(Leaders),
    /// Sparse counts by key, keys ascending.
    Pairs(Vec<(u64, u64)>),
    /// Results of blocks: a list per key, keys ascending and met once.
    Lists(Vec<(u64, Vec<f64>)>),
}

const MAGIC: &[u8; 8] = b"ETALTLY1";

impl Tally {
    /// Adds a tally of later rows or blocks.
    pub fn merge(&mut self, later: Tally) -> Result<()> {
        if self.columns.len() != later.columns.len() {
            return Err(Error::Bug("tallies of different layout".into()));
        }
        self.columns.iter_mut().zip(later.columns).try_for_each(|(column, later)| column.merge(later))
    }

    /// How many bytes it holds, roughly.
    pub fn size(&self) -> u64 {
        self.columns.iter().map(Column::size).sum()
    }

    /// The counts of a column.
    pub fn counts(&self, column: usize) -> Result<&[u64]> {
        match self.columns.get(column) {
            Some(Column::Count(values)) => Ok(values),
            _ => Err(Error::Bug(format!("tally column {column} does not count"))),
        }
    }

    /// The sums of a column.
    pub fn sums(&self, column: usize) -> Result<&[f64]> {
        match self.columns.get(column) {
            Some(Column::Sum(values)) => Ok(values),
            _ => Err(Error::Bug(format!("tally column {column} does not sum"))),
        }
    }

    /// The lists of a column, by block.
    pub fn lists(&self, column: usize) -> Result<&[(u64, Vec<f64>)]> {
        match self.columns.get(column) {
            Some(Column::Lists(lists)) => Ok(lists),
            _ => Err(Error::Bug(format!("tally column {column} has no lists"))),
        }
    }

    /// Magic, length, columns, CRC32C.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Writer::default();
        body.word(self.columns.len() as u64);
        for column in &self.columns {
            column.write(&mut body);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend((body.0.len() as u64).to_le_bytes());
        bytes.extend(&body.0);
        let check = crc32c::crc32c(&bytes);
        bytes.extend(check.to_le_bytes());
        bytes
    }

    /// Reads what [`Tally::to_bytes`] wrote; anything else is an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<Tally> {
        let damaged =
            |why: &str| Complaint::new("a tally is damaged").found(why).advice("delete the file and run again");
        let (rest, check) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("too short"))?;
        if crc32c::crc32c(rest) != u32::from_le_bytes(*check) {
            return Err(damaged("wrong checksum").into());
        }
        let body = rest.strip_prefix(MAGIC).ok_or_else(|| damaged("wrong magic"))?;
        let (length, body) = body.split_first_chunk::<8>().ok_or_else(|| damaged("too short"))?;
        if u64::from_le_bytes(*length) != body.len() as u64 {
            return Err(damaged("wrong length").into());
        }
        let mut reader = Reader(body);
        let columns = reader.word().ok_or_else(|| damaged("no columns"))?;
        let read = || (0..columns).map(|_| Column::read(&mut reader)).collect::<Option<Vec<_>>>();
        let columns = { read }().ok_or_else(|| damaged("a column is cut"))?;
        if reader.0.is_empty() { Ok(Tally { columns }) } else { Err(damaged("bytes after the end").into()) }
    }
}

impl Column {
    fn merge(&mut self, later: Column) -> Result<()> {
        match (self, later) {
            (Column::Count(a), Column::Count(b)) if a.len() == b.len() => {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            }
            (Column::Sum(a), Column::Sum(b)) if a.len() == b.len() => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (Column::Min(a), Column::Min(b)) if a.len() == b.len() => {
                a.iter_mut().zip(b).for_each(|(a, b)| *a = a.min(b));
            }
            (Column::Max(a), Column::Max(b)) if a.len() == b.len() => {
                a.iter_mut().zip(b).for_each(|(a, b)| *a = a.max(b));
            }
            (Column::Top(a), Column::Top(b)) => {
                if !a.merge(&b) {
                    return Err(Error::Bug("leaders of different things".into()));
                }
            }
            (Column::Pairs(a), Column::Pairs(b)) => {
                a.extend(b);
                a.sort_unstable_by_key(|pair| pair.0);
                a.dedup_by(|later, kept| {
                    let same = later.0 == kept.0;
                    kept.1 += if same { later.1 } else { 0 };
                    same
                });
            }
            (Column::Lists(a), Column::Lists(b)) => {
                a.extend(b);
                a.sort_by_key(|list| list.0);
                if a.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return Err(Error::Bug("a block was merged twice".into()));
                }
            }
            _ => return Err(Error::Bug("tally columns of different kind".into())),
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        let bytes = match self {
            Column::Count(values) => 8 * values.len(),
            Column::Sum(values) => 8 * values.len(),
            Column::Min(values) | Column::Max(values) => 4 * values.len(),
            Column::Top(leaders) => 4 * leaders.things() + 8 * leaders.places().len(),
            Column::Pairs(pairs) => 16 * pairs.len(),
            Column::Lists(lists) => lists.iter().map(|(_, list)| 32 + 8 * list.len()).sum(),
        };
        bytes as u64
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Column::Count(values) => out.tag(0).words(values),
            Column::Sum(values) => out.tag(1).doubles(values),
            Column::Min(values) => out.tag(2).floats(values),
            Column::Max(values) => out.tag(3).floats(values),
            Column::Top(leaders) => {
                out.tag(4).word(leaders.things() as u64);
                out.word(leaders.keep() as u64);
                out.floats(&leaders.places().map(|entry| entry.0).collect::<Vec<_>>());
                out.words(&leaders.places().map(|entry| u64::from(entry.1)).collect::<Vec<_>>());
            }
            Column::Pairs(pairs) => {
                out.tag(5).words(&pairs.iter().flat_map(|pair| [pair.0, pair.1]).collect::<Vec<_>>());
            }
            Column::Lists(lists) => {
                out.tag(6).word(lists.len() as u64);
                for (key, list) in lists {
                    out.word(*key);
                    out.doubles(list);
                }
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Column> {
        Some(match from.word()? {
            0 => Column::Count(from.words()?),
            1 => Column::Sum(from.words()?.into_iter().map(f64::from_bits).collect()),
            2 => Column::Min(from.floats()?),
            3 => Column::Max(from.floats()?),
            4 => {
                let (things, keep) = (from.word()? as usize, from.word()? as usize);
                let (values, rows) = (from.floats()?, from.words()?);
                let places = values.into_iter().zip(rows).map(|(value, row)| (value, row as u32));
                Column::Top(Leaders::from_places(things, keep, places)?)
            }
            5 => Column::Pairs(from.words()?.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
            6 => {
                let lists = from.word()?;
                let list = |from: &mut Reader<'_>| {
                    Some((from.word()?, from.words()?.into_iter().map(f64::from_bits).collect()))
                };
                Column::Lists((0..lists).map(|_| list(from)).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    fn tag(&mut self, tag: u64) -> &mut Writer {
        self.word(tag);
        self
    }

    fn words(&mut self, words: &[u64]) {
        self.word(words.len() as u64);
        words.iter().for_each(|&word| self.word(word));
    }

    fn doubles(&mut self, values: &[f64]) {
        self.word(values.len() as u64);
        values.iter().for_each(|value| self.word(value.to_bits()));
    }

    fn floats(&mut self, values: &[f32]) {
        self.word(values.len() as u64);
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn take(&mut self, bytes_each: usize) -> Option<&[u8]> {
        let bytes = usize::try_from(self.word()?).ok()?.checked_mul(bytes_each)?;
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn words(&mut self) -> Option<Vec<u64>> {
        Some(self.take(8)?.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
    }

    fn floats(&mut self) -> Option<Vec<f32>> {
        Some(self.take(4)?.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two things, the second without entries.
    fn leaders(entries: &[(f32, u32)]) -> Leaders {
        let mut leaders = Leaders::new(2, 2);
        entries.iter().for_each(|&(value, row)| leaders.offer(0, value, row));
        leaders
    }

    fn example() -> Tally {
        Tally {
            columns: vec![
                Column::Count(vec![1, 2]),
                Column::Sum(vec![0.1, -0.0]),
                Column::Min(vec![f32::INFINITY, -1.0]),
                Column::Max(vec![f32::NEG_INFINITY, 3.0]),
                Column::Top(leaders(&[(3.0, 7), (1.0, 2)])),
                Column::Pairs(vec![(4, 1), (9, 2)]),
                Column::Lists(vec![(0, vec![1.5]), (2, vec![])]),
            ],
        }
    }

    #[test]
    fn bytes_round_trip_and_every_flipped_byte_is_found() {
        let bytes = example().to_bytes();
        assert_eq!(Tally::from_bytes(&bytes).unwrap(), example());
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 0x10;
            assert!(Tally::from_bytes(&flipped).is_err(), "byte {place}");
            assert!(Tally::from_bytes(&bytes[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn merging_keeps_the_best_and_adds_the_rest() {
        let mut tally = example();
        let mut later = example();
        later.columns[6] = Column::Lists(vec![(1, vec![2.5])]);
        tally.merge(later).unwrap();
        assert_eq!(tally.columns[0], Column::Count(vec![2, 4]));
        assert_eq!(tally.columns[4], Column::Top(leaders(&[(3.0, 7), (3.0, 7)])));
        assert_eq!(tally.columns[5], Column::Pairs(vec![(4, 2), (9, 4)]));
        assert_eq!(tally.columns[6], Column::Lists(vec![(0, vec![1.5]), (1, vec![2.5]), (2, vec![])]));
        assert!(tally.merge(example()).is_err(), "block 0 twice");
    }
}
