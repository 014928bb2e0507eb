//! Small files in the formats of other programs.

use std::io::{Cursor, Write};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

type Failed = Box<dyn std::error::Error>;

/// Little-endian numbers.
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Little-endian numbers.
pub fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A `.npy` file.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A zip archive.
pub fn zip(members: &[(String, Vec<u8>)], method: CompressionMethod) -> Result<Vec<u8>, Failed> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(name.as_str(), SimpleFileOptions::default().compression_method(method))?;
        writer.write_all(bytes)?;
    }
    Ok(writer.finish()?.into_inner())
}

/// Two tensors.
pub fn safetensors() -> Vec<u8> {
    let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &floats(&[1.0, 2.0, 3.0, 4.0]), &[0, 1, 0, 2]]
        .concat()
}

/// Tensors of 32-bit numbers: name, shape, values.
pub fn tensors(tensors: &[(&str, &str, Vec<f32>)]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(floats(values));
        header.push(format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{}]}}"#, data.len()));
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// The pickle of torch for a dictionary with one tensor of 3 × 2 with strides 1 and 3.
pub fn pickle() -> Vec<u8> {
    let mut pickle = b"\x80\x02}X\x01\x00\x00\x00a}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    pickle.extend(b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ");
    pickle.extend(b"K\x00K\x03K\x02\x86K\x01K\x03\x86\x89ccollections\nOrderedDict\n)RtRss.");
    pickle
}

/// The members of a torch file.
pub fn torch() -> Vec<(String, Vec<u8>)> {
    let storage = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    [
        ("ae/data.pkl", pickle()),
        ("ae/byteorder", b"little".to_vec()),
        ("ae/data/0", storage),
        ("ae/version", b"3\n".to_vec()),
    ]
    .map(|(name, bytes)| (name.to_string(), bytes))
    .into()
}

/// The members of a sparse array of scipy: 3 × 4.
pub fn scipy() -> Vec<(String, Vec<u8>)> {
    [
        ("indices.npy", npy("<i4", false, "(6,)", &integers(&[3, 1, 3, 2, 0, 2]))),
        ("indptr.npy", npy("<i4", false, "(4,)", &integers(&[0, 3, 3, 6]))),
        ("format.npy", npy("|S3", false, "()", b"csr")),
        ("shape.npy", npy("<i4", false, "(2,)", &integers(&[3, 4]))),
        ("data.npy", npy("<f4", false, "(6,)", &floats(&[1.0, 5.0, 2.0, 4.0, 7.0, -4.0]))),
    ]
    .map(|(name, bytes)| (name.to_string(), bytes))
    .into()
}

type Group<'a, 'b> = SerializedRowGroupWriter<'a, &'b mut Vec<u8>>;

fn parquet(schema: &str, fill: impl FnOnce(&mut Group<'_, '_>) -> Result<(), ParquetError>) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema)?);
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::builder().build()))?;
    let mut group = writer.next_row_group()?;
    fill(&mut group)?;
    group.close()?;
    writer.close()?;
    Ok(bytes)
}

fn column<T: parquet::data_type::DataType>(
    group: &mut Group<'_, '_>,
    values: &[T::T],
    definition: Option<&[i16]>,
    repetition: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("no column is left".to_string());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, definition, repetition)?;
    column.close()
}

/// Two columns of numbers.
pub fn parquet_numbers() -> Result<Vec<u8>, Failed> {
    parquet("message m { REQUIRED DOUBLE a; REQUIRED FLOAT b; }", |group| {
        column::<DoubleType>(group, &[1.0, 2.0, 1.0], None, None)?;
        column::<FloatType>(group, &[1.5, 2.5, 3.5], None, None)
    })
}

/// A column of lists.
pub fn parquet_lists() -> Result<Vec<u8>, Failed> {
    parquet("message m { REQUIRED group v (LIST) { REPEATED group list { REQUIRED FLOAT element; } } }", |group| {
        column::<FloatType>(group, &[1.0, 2.0, 3.0, 4.0], Some(&[1; 4]), Some(&[0, 1, 0, 1]))
    })
}

/// Text with a null, and numbers.
pub fn parquet_table() -> Result<Vec<u8>, Failed> {
    parquet("message m { OPTIONAL BYTE_ARRAY name (UTF8); REQUIRED INT32 n; }", |group| {
        let names = ["wing", "tail"].map(ByteArray::from);
        column::<ByteArrayType>(group, &names, Some(&[1, 0, 1]), None)?;
        column::<Int32Type>(group, &[-1, 0, 7], None, None)
    })
}
