//! A shuffle buffer: rows of a stream wait in it for a random time.
//!
//! Training rows are numbered in the order in which they arrive, from 0. Row j gets the key j + ⌊2M·u⌋, where u is uniform in
//! [0, 1) and M is the number of rows that wait on average; rows leave in the order of their keys. The M rows of the first
//! filled buffer get keys as if rows had arrived forever: M + ⌊2M·(1 − √(1 − u))⌋. Hence the first batch is drawn from the
//! whole buffer, and from then on a row leaves for every row that arrives.
//!
//! The order depends on the seed and the rows only, and no row waits for more than 2M others. So an interrupted training
//! needs no copy of the buffer, which can have gigabytes: it reads the last rows of the stream again (at most 2M, and 3M at the
//! beginning) and drops those that had left.
//!
//! If the first pass ends before the buffer is full, the buffer has the whole input: every pass is a new permutation
//! of it, and nothing is computed again.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use super::aside::Aside;
use super::row_stream::{RowStream, StreamPosition};
use crate::context::{Context, Monitor, Reservation};
use crate::error::{Error, InputError, Key, Result};
use etalon_kernel::random::{permutation, stream, unit as uniform};

/// Rows whose delays come from one random stream.
const DELAYS: u64 = 1024;

/// Bytes of a row besides its values: its place in the queue, and in the list of free slots.
const PLACE: u64 = 32;

/// What a buffer is rebuilt from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferState {
    /// Rows of the first filled buffer, with those that are held out.
    pub first: u64,
    /// Whether these are all rows of the input.
    pub whole: bool,
    /// Rows that have left.
    pub drawn: u64,
    /// Key and number of the last one.
    pub last: Option<(u64, u64)>,
    /// Training rows that have arrived.
    pub arrived: u64,
    /// Where the rows that may still wait begin.
    pub start: ChunkStart,
}

/// The beginning of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChunkStart {
    /// Its position in the stream.
    pub position: StreamPosition,
    /// Rows of the same pass before it.
    pub row: u64,
    /// Training rows that arrived before it.
    pub arrived: u64,
}

/// A row that waits: its key, its number, and where its values are.
type Waiting = (u64, u64, u32);

/// Rows that wait.
pub(super) struct ShuffleBuffer<'a> {
    stream: &'a mut (dyn RowStream + 'a),
    seed: u64,
    width: usize,
    /// Rows of the first filled buffer that are in no batch, by their number in a pass.
    aside: Aside,
    /// Their values or, if there are too few rows to hold some out, those of all.
    held_out: Vec<f32>,
    state: BufferState,
    /// Where the next chunk begins.
    next: ChunkStart,
    /// Where chunks begin whose rows may still wait.
    chunks: VecDeque<ChunkStart>,
    values: Vec<f32>,
    free: Vec<u32>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    chunk: Vec<f32>,
    /// Random numbers of a block of rows, for their delays.
    delays: (Option<u64>, Vec<f64>),
    /// The order of a pass over the whole input.
    order: (Option<u64>, Vec<usize>),
    /// Rows that memory is reserved for.
    reserved: usize,
    memory: Reservation,
    context: &'a Context,
}

impl<'a> ShuffleBuffer<'a> {
    /// Fills a buffer with the first `capacity` rows of a stream, and holds out a tenth of them, at most 8,192.
    pub fn fill(
        stream: &'a mut (dyn RowStream + 'a),
        capacity: usize,
        seed: u64,
        context: &'a Context,
    ) -> Result<ShuffleBuffer<'a>> {
        let mut buffer = ShuffleBuffer::empty(stream, capacity, seed, context)?;
        buffer.stream.seek(StreamPosition::default())?;
        context.start("filling the shuffle buffer", capacity as u64, "rows");
        let (mut starts, mut all) = (VecDeque::new(), Vec::new());
        std::mem::swap(&mut all, &mut buffer.values);
        let mut ended = false;
        while !ended && all.len() <= capacity * buffer.width {
            let before = all.len();
            starts.push_back(ChunkStart { position: buffer.stream.position(), row: buffer.rows(&all), arrived: 0 });
            ended = !buffer.read(&mut all)?;
            context.advance(((all.len() - before) / buffer.width) as u64);
        }
        context.finish();
        let (count, width) = (buffer.rows(&all), buffer.width);
        if count == 0 {
            return Err(nothing());
        }
        buffer.state.whole = ended && count <= capacity as u64;
        buffer.state.first = count.min(capacity as u64);
        buffer.aside = Aside::draw(buffer.state.first as usize, seed);
        // The rows that remain move together.
        buffer.reserve(all.len() / width + buffer.aside.rows().len())?;
        let held_out = buffer.aside.rows().iter().flat_map(|row| &all[row * width..(row + 1) * width]);
        buffer.held_out = held_out.copied().collect();
        let mut kept = 0;
        for row in (0..count as usize).filter(|row| buffer.aside.rows().binary_search(row).is_err()) {
            all.copy_within(row * width..(row + 1) * width, kept * width);
            kept += 1;
        }
        all.truncate(kept * width);
        if buffer.held_out.is_empty() {
            buffer.held_out = all.clone();
        }
        buffer.values = all;
        for start in &mut starts {
            start.arrived = start.row - buffer.aside.rows().partition_point(|row| (*row as u64) < start.row) as u64;
        }
        buffer.chunks = starts;
        buffer.state.arrived = kept as u64;
        buffer.next = ChunkStart { position: buffer.stream.position(), row: count, arrived: kept as u64 };
        if !buffer.state.whole {
            for row in 0..kept as u64 {
                let key = buffer.key(row);
                buffer.waiting.push(Reverse((key, row, row as u32)));
            }
        }
        Ok(buffer)
    }

    /// Fills a buffer again after an interruption.
    pub fn rebuild(
        stream: &'a mut (dyn RowStream + 'a),
        (capacity, seed): (usize, u64),
        (state, held_out): (&BufferState, Vec<f32>),
        context: &'a Context,
    ) -> Result<ShuffleBuffer<'a>> {
        let mut buffer = ShuffleBuffer::empty(stream, capacity, seed, context)?;
        buffer.stream.seek(state.start.position)?;
        (buffer.next, buffer.held_out) = (state.start, held_out);
        buffer.aside = Aside::draw(state.first as usize, seed);
        buffer.state = BufferState { arrived: state.start.arrived, ..state.clone() };
        let missing = state.arrived.saturating_sub(state.start.arrived);
        context.start("filling the shuffle buffer", missing, "rows");
        while buffer.state.arrived < state.arrived {
            let before = buffer.state.arrived;
            buffer.read_chunk()?;
            context.advance(buffer.state.arrived - before);
        }
        context.finish();
        if buffer.state.arrived != state.arrived {
            return Err(Error::Bug("the chunks of a stream differ from those of an earlier run".into()));
        }
        Ok(buffer)
    }

    fn empty(
        stream: &'a mut (dyn RowStream + 'a),
        capacity: usize,
        seed: u64,
        context: &'a Context,
    ) -> Result<ShuffleBuffer<'a>> {
        let width = stream.width();
        let memory = context.budget().reserve(0, "")?;
        let mut buffer = ShuffleBuffer {
            stream,
            seed,
            width,
            aside: Aside::default(),
            held_out: Vec::new(),
            state: BufferState::default(),
            next: ChunkStart::default(),
            chunks: VecDeque::new(),
            values: Vec::new(),
            free: Vec::new(),
            waiting: BinaryHeap::new(),
            chunk: Vec::new(),
            delays: (None, Vec::new()),
            order: (None, Vec::new()),
            reserved: 0,
            memory,
            context,
        };
        // The number of rows that wait varies by less than a few times its square root.
        let rows = capacity.saturating_add(4 * capacity.isqrt() + DELAYS as usize);
        buffer.reserve(rows)?;
        buffer.values = Vec::with_capacity(rows * width);
        Ok(buffer)
    }

    fn rows(&self, values: &[f32]) -> u64 {
        (values.len() / self.width) as u64
    }

    /// Reserves memory for rows in the buffer, those that are held out included.
    fn reserve(&mut self, rows: usize) -> Result<()> {
        if rows <= self.reserved {
            return Ok(());
        }
        let bytes = (rows as u64).saturating_mul(self.width as u64 * 4 + PLACE);
        let chunk = self.chunk.capacity() as u64 * 4;
        let what = format!("a shuffle buffer of {rows} rows ({})", Key("buffer"));
        self.memory.resize(bytes.saturating_add(chunk), what)?;
        self.reserved = rows;
        Ok(())
    }

    /// Appends the rows of a chunk; false at the end of a pass.
    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        self.context.check()?;
        let before = out.len();
        self.chunk.clear();
        if !self.stream.read(&mut self.chunk)? {
            return Ok(false);
        }
        if !self.chunk.len().is_multiple_of(self.width) {
            return Err(Error::Bug("a chunk of a stream has part of a row".into()));
        }
        let rows = (before + self.chunk.len()) / self.width;
        if rows > self.reserved {
            self.reserve(rows)?;
            out.reserve_exact(rows * self.width - before);
        }
        out.extend_from_slice(&self.chunk);
        Ok(true)
    }

    /// Rows that wait on average.
    fn mean(&self) -> u64 {
        self.state.first - self.aside.rows().len() as u64
    }

    /// The key of a row: rows leave in the order of their keys, equal ones in the order of their numbers.
    fn key(&mut self, row: u64) -> u64 {
        let block = row / DELAYS;
        if self.delays.0 != Some(block) {
            let mut random = stream(self.seed, "delays in a shuffle buffer", block);
            self.delays = (Some(block), (0..DELAYS).map(|_| uniform(&mut random)).collect());
        }
        let share = self.delays.1.get((row % DELAYS) as usize).copied().unwrap_or_default();
        let (mean, most) = (self.mean(), 2.0 * self.mean() as f64);
        if row < mean { mean + (most * (1.0 - (1.0 - share).sqrt())) as u64 } else { row + (most * share) as u64 }
    }

    /// Reads a chunk, or begins the next pass.
    fn read_chunk(&mut self) -> Result<()> {
        self.context.check()?;
        self.chunk.clear();
        let mut chunk = std::mem::take(&mut self.chunk);
        let more = self.stream.read(&mut chunk)?;
        if !more {
            if self.next.row == 0 {
                return Err(nothing());
            }
            self.stream.seek(StreamPosition::default())?;
            self.next = ChunkStart { position: StreamPosition::default(), row: 0, arrived: self.state.arrived };
            self.chunk = chunk;
            return Ok(());
        }
        self.chunks.push_back(self.next);
        for row in chunk.chunks_exact(self.width) {
            let number = self.next.row;
            self.next.row += 1;
            if usize::try_from(number).is_ok_and(|number| self.aside.rows().binary_search(&number).is_ok()) {
                continue;
            }
            self.insert(row)?;
        }
        self.next = ChunkStart { position: self.stream.position(), row: self.next.row, arrived: self.state.arrived };
        self.chunk = chunk;
        Ok(())
    }

    /// Adds a training row, unless it has left before an interruption.
    fn insert(&mut self, row: &[f32]) -> Result<()> {
        let number = self.state.arrived;
        self.state.arrived += 1;
        if self.state.whole {
            self.values.extend_from_slice(row);
            return Ok(());
        }
        let key = self.key(number);
        if self.state.last.is_some_and(|last| (key, number) <= last) {
            return Ok(());
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                let start = slot as usize * self.width;
                self.values[start..start + self.width].copy_from_slice(row);
                slot
            }
            None => {
                let slot = self.values.len() / self.width;
                let held_out = self.held_out.len() / self.width;
                if slot + held_out >= self.reserved {
                    self.reserve(slot + held_out + DELAYS as usize)?;
                    self.values.reserve_exact(DELAYS as usize * self.width);
                }
                self.values.extend_from_slice(row);
                u32::try_from(slot).map_err(|_| too_large())?
            }
        };
        self.waiting.push(Reverse((key, number, slot)));
        Ok(())
    }

    /// Takes the next rows.
    pub fn draw(&mut self, count: usize, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        out.reserve(count * self.width);
        while out.len() < count * self.width {
            let slot = match self.state.whole {
                true => self.shuffled(),
                false => self.next_waiting()?,
            };
            out.extend_from_slice(&self.values[slot * self.width..(slot + 1) * self.width]);
            self.state.drawn += 1;
        }
        Ok(())
    }

    /// The slot of the next row in a random order of the whole input.
    fn shuffled(&mut self) -> usize {
        let rows = self.values.len() / self.width;
        let (pass, index) = (self.state.drawn / rows as u64, (self.state.drawn % rows as u64) as usize);
        if self.order.0 != Some(pass) {
            self.order = (Some(pass), permutation(rows, &mut stream(self.seed, "order of a shuffle buffer", pass)));
        }
        self.order.1[index]
    }

    /// The slot of the next row that leaves. No row that has not arrived yet has a smaller key.
    fn next_waiting(&mut self) -> Result<usize> {
        loop {
            match self.waiting.peek() {
                Some(Reverse((key, _, _))) if *key <= self.state.arrived => {}
                _ => {
                    self.read_chunk()?;
                    continue;
                }
            }
            if let Some(Reverse((key, number, slot))) = self.waiting.pop() {
                self.free.push(slot);
                self.state.last = Some((key, number));
                return Ok(slot as usize);
            }
        }
    }

    /// What the buffer can be rebuilt from. Forgets chunks that are not needed for that.
    pub fn state(&mut self) -> BufferState {
        let mean = self.mean();
        // Rows that wait have a larger key than the last one that left.
        let oldest = match self.state.last {
            Some((key, _)) if key > 3 * mean => key - 2 * mean,
            _ => 0,
        };
        while !self.state.whole && self.chunks.get(1).is_some_and(|start| start.arrived <= oldest) {
            self.chunks.pop_front();
        }
        let start = self.chunks.front().copied().unwrap_or(self.next);
        BufferState { start, ..self.state.clone() }
    }

    /// The stream.
    pub fn stream(&self) -> &dyn RowStream {
        self.stream
    }

    /// The rows that are held out or, if there are too few rows for that, all of them.
    pub fn held_out(&self) -> &[f32] {
        &self.held_out
    }

    /// Whether rows are held out.
    pub fn is_held_out(&self) -> bool {
        !self.aside.rows().is_empty()
    }

    /// The training rows of the first filled buffer; valid until the first one is drawn.
    pub fn first_rows(&self) -> &[f32] {
        &self.values[..self.mean() as usize * self.width]
    }

    /// Rows of the first filled buffer, those that are held out included.
    pub fn first_count(&self) -> u64 {
        self.state.first
    }
}

fn nothing() -> Error {
    InputError::new("the stream has no rows to train on").expected("an input with at least one row").into()
}

fn too_large() -> Error {
    InputError::new(format!("{} is too large", Key("buffer"))).expected("less than 2^32 rows").into()
}
