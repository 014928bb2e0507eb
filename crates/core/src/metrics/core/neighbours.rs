//! For every latent the largest cosine with another: a product of the matrix with itself, block by block, of which only
//! the largest value of each line is kept. Symmetry saves half of it.

use std::sync::Arc;

use super::latents::{Found, Largest};
use crate::budget::Taken;
use crate::codes::Latent;
use crate::error::{Error, Result};
use crate::kernel::product::{dot, rows_by_rows};
use crate::run::{Blocks, Column, Job, Next, Tally};
use crate::sae::{Dictionary, Linear};

/// Rows of a block.
const BLOCK: usize = 1024;

/// Which matrix of the dictionary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Decoder,
    Encoder,
}

/// One block of work is a block of rows against itself and all later ones.
pub(super) struct Neighbours {
    side: Side,
    width: usize,
    /// Rows scaled to length 1; rows without length are 0.
    units: Vec<f32>,
    no_length: Vec<bool>,
    found: Arc<Found>,
    largest: Largest,
    _memory: Taken,
}

impl Neighbours {
    /// Begins with the decoder, or is done if there is none.
    pub fn first(found: Arc<Found>, job: &Job<'_>) -> Result<Next> {
        let largest = Largest::default();
        if let Some(dictionary) = job.inputs.dictionary.as_deref() {
            let (directions, width) = (dictionary.directions().to_vec(), dictionary.card().width);
            return Neighbours::of(Side::Decoder, directions, width, found, largest, job);
        }
        let Some(store) = job.inputs.directions.as_deref() else {
            return Ok(Next::Done(found.finish(largest, job)));
        };
        let directions = store.tile(0..store.rows())?;
        Neighbours::of(Side::Decoder, directions.values.into_owned(), store.width(), found, largest, job)
    }

    fn of(
        side: Side,
        mut units: Vec<f32>,
        width: usize,
        found: Arc<Found>,
        largest: Largest,
        job: &Job<'_>,
    ) -> Result<Next> {
        let products = (rayon::current_num_threads() * BLOCK * BLOCK) as u64;
        let bytes = (units.len() as u64 + products).saturating_mul(4);
        let _memory = job.budget.take(bytes, format!("the cosines of {} directions", units.len() / width.max(1)))?;
        let mut no_length = Vec::with_capacity(units.len() / width.max(1));
        for row in units.chunks_exact_mut(width.max(1)) {
            let length = dot(row, row).sqrt();
            no_length.push(length == 0.0);
            if length > 0.0 {
                row.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
            }
        }
        Ok(Next::Blocks(Box::new(Neighbours { side, width, units, no_length, found, largest, _memory })))
    }

    /// The encoder's rows, one after the other.
    fn encoder(dictionary: &Linear) -> Vec<f32> {
        let width = dictionary.card().width;
        let mut rows = vec![0.0; dictionary.card().latents * width];
        for (latent, row) in rows.chunks_exact_mut(width).enumerate() {
            dictionary.encoder_row(Latent(latent as u32), row);
        }
        rows
    }

    fn rows(&self, block: usize) -> std::ops::Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.no_length.len())
    }
}

impl Blocks for Neighbours {
    fn count(&self) -> usize {
        self.no_length.len().div_ceil(BLOCK)
    }

    fn unit(&self) -> &'static str {
        match self.side {
            Side::Decoder => "blocks of directions",
            Side::Encoder => "blocks of encoder rows",
        }
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let mut largest = vec![f32::NEG_INFINITY; self.no_length.len()];
        let mine = self.rows(block);
        let rows_of = |rows: &std::ops::Range<usize>| &self.units[rows.start * self.width..rows.end * self.width];
        let mut products = vec![0.0; mine.len() * BLOCK];
        for later in block..self.count() {
            let theirs = self.rows(later);
            let products = &mut products[..mine.len() * theirs.len()];
            rows_by_rows(rows_of(&mine), rows_of(&theirs), self.width, products);
            for (row, line) in mine.clone().zip(products.chunks_exact(theirs.len())) {
                if self.no_length[row] {
                    continue;
                }
                // Within a block only what lies right of the diagonal, so that every pair is looked at once.
                let from = if later == block { row + 1 - theirs.start } else { 0 };
                for (place, &cosine) in line.iter().enumerate().skip(from) {
                    let other = theirs.start + place;
                    if !self.no_length[other] {
                        largest[row] = largest[row].max(cosine);
                        largest[other] = largest[other].max(cosine);
                    }
                }
            }
        }
        Ok(Tally { columns: vec![Column::Max(largest)] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let cosines: Vec<Option<f64>> = match tally.columns.first() {
            None => Vec::new(),
            Some(Column::Max(largest)) => {
                let defined = |&value: &f32| value.is_finite().then(|| f64::from(value).clamp(-1.0, 1.0));
                largest.iter().map(defined).collect()
            }
            Some(_) => return Err(Error::Bug("cosines in a tally of another layout".into())),
        };
        let mut largest = self.largest.clone();
        match self.side {
            Side::Encoder => largest.encoder = Some(cosines),
            Side::Decoder => {
                if let Some(dictionary) = job.inputs.dictionary.as_deref() {
                    let encoder = Neighbours::encoder(dictionary);
                    if encoder != dictionary.directions() {
                        largest.decoder = Some(cosines);
                        let (found, width) = (self.found.clone(), self.width);
                        return Neighbours::of(Side::Encoder, encoder, width, found, largest, job);
                    }
                    // Tied weights: nothing new would come out.
                    largest.encoder = Some(cosines.clone());
                }
                largest.decoder = Some(cosines);
            }
        }
        Ok(Next::Done(self.found.finish(largest, job)))
    }
}
