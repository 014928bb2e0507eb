//! A column of a table, and how it is parsed: cell by cell into its final type, without an intermediate tree of values.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cells {
    /// Integers.
    Whole(Vec<Option<i64>>),
    /// Floating-point numbers.
    Number(Vec<Option<f64>>),
    /// Strings.
    Text(Vec<String>),
    /// Lists of integers, such as coalitions of latents.
    WholeLists(Vec<Vec<i64>>),
    /// Lists of numbers, such as a score after every step.
    NumberLists(Vec<Vec<Option<f64>>>),
}

/// Bytes that the allocator uses for a small block, next to its content.
const BLOCK: usize = 32;

impl Cells {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Cells::Whole(cells) => cells.len(),
            Cells::Number(cells) => cells.len(),
            Cells::Text(cells) => cells.len(),
            Cells::WholeLists(cells) => cells.len(),
            Cells::NumberLists(cells) => cells.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A cell as a number; `None` if it is undefined or not a number.
    pub fn number(&self, row: usize) -> Option<f64> {
        match self {
            Cells::Whole(cells) => cells.get(row).copied().flatten().map(|value| value as f64),
            Cells::Number(cells) => cells.get(row).copied().flatten(),
            _ => None,
        }
    }

    /// Bytes of memory, approximately.
    pub(super) fn bytes(&self) -> u64 {
        fn lists<T>(lists: &[Vec<T>]) -> usize {
            lists.iter().map(|list| BLOCK + size_of_val(list) + size_of_val(list.as_slice())).sum()
        }
        let bytes = match self {
            Cells::Whole(cells) => size_of_val(cells.as_slice()),
            Cells::Number(cells) => size_of_val(cells.as_slice()),
            Cells::Text(cells) => cells.iter().map(|text| BLOCK + size_of_val(text) + text.len()).sum(),
            Cells::WholeLists(cells) => lists(cells),
            Cells::NumberLists(cells) => lists(cells),
        };
        bytes as u64
    }

    /// Adds a cell. The column takes the first of its types that can hold all cells; returns false if there is none.
    fn push(&mut self, cell: Cell) -> bool {
        match (&mut *self, cell) {
            (Cells::Whole(cells), Cell::Undefined) => cells.push(None),
            (Cells::Whole(cells), Cell::Whole(value)) => cells.push(Some(value)),
            (Cells::Whole(cells), Cell::Number(value)) => {
                let mut numbers = as_numbers(std::mem::take(cells));
                numbers.push(Some(value));
                *self = Cells::Number(numbers);
            }
            (Cells::Whole(cells), Cell::Text(text)) if cells.is_empty() => *self = Cells::Text(vec![text]),
            (Cells::Whole(cells), Cell::List(list)) if cells.is_empty() => {
                *self = Cells::WholeLists(Vec::new());
                return self.push(Cell::List(list));
            }
            (Cells::Number(cells), Cell::Undefined) => cells.push(None),
            (Cells::Number(cells), Cell::Whole(value)) => cells.push(Some(value as f64)),
            (Cells::Number(cells), Cell::Number(value)) => cells.push(Some(value)),
            (Cells::Text(cells), Cell::Text(text)) => cells.push(text),
            (Cells::WholeLists(cells), Cell::List(list)) => match list {
                Cells::Whole(list) if list.iter().all(Option::is_some) => {
                    cells.push(list.into_iter().flatten().collect());
                }
                list => {
                    let numbers = |list: Vec<i64>| list.into_iter().map(|value| Some(value as f64)).collect();
                    *self = Cells::NumberLists(std::mem::take(cells).into_iter().map(numbers).collect());
                    return self.push(Cell::List(list));
                }
            },
            (Cells::NumberLists(cells), Cell::List(Cells::Whole(list))) => cells.push(as_numbers(list)),
            (Cells::NumberLists(cells), Cell::List(Cells::Number(list))) => cells.push(list),
            _ => return false,
        }
        true
    }

    fn shrink(&mut self) {
        match self {
            Cells::Whole(cells) => cells.shrink_to_fit(),
            Cells::Number(cells) => cells.shrink_to_fit(),
            Cells::Text(cells) => cells.shrink_to_fit(),
            Cells::WholeLists(cells) => cells.shrink_to_fit(),
            Cells::NumberLists(cells) => cells.shrink_to_fit(),
        }
    }
}

fn as_numbers(cells: Vec<Option<i64>>) -> Vec<Option<f64>> {
    cells.into_iter().map(|value| value.map(|value| value as f64)).collect()
}

/// One cell of any type.
enum Cell {
    Undefined,
    Whole(i64),
    Number(f64),
    Text(String),
    List(Cells),
}

struct CellVisitor;
struct CellsVisitor;

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Cell, D::Error> {
        input.deserialize_any(CellVisitor)
    }
}

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number, null, a string or a list of numbers")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Cell, E> {
        Ok(Cell::Undefined)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell::Whole(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Cell, E> {
        Ok(i64::try_from(value).map_or(Cell::Number(value as f64), Cell::Whole))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell::Number(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cell, E> {
        Ok(Cell::Text(text.into()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Cell, E> {
        Ok(Cell::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Cell, A::Error> {
        CellsVisitor.visit_seq(list).map(Cell::List)
    }
}

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Cells, D::Error> {
        input.deserialize_seq(CellsVisitor)
    }
}

impl<'de> Visitor<'de> for CellsVisitor {
    type Value = Cells;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a column: a list of cells of one type")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Cells, A::Error> {
        let mut cells = Cells::Whole(Vec::new());
        while let Some(cell) = list.next_element::<Cell>()? {
            if !cells.push(cell) {
                return Err(de::Error::custom("the cells of a column differ in type"));
            }
        }
        cells.shrink();
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: the first of the types that can hold all cells.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Definition {
        Whole(Vec<Option<i64>>),
        Number(Vec<Option<f64>>),
        Text(Vec<String>),
        WholeLists(Vec<Vec<i64>>),
        NumberLists(Vec<Vec<Option<f64>>>),
    }

    impl From<Definition> for Cells {
        fn from(cells: Definition) -> Cells {
            match cells {
                Definition::Whole(cells) => Cells::Whole(cells),
                Definition::Number(cells) => Cells::Number(cells),
                Definition::Text(cells) => Cells::Text(cells),
                Definition::WholeLists(cells) => Cells::WholeLists(cells),
                Definition::NumberLists(cells) => Cells::NumberLists(cells),
            }
        }
    }

    #[test]
    fn columns_have_the_first_type_that_holds_all_cells() {
        let cells = ["null", "1", "-2", "1.0", "0.5", "9223372036854775808", r#""a""#, r#""""#];
        let lists = ["[]", "[1]", "[1,2]", "[null]", "[0.5,null]", r#"["a"]"#, "[[1]]", "true", "{}"];
        let all: Vec<&str> = cells.into_iter().chain(lists).collect();
        let mut texts = vec!["[]".to_string(), "3".into(), "null".into(), "{}".into()];
        for first in &all {
            texts.push(format!("[{first}]"));
            for second in &all {
                texts.push(format!("[{first},{second}]"));
                texts.extend(all.iter().map(|third| format!("[{first},{second},{third}]")));
            }
        }
        for text in texts {
            let expected: Option<Cells> = serde_json::from_str::<Definition>(&text).ok().map(Cells::from);
            assert_eq!(serde_json::from_str::<Cells>(&text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn bytes_follow_the_content() {
        assert_eq!(Cells::Number(vec![None; 1000]).bytes(), 16_000);
        assert_eq!(Cells::Text(vec!["four".into(); 10]).bytes(), 10 * (24 + 4 + 32));
        assert_eq!(Cells::WholeLists(vec![vec![1, 2]]).bytes(), 24 + 16 + 32);
    }
}
