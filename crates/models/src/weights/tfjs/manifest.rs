//! The list of weights of a TensorFlow.js model. The files of a group are one long list of bytes; the weights of the
//! group follow each other in it, across the borders of files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InputError, Result};
use etalon::input::{Map, format_shape};
use serde::Deserialize;
use serde_json::Value;

use crate::weights::encoding::Encoding;
use crate::weights::opened::insert;
use crate::weights::source::{Part, Source};
use crate::weights::tensors::Stored;

/// Most files of a model.
const MOST_FILES: usize = 4096;

#[derive(Deserialize)]
struct Group {
    paths: Vec<String>,
    weights: Vec<Weight>,
}

#[derive(Deserialize)]
struct Weight {
    name: String,
    shape: Vec<usize>,
    dtype: String,
    quantization: Option<Quantisation>,
}

#[derive(Deserialize)]
struct Quantisation {
    dtype: String,
    #[serde(default)]
    scale: f32,
    #[serde(default)]
    min: f32,
}

/// The tensors under their own names, and the files.
pub(super) type Content = (BTreeMap<String, Stored>, Vec<Arc<Map>>);

/// Reads the list; `model` is the file that has it.
pub(super) fn read(groups: &Value, model: &Path, budget: &Budget) -> Result<Content> {
    let groups =
        Vec::<Group>::deserialize(groups).map_err(|error| wrong("the list of weights is invalid").found(error))?;
    if groups.iter().map(|group| group.paths.len()).sum::<usize>() > MOST_FILES {
        return Err(wrong("the list of weights names too many files").expected(format!("at most {MOST_FILES}")).into());
    }
    let count: usize = groups.iter().map(|group| group.weights.len()).sum();
    let _memory = budget.reserve(count as u64 * 512, "the names of the tensors")?;
    let (mut tensors, mut files) = (BTreeMap::new(), Vec::new());
    for group in &groups {
        let maps = group.paths.iter().map(|path| open_file(path, model)).collect::<Result<Vec<_>>>()?;
        let mut bytes = Bytes { maps: &maps, file: 0, offset: 0 };
        for weight in &group.weights {
            let (parts, encoding) = bytes.next(weight)?;
            let stored = Stored::new(Source::Bytes(parts, encoding), &weight.shape, encoding.name());
            insert(&mut tensors, weight.name.clone(), stored)?;
        }
        if let Some(left) = bytes.left() {
            return Err(wrong("the files are longer than the weights in them")
                .expected("no bytes after the last weight")
                .found(format!("{left} bytes more"))
                .into());
        }
        files.extend(maps);
    }
    Ok((tensors, files))
}

fn wrong(what: &str) -> InputError {
    InputError::new(what).advice("copy or download the model again")
}

fn open_file(name: &str, model: &Path) -> Result<Arc<Map>> {
    // A name with a folder could lead out of the directory.
    if Path::new(name).file_name().is_none_or(|file| file != name) {
        return Err(wrong("the list of weights names a file outside of its directory")
            .found(name.escape_debug())
            .into());
    }
    let path = model.parent().unwrap_or(Path::new("")).join(name);
    if !path.is_file() {
        let error = wrong("a file with weights is missing").expected(format!("a file `{name}` beside the model"));
        return Err(error.advice("download the model again, completely").into());
    }
    Map::open_input(&path).map(Arc::new)
}

/// A position in the files of a group.
struct Bytes<'a> {
    maps: &'a [Arc<Map>],
    file: usize,
    offset: usize,
}

impl Bytes<'_> {
    /// Bytes until the end, if there are any.
    fn left(&self) -> Option<usize> {
        let left = self.maps.iter().skip(self.file).map(|map| map.length()).sum::<usize>();
        left.checked_sub(self.offset).filter(|&left| left > 0)
    }

    /// The bytes of the next weight.
    fn next(&mut self, weight: &Weight) -> Result<(Vec<Part>, Encoding)> {
        let encoding = encoding(weight)?;
        let length = weight.shape.iter().try_fold(1usize, |length, &size| length.checked_mul(size));
        let needed = length.and_then(|length| encoding.bytes(length));
        let left = self.left().unwrap_or(0);
        let Some(mut needed) = needed.filter(|&needed| needed <= left) else {
            return Err(wrong("the files with weights end too early")
                .expected(format!("{} numbers of {}", format_shape(&weight.shape), encoding.name()))
                .found(format!("{left} bytes"))
                .at(format!("weight `{}`", weight.name))
                .into());
        };
        let mut parts = Vec::new();
        while let Some(map) = self.maps.get(self.file) {
            let end = map.length().min(self.offset.saturating_add(needed));
            parts.push(Part { map: map.clone(), range: self.offset..end });
            needed -= end - self.offset;
            self.offset = end;
            if end < map.length() {
                break;
            }
            (self.file, self.offset) = (self.file + 1, 0);
            if needed == 0 {
                break;
            }
        }
        Ok((parts, encoding))
    }
}

fn encoding(weight: &Weight) -> Result<Encoding> {
    let stored = weight.quantization.as_ref().map_or(weight.dtype.as_str(), |quantised| quantised.dtype.as_str());
    let (scale, least) = weight.quantization.as_ref().map_or((1.0, 0.0), |quantised| (quantised.scale, quantised.min));
    Ok(match stored {
        "float32" => Encoding::F32,
        "float16" => Encoding::F16,
        "int32" => Encoding::I32,
        "uint8" | "bool" => Encoding::Affine8 { scale, least },
        "uint16" => Encoding::Affine16 { scale, least },
        other => {
            return Err(wrong("unsupported number type of a weight")
                .expected("float32, float16, int32, uint16, uint8 or bool")
                .found(other.escape_debug())
                .at(format!("weight `{}`", weight.name))
                .advice("convert the model again, without quantisation")
                .into());
        }
    })
}
