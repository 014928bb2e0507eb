//! A stream of numbers, for tests.

use serde_json::{Map, Value, json};

use super::row_stream::{RowStream, StreamPosition, StreamWork};
use crate::error::Result;

/// Rows that contain their number in a pass, scaled and shifted per column.
pub(super) struct Numbers {
    pub rows: usize,
    pub width: usize,
    /// Rows of a chunk.
    pub chunk: usize,
    pub at: usize,
    /// Rows that were read.
    pub done: u64,
}

impl Numbers {
    pub fn new(rows: usize, width: usize, chunk: usize) -> Numbers {
        Numbers { rows, width, chunk, at: 0, done: 0 }
    }
}

impl RowStream for Numbers {
    fn width(&self) -> usize {
        self.width
    }

    fn id(&self) -> &str {
        "numbers"
    }

    fn about(&self) -> Map<String, Value> {
        Map::from_iter([("id".to_string(), json!("numbers"))])
    }

    fn read(&mut self, rows: &mut Vec<f32>) -> Result<bool> {
        if self.at == self.rows {
            return Ok(false);
        }
        let end = (self.at + self.chunk).min(self.rows);
        for row in self.at..end {
            // The first column is the number itself, the others vary.
            rows.push(row as f32);
            rows.extend((1..self.width).map(|column| ((row * 31 + column * column * 17) % 101) as f32 / 101.0));
        }
        self.done += (end - self.at) as u64;
        self.at = end;
        Ok(true)
    }

    fn position(&self) -> StreamPosition {
        StreamPosition { item: self.at as u64, token: None }
    }

    fn seek(&mut self, position: StreamPosition) -> Result<()> {
        self.at = position.item as usize;
        Ok(())
    }

    fn work(&self) -> StreamWork {
        StreamWork { done: self.done, unit: "rows" }
    }
}
