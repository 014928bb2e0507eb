//! The images of a comparison: listed once, then turned into vectors batch by batch.

use std::collections::BTreeMap;

use etalon::context::{Context, Monitor, Reservation};
use etalon::error::{Error, InputError, Key, Result};
use etalon::input::{RowReader, Shape};

use super::measure::Measure;
use super::request::SimilarityRequest;
use crate::data::{Content, ContentKind, Input, Sample};
use crate::image::{DecodeOptions, Pixels, Preprocess, decode_reserved};

/// Most images that the network runs at a time.
const BATCH: usize = 8;

/// Bytes of the vectors of a batch.
const BATCH_BYTES: usize = 32 << 20;

/// Memory per listed image besides its id.
const LISTED_BYTES: u64 = 64;

/// The images that can be read, in order.
pub(super) struct Listed {
    pub ids: Vec<String>,
    /// Positions in the input.
    positions: Vec<u64>,
    pub height: usize,
    pub width: usize,
    /// What to tell the user.
    pub notes: Vec<String>,
    _memory: Reservation,
}

impl Listed {
    /// Decodes every image once: those that cannot be read are skipped, and all others must have one size.
    pub fn read(request: &SimilarityRequest, preprocess: &Preprocess, context: &Context) -> Result<Listed> {
        let mut input = open(request, context)?;
        let memory = context.budget().reserve(0, "the ids of the images")?;
        let (ids, positions, notes) = (Vec::new(), Vec::new(), input.notes());
        let mut listed = Listed { ids, positions, height: 0, width: 0, notes, _memory: memory };
        context.start("reading images", input.count().unwrap_or(0), "images");
        let read = listed.fill(&mut input, preprocess, context);
        context.finish();
        read?;
        let skipped = input.skipped();
        if let Some(first) = skipped.first() {
            let (count, id, reason) = (skipped.len(), &first.id, &first.reason);
            listed.notes.push(format!("{count} images were skipped; the first is {id}: {reason}"));
        }
        Ok(listed)
    }

    fn fill(&mut self, input: &mut Input, preprocess: &Preprocess, context: &Context) -> Result<()> {
        while let Some(sample) = input.next()? {
            context.check()?;
            match pixels(&sample, context) {
                Ok(pixels) => self.add(&sample, preprocess.output_size(pixels.width(), pixels.height()))?,
                Err(error) if error.is_input() => {
                    input.reject(&sample, error.to_string().lines().next().unwrap_or_default());
                }
                Err(error) => return Err(error),
            }
            context.advance(1);
        }
        Ok(())
    }

    fn add(&mut self, sample: &Sample, (width, height): (usize, usize)) -> Result<()> {
        if self.ids.is_empty() {
            (self.width, self.height) = (width, height);
        } else if (self.width, self.height) != (width, height) {
            return Err(InputError::new("the images have different sizes")
                .expected(format!("{} × {} pixels, as the first image", self.width, self.height))
                .found(format!("{width} × {height} pixels: {}", sample.id))
                .advice(format!("resize all of them with {}", Key("size 64")))
                .into());
        }
        let bytes = self._memory.bytes() + LISTED_BYTES + sample.id.len() as u64;
        self._memory.resize(bytes, "the ids of the images")?;
        self.ids.push(sample.id.clone());
        self.positions.push(sample.position);
        Ok(())
    }
}

fn open(request: &SimilarityRequest, context: &Context) -> Result<Input> {
    let input = Input::open(&request.input, &request.options, context.budget())?;
    match input.kind() {
        ContentKind::Image => Ok(input),
        ContentKind::Text => Err(InputError::new("the input has texts")
            .expected("images")
            .file(std::path::Path::new(&request.input))
            .into()),
    }
}

fn pixels(sample: &Sample, context: &Context) -> Result<Pixels> {
    match &sample.content {
        Content::Image(bytes) => {
            Ok(decode_reserved(bytes, &DecodeOptions::default(), context.budget())?.into_parts().0)
        }
        Content::Pixels(pixels) => Ok(pixels.clone()),
        Content::Text(_) => Err(InputError::new("not an image").into()),
    }
}

/// The vectors of images, computed as they are read. Batches have the same images for any memory limit and any number of threads.
pub(super) struct Vectors<'a> {
    measure: &'a Measure,
    preprocess: &'a Preprocess,
    listed: &'a Listed,
    input: Input,
    context: &'a Context,
    /// The rows that are wanted, ascending, and how many of them were computed.
    wanted: &'a [usize],
    computed: usize,
    width: usize,
    batch: usize,
    /// Vectors that were computed and not read yet.
    left: Vec<f32>,
    _memory: Reservation,
}

impl<'a> Vectors<'a> {
    pub fn new(
        request: &SimilarityRequest,
        (measure, preprocess): (&'a Measure, &'a Preprocess),
        listed: &'a Listed,
        wanted: &'a [usize],
        context: &'a Context,
    ) -> Result<Vectors<'a>> {
        let Some(width) = measure.width(listed.height, listed.width).filter(|width| *width > 0) else {
            return Err(InputError::new("the images are too small for the network")
                .found(format!("{} × {} pixels", listed.width, listed.height))
                .advice(format!("enlarge them with {}", Key("size 64")))
                .into());
        };
        let batch = (BATCH_BYTES / (4 * width)).clamp(1, BATCH);
        // The vectors of a batch once here and once in the network.
        let bytes = 8 * (batch * width) as u64;
        if bytes > context.budget().left() {
            return Err(too_wide(width, bytes, context));
        }
        let _memory = context.budget().reserve(bytes / 2, "the vectors of a batch of images")?;
        let input = open(request, context)?;
        let left = Vec::new();
        Ok(Vectors { measure, preprocess, listed, input, context, wanted, computed: 0, width, batch, left, _memory })
    }

    /// Computes the next batch.
    fn next(&mut self) -> Result<()> {
        let wanted = self.wanted.get(self.computed..).unwrap_or_default();
        let wanted = &wanted[..wanted.len().min(self.batch)];
        let (height, width) = (self.listed.height, self.listed.width);
        let size = height * width * 3;
        let _memory = self.context.budget().reserve(4 * (size * wanted.len()) as u64, "a batch of images")?;
        let mut images = Vec::with_capacity(size * wanted.len());
        for &row in wanted {
            self.context.check()?;
            let position = self.listed.positions.get(row).copied().unwrap_or(u64::MAX);
            let image = loop {
                match self.input.next()? {
                    Some(sample) if sample.position < position => {}
                    Some(sample) if sample.position == position => {
                        break self.preprocess.apply(&pixels(&sample, self.context)?)?;
                    }
                    _ => return Err(changed(&self.listed.ids, row)),
                }
            };
            if image.len() != size {
                return Err(changed(&self.listed.ids, row));
            }
            images.extend(image);
        }
        let context = self.context;
        self.left = context.install(|| self.measure.embed(&images, height, width, context))?;
        let zero = self.left.chunks_exact(self.width).position(|row| row.iter().all(|value| *value == 0.0));
        if let (Some(index), Measure::Cosine(..)) = (zero, self.measure) {
            let id = wanted.get(index).and_then(|row| self.listed.ids.get(*row)).map_or("", String::as_str);
            return Err(InputError::new("all activations of an image are 0, so its cosines are not defined")
                .found(id)
                .advice("choose another site, or leave the image out")
                .into());
        }
        self.computed += wanted.len();
        Ok(())
    }
}

impl RowReader for Vectors<'_> {
    fn shape(&self) -> Shape {
        Shape { rows: self.wanted.len(), width: self.width, rows_per_sample: None }
    }

    fn kind(&self) -> &str {
        "vectors of images"
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        if self.left.is_empty() && self.computed < self.wanted.len() {
            self.next()?;
        }
        let rows = (out.len() / self.width).min(self.left.len() / self.width);
        let values = rows * self.width;
        out[..values].copy_from_slice(&self.left[..values]);
        self.left.drain(..values);
        Ok(rows)
    }
}

/// The rows of ids or row numbers.
pub(super) struct Names<'a> {
    /// `None` for an id that occurs twice.
    rows: BTreeMap<&'a str, Option<usize>>,
    count: usize,
}

impl<'a> Names<'a> {
    pub fn of(ids: &'a [String]) -> Names<'a> {
        let mut rows = BTreeMap::new();
        for (row, id) in ids.iter().enumerate() {
            rows.entry(id.as_str()).and_modify(|row| *row = None).or_insert(Some(row));
        }
        Names { rows, count: ids.len() }
    }

    /// The row of an id; a text that is no id may be a row number.
    pub fn row(&self, text: &str) -> Result<usize> {
        match self.rows.get(text) {
            Some(Some(row)) => Ok(*row),
            Some(None) => Err(InputError::new("several images have this id")
                .found(text)
                .advice("use row numbers, or unique ids")
                .into()),
            None => text.parse().ok().filter(|row| *row < self.count).ok_or_else(|| {
                InputError::new("there is no such image")
                    .expected(format!("an id, or a row number below {}", self.count))
                    .found(format!("`{}`", text.escape_debug()))
                    .into()
            }),
        }
    }
}

fn too_wide(width: usize, bytes: u64, context: &Context) -> Error {
    InputError::new("the vectors of the images do not fit into memory")
        .expected(format!("at most {} MB for a batch", context.budget().left() >> 20))
        .found(format!("{width} values per image, {} MB for a batch", bytes >> 20))
        .advice(format!("make the images smaller with {}, or raise {}", Key("size 64"), Key("memory")))
        .into()
}

fn changed(ids: &[String], row: usize) -> Error {
    InputError::new("the images changed while they were read")
        .found(ids.get(row).map_or("", String::as_str))
        .advice("try again when nothing writes to the input")
        .into()
}
