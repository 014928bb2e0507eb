//! Tables of images in parquet, in the layout of Hugging Face: a structure of bytes and path, and columns that describe it.

use std::sync::Arc;

use etalon::error::{Error, Result};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::super::output::Output;
use super::unexpected;

/// Images in a group of rows, which readers skip as a whole.
const GROUP: usize = 512;

/// An image of a table.
pub(super) struct TableImage<'a> {
    /// The bytes of the file.
    pub bytes: &'a [u8],
    /// Its id, which is also its path.
    pub id: &'a str,
    /// One text per column.
    pub cells: Vec<String>,
    /// Tags.
    pub tags: &'a [String],
}

fn bug(error: impl std::fmt::Display) -> Error {
    Error::Bug(format!("writing parquet: {error}"))
}

/// Writes a table with the columns `image` (bytes and path), `id`, those of `columns`, and `tags`.
pub(super) fn write(output: &Output<'_>, name: &str, columns: &[&str], images: &[TableImage<'_>]) -> Result<()> {
    let described: String = columns.iter().map(|name| format!("required binary {name} (UTF8); ")).collect();
    let schema = format!(
        "message images {{ required group image {{ required binary bytes; required binary path (UTF8); }} \
         required binary id (UTF8); {described} \
         required group tags (LIST) {{ repeated group list {{ required binary element (UTF8); }} }} }}"
    );
    let schema = Arc::new(parse_message_type(&schema).map_err(bug)?);
    // Images are compressed already; tables are small.
    let properties =
        WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).set_dictionary_enabled(false);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build())).map_err(bug)?;
    for group in images.chunks(GROUP) {
        output.check()?;
        let mut rows = writer.next_row_group().map_err(bug)?;
        write_group(&mut rows, columns.len(), group).map_err(bug)?;
        rows.close().map_err(bug)?;
    }
    writer.close().map_err(bug)?;
    output.write(name, &bytes)
}

fn write_group(
    rows: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    columns: usize,
    images: &[TableImage<'_>],
) -> std::result::Result<(), ParquetError> {
    let texts = |of: &dyn Fn(&TableImage<'_>) -> ByteArray| images.iter().map(of).collect::<Vec<_>>();
    write_column(rows, &texts(&|image| ByteArray::from(image.bytes.to_vec())), None)?;
    write_column(rows, &texts(&|image| ByteArray::from(image.id)), None)?;
    write_column(rows, &texts(&|image| ByteArray::from(image.id)), None)?;
    for column in 0..columns {
        let cell = |image: &TableImage<'_>| image.cells.get(column).map(String::as_str).unwrap_or_default().into();
        write_column(rows, &texts(&cell), None)?;
    }
    // An empty list has one entry with definition level 0; a list starts with repetition level 0.
    let (mut tags, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for image in images {
        if image.tags.is_empty() {
            definition.push(0);
            repetition.push(0);
        }
        for (index, tag) in image.tags.iter().enumerate() {
            tags.push(ByteArray::from(tag.as_str()));
            definition.push(1);
            repetition.push(i16::from(index > 0));
        }
    }
    write_column(rows, &tags, Some((&definition, &repetition)))
}

fn write_column(
    rows: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[ByteArray],
    levels: Option<(&[i16], &[i16])>,
) -> std::result::Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has no column left".into());
    let mut column = rows.next_column()?.ok_or_else(missing)?;
    let (definition, repetition) = (levels.map(|levels| levels.0), levels.map(|levels| levels.1));
    column.typed::<ByteArrayType>().write_batch(values, definition, repetition)?;
    column.close()
}

/// A picture on white, as PNG. Networks see pixels without transparency, and what is behind it is arbitrary.
pub(super) fn on_white(bytes: &[u8]) -> Result<Vec<u8>> {
    let picture = image::load_from_memory_with_format(bytes, image::ImageFormat::Png);
    let picture = picture.map_err(|error| unexpected("a picture", error))?.into_rgba8();
    let blend =
        |value: u8, alpha: u8| ((u32::from(value) * u32::from(alpha) + 255 * u32::from(255 - alpha) + 127) / 255) as u8;
    let rgb: Vec<u8> = picture
        .pixels()
        .flat_map(|pixel| {
            let [r, g, b, alpha] = pixel.0;
            [r, g, b].map(|value| blend(value, alpha))
        })
        .collect();
    png(picture.width(), picture.height(), &rgb)
}

/// Encodes RGB pixels as PNG.
pub(super) fn png(width: u32, height: u32, rgb: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let encoder = PngEncoder::new(&mut bytes);
    encoder
        .write_image(rgb, width, height, ExtendedColorType::Rgb8)
        .map_err(|error| Error::Bug(format!("PNG: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use etalon::context::{Budget, Context};
    use etalon_models::data::{Content, Input, InputOptions, Label};

    use super::*;

    #[test]
    fn the_input_reads_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context::silent(1, 1 << 26).unwrap();
        let output = Output::new(folder.path().to_path_buf(), &context);
        let picture = png(1, 1, &[1, 2, 3]).unwrap();
        let tags = [vec!["x".to_string(), "y".to_string()], vec![], vec!["x".to_string()]];
        let image = |index: usize, id: &'static str| TableImage {
            bytes: &picture,
            id,
            cells: vec![format!("caption {id}"), "cat".into()],
            tags: &tags[index],
        };
        write(&output, "x.parquet", &["caption", "category"], &[image(0, "a"), image(1, "b"), image(2, "c")]).unwrap();
        let path = folder.path().join("x.parquet");
        let mut input = Input::open(path.to_str().unwrap(), &InputOptions::default(), &Budget::new(1 << 24)).unwrap();
        assert_eq!(
            (input.label_columns(), input.count()),
            (&["category".to_string(), "tags".to_string()][..], Some(3))
        );
        let sample = input.next().unwrap().unwrap();
        assert_eq!((sample.id.as_str(), sample.caption.as_deref()), ("a", Some("caption a")));
        assert_eq!(sample.labels, [Label::Value("cat".into()), Label::Tags(tags[0].clone())]);
        assert!(matches!(sample.content, Content::Image(bytes) if bytes == picture));
        assert_eq!(input.next().unwrap().unwrap().labels[1], Label::Tags(Vec::new()));
    }

    #[test]
    fn transparency_becomes_white() {
        let mut bytes = Vec::new();
        let rgba = [10, 20, 30, 255, 10, 20, 30, 0, 0, 0, 0, 128];
        PngEncoder::new(&mut bytes).write_image(&rgba, 3, 1, ExtendedColorType::Rgba8).unwrap();
        let opaque = etalon_models::image::decode(&on_white(&bytes).unwrap()).unwrap();
        assert_eq!(opaque.rgb(), [10, 20, 30, 255, 255, 255, 127, 127, 127]);
    }
}
