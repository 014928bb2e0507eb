//! The header of a GGUF file: magic number, version, metadata, and the place of every tensor.

use std::collections::BTreeSet;
use std::ops::Range;

use etalon::context::Budget;
use etalon::error::{InputError, Result};
use etalon::input::format_shape;

use super::cursor::Cursor;
use super::metadata::{self, Metadata};
use crate::weights::encoding::Encoding;

/// Most tensors; the largest models have some thousand.
const MOST_TENSORS: usize = 1 << 16;

/// Longest name of a tensor. llama.cpp allows 64 bytes.
const LONGEST_NAME: usize = 256;

/// The largest alignment of the tensors.
const LARGEST_ALIGNMENT: i64 = 1 << 20;

/// A tensor of the file.
#[derive(Debug)]
pub(super) struct Info {
    pub name: String,
    /// In C order; GGUF has the fastest dimension first.
    pub shape: Vec<usize>,
    pub encoding: Encoding,
    pub range: Range<usize>,
}

/// Reads the header.
pub(super) fn read(bytes: &[u8], budget: &Budget) -> Result<(Metadata, Vec<Info>)> {
    let mut cursor = Cursor::new(bytes, budget)?;
    if cursor.take(4)? != b"GGUF" {
        return Err(InputError::new("the file is not a GGUF file").expected("GGUF at the start").into());
    }
    check_version(cursor.u32()?)?;
    // A tensor has a name, a number of dimensions, one dimension, a type and an offset.
    let tensors = cursor.count("tensors", MOST_TENSORS, 32)?;
    let keys = metadata::count(&mut cursor)?;
    let metadata = metadata::read(&mut cursor, keys)?;
    let unplaced = (0..tensors).map(|_| tensor(&mut cursor)).collect::<Result<Vec<_>>>()?;
    let alignment = alignment(&metadata)?;
    let start = cursor.offset().next_multiple_of(alignment);
    let tensors = place(unplaced, start, alignment, bytes.len())?;
    Ok((metadata.with_memory(cursor.into_memory()), tensors))
}

fn check_version(version: u32) -> Result<()> {
    let error = InputError::new("unsupported version of the GGUF format").expected("2 or 3");
    Err(match version {
        2 | 3 => return Ok(()),
        _ if matches!(version.swap_bytes(), 1..=3) => {
            error.found("a big-endian file").advice("convert it with gguf-py: gguf-convert-endian FILE little")
        }
        _ => error.found(version).advice("download a newer conversion of the model"),
    }
    .at("byte 4")
    .into())
}

fn alignment(metadata: &Metadata) -> Result<usize> {
    let Some(value) = metadata.get("general.alignment") else { return Ok(32) };
    let number = metadata.integer("general.alignment");
    let valid = number.filter(|number| (1..=LARGEST_ALIGNMENT).contains(number) && number.count_ones() == 1);
    valid.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
        InputError::new("invalid alignment of the tensors")
            .expected(format!("a power of two up to {LARGEST_ALIGNMENT}"))
            .found(number.map_or_else(|| format!("{value:?}"), |number| number.to_string()))
            .at("`general.alignment`")
            .advice("the file is damaged; copy or download it again")
            .into()
    })
}

/// A tensor whose offset is relative to the first one.
struct Unplaced {
    info: Info,
    offset: u64,
}

fn tensor(cursor: &mut Cursor) -> Result<Unplaced> {
    let name = cursor.text("the name of a tensor")?;
    if name.len() > LONGEST_NAME {
        let found = format!("{} bytes", name.len());
        let error = cursor.error("the name of a tensor is too long");
        return Err(error.expected(format!("at most {LONGEST_NAME} bytes")).found(found).into());
    }
    cursor.reserve(name.len() + size_of::<Unplaced>() + 64)?;
    let dimensions = cursor.u32()?;
    if !(1..=4).contains(&dimensions) {
        let error = cursor.error(format!("wrong number of dimensions of the tensor `{name}`"));
        return Err(error.expected("1 to 4").found(dimensions).into());
    }
    let mut shape = (0..dimensions)
        .map(|_| Ok(usize::try_from(cursor.u64()?).unwrap_or(usize::MAX)))
        .collect::<Result<Vec<_>>>()?;
    shape.reverse();
    let encoding = encoding(cursor.u32()?).map_err(|kind| {
        InputError::new(format!("the tensor `{name}` has an unsupported number type"))
            .expected("F32, F16, BF16, F64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, or Q2_K to Q6_K")
            .found(kind)
            .advice("use another conversion of the model, such as Q8_0 or Q4_K_M")
    })?;
    let (block, _) = encoding.block();
    if !shape.last().is_some_and(|row| row.is_multiple_of(block)) {
        let error = cursor.error(format!("the rows of the tensor `{name}` do not fill blocks"));
        return Err(error.expected(format!("a multiple of {block} values")).found(format_shape(&shape)).into());
    }
    let offset = cursor.u64()?;
    Ok(Unplaced { info: Info { name: name.to_string(), shape, encoding, range: 0..0 }, offset })
}

/// Checks that every tensor is within the file, aligned, and does not overlap another one; and that names are unique.
fn place(tensors: Vec<Unplaced>, start: usize, alignment: usize, length: usize) -> Result<Vec<Info>> {
    let mut names = BTreeSet::new();
    let mut placed = Vec::with_capacity(tensors.len());
    for Unplaced { mut info, offset } in tensors {
        let wrong = |what: &str| {
            InputError::new(format!("the tensor `{}` {what}", info.name))
                .advice("the file is damaged or incomplete; copy or download it again")
        };
        if !names.insert(info.name.clone()) {
            return Err(wrong("appears twice").into());
        }
        if !offset.is_multiple_of(alignment as u64) {
            return Err(wrong("is not aligned").expected(format!("a multiple of {alignment}")).found(offset).into());
        }
        let values = info.shape.iter().try_fold(1usize, |values, &size| values.checked_mul(size));
        let bytes = values.and_then(|values| info.encoding.bytes(values));
        let first = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(start));
        let end = first.zip(bytes).and_then(|(first, bytes)| first.checked_add(bytes));
        let (Some(first), Some(end)) = (first, end.filter(|&end| end <= length)) else {
            return Err(wrong("reaches beyond the end of the file")
                .expected(match end {
                    Some(end) => format!("at least {end} bytes"),
                    None => format!("a possible size, not {}", format_shape(&info.shape)),
                })
                .found(format!("{length} bytes"))
                .into());
        };
        info.range = first..end;
        placed.push(info);
    }
    placed.sort_by_key(|info| (info.range.start, info.range.end));
    for pair in placed.windows(2) {
        if let [one, two] = pair
            && two.range.start < one.range.end
        {
            return Err(InputError::new(format!("the tensors `{}` and `{}` overlap", one.name, two.name))
                .expected(format!("the second one from byte {}", one.range.end))
                .found(format!("from byte {}", two.range.start))
                .advice("the file is damaged; copy or download it again")
                .into());
        }
    }
    Ok(placed)
}

/// The number type of a number in the file; its name if it is not supported.
fn encoding(kind: u32) -> std::result::Result<Encoding, String> {
    let name = match kind {
        0 => return Ok(Encoding::F32),
        1 => return Ok(Encoding::F16),
        2 => return Ok(Encoding::Q4_0),
        3 => return Ok(Encoding::Q4_1),
        6 => return Ok(Encoding::Q5_0),
        7 => return Ok(Encoding::Q5_1),
        8 => return Ok(Encoding::Q8_0),
        10 => return Ok(Encoding::Q2K),
        11 => return Ok(Encoding::Q3K),
        12 => return Ok(Encoding::Q4K),
        13 => return Ok(Encoding::Q5K),
        14 => return Ok(Encoding::Q6K),
        28 => return Ok(Encoding::F64),
        30 => return Ok(Encoding::Bf16),
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        40 => "NVFP4",
        _ => return Err(format!("type {kind}")),
    };
    Err(name.to_string())
}
