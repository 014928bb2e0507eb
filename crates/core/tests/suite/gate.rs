//! Reading files, from outside: valid files of every format are read correctly, invalid ones are refused without a panic.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::Result;
use etalon::input::{
    DenseRows, Finite, Shape, Source, open_rows, plain_f32, read_rows, read_sparse, read_table, read_tensors,
};
use half::{bf16, f16};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

/// A directory for the files of one test.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Directory {
        Directory(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn source(path: &Path, key: Option<&str>) -> Source {
    Source { path: path.to_path_buf(), key: key.map(str::to_string) }
}

fn budget() -> Budget {
    Budget::new(1 << 28)
}

fn rows(path: &Path, key: Option<&str>) -> Result<DenseRows> {
    read_rows(&source(path, key), Finite::Refuse, &budget())
}

fn message<T>(result: Result<T>) -> String {
    result.err().map(|error| error.to_string()).expect("an error")
}

/// Reads a file in every way; true if any of them succeeds.
fn read_in_every_way(path: &Path) -> bool {
    let small = Budget::new(1 << 24);
    let source = source(path, None);
    let rows = read_rows(&source, Finite::DropRows, &small).is_ok();
    let _ = plain_f32(&source);
    let _ = read_sparse(&source, &small);
    let tensors = read_tensors(path, &small).is_ok();
    let table = read_table(path, &small).is_ok();
    rows || tensors || table
}

fn npy(version: u8, descr: &str, fortran: bool, dimensions: &[usize], data: &[u8]) -> Vec<u8> {
    let sizes: String = dimensions.iter().map(|size| format!("{size}, ")).collect();
    let order = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}");
    let before = if version == 1 { 10 } else { 12 };
    while !(before + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = [b"\x93NUMPY".as_slice(), &[version, 0]].concat();
    match version {
        1 => bytes.extend((text.len() as u16).to_le_bytes()),
        _ => bytes.extend((text.len() as u32).to_le_bytes()),
    }
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn zipped(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        header.insert(name.to_string(), entry);
        data.extend(bytes);
    }
    let mut text = serde_json::Value::Object(header).to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &data].concat()
}

/// A checkpoint as torch writes it: `a.w` is the transpose of [[0, 1, 2], [3, 4, 5]].
fn torch() -> Vec<u8> {
    let mut pickle = b"\x80\x02}X\x01\x00\x00\x00a}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    pickle.extend(b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ");
    pickle.extend(b"K\x00K\x03K\x02\x86K\x01K\x03\x86\x89ccollections\nOrderedDict\n)RtRss.");
    let entries: [(&str, &[u8]); 4] = [
        ("ae/data.pkl", &pickle),
        ("ae/byteorder", b"little"),
        ("ae/data/0", &floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
        ("ae/version", b"3\n"),
    ];
    zipped(&entries, CompressionMethod::Stored)
}

fn parquet(schema: &str, fill: impl FnOnce(&mut SerializedFileWriter<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    fill(&mut writer);
    writer.close().unwrap();
    bytes
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
    definition: Option<&[i16]>,
    repetition: Option<&[i16]>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, definition, repetition).unwrap();
    column.close().unwrap();
}

/// Columns of numbers in two row groups, so that the seam is crossed.
fn parquet_numbers(columns: &[Vec<f64>]) -> Vec<u8> {
    let fields: String = (0..columns.len()).map(|column| format!("REQUIRED DOUBLE c{column};")).collect();
    parquet(&format!("message m {{ {fields} }}"), |writer| {
        let half = columns[0].len() / 2;
        for part in [0..half, half..columns[0].len()] {
            let mut group = writer.next_row_group().unwrap();
            columns.iter().for_each(|values| column::<DoubleType>(&mut group, &values[part.clone()], None, None));
            group.close().unwrap();
        }
    })
}

/// A column of ids beside a column of lists of these lengths.
fn parquet_lists(lengths: &[usize]) -> Vec<u8> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for &length in lengths {
        for index in 0..length.max(1) {
            definition.push(i16::from(length > 0));
            repetition.push(i16::from(index > 0));
        }
        let first = values.len();
        values.extend((first..first + length).map(|value| value as f32));
    }
    let schema = "message m { REQUIRED INT32 id;
        REQUIRED group v (LIST) { REPEATED group list { REQUIRED FLOAT element; } } }";
    parquet(schema, |writer| {
        let mut group = writer.next_row_group().unwrap();
        column::<Int32Type>(&mut group, &(0..lengths.len() as i32).collect::<Vec<_>>(), None, None);
        column::<FloatType>(&mut group, &values, Some(&definition), Some(&repetition));
        group.close().unwrap();
    })
}

fn parquet_text() -> Vec<u8> {
    parquet("message m { OPTIONAL BYTE_ARRAY name (UTF8); REQUIRED INT32 n; }", |writer| {
        let mut group = writer.next_row_group().unwrap();
        let names = [ByteArray::from("wing"), ByteArray::from("tail")];
        column::<ByteArrayType>(&mut group, &names, Some(&[1, 0, 1]), None);
        column::<Int32Type>(&mut group, &[-1, 0, 7], None, None);
        group.close().unwrap();
    })
}

/// One number as numpy stores it.
fn encoded(descr: &str, value: f32) -> Vec<u8> {
    let integer = value as u8;
    let mut bytes = match &descr[1..] {
        "i1" | "u1" => vec![integer],
        "i2" | "u2" => u16::from(integer).to_le_bytes().to_vec(),
        "i4" | "u4" => u32::from(integer).to_le_bytes().to_vec(),
        "i8" | "u8" => u64::from(integer).to_le_bytes().to_vec(),
        "f2" => f16::from_f32(value).to_le_bytes().to_vec(),
        "f4" => value.to_le_bytes().to_vec(),
        "f8" => f64::from(value).to_le_bytes().to_vec(),
        other => panic!("{other}"),
    };
    if descr.starts_with('>') {
        bytes.reverse();
    }
    bytes
}

/// Values in C order, rearranged into Fortran order.
fn fortran_order(values: &[f32], dimensions: &[usize]) -> Vec<f32> {
    let mut stored = vec![0.0; values.len()];
    for (position, &value) in values.iter().enumerate() {
        let (mut rest, mut block, mut stride, mut target) = (position, values.len(), 1, 0);
        for &size in dimensions {
            block /= size;
            target += rest / block * stride;
            rest %= block;
            stride *= size;
        }
        stored[target] = value;
    }
    stored
}

#[test]
fn npy_of_every_type_order_and_version() {
    let directory = Directory::new();
    let values: Vec<f32> = (0..24).map(|value| value as f32).collect();
    let kinds =
        ["|i1", "|u1", "<i2", ">u2", "<i4", ">i4", "<u4", "<i8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"];
    for dimensions in [&[24][..], &[8, 3], &[4, 3, 2], &[1, 24], &[24, 1]] {
        for descr in kinds {
            for (fortran, stored) in [(false, values.clone()), (true, fortran_order(&values, dimensions))] {
                let data: Vec<u8> = stored.iter().flat_map(|&value| encoded(descr, value)).collect();
                for version in 1..=3 {
                    let bytes = npy(version, descr, fortran, dimensions, &data);
                    let read = rows(&directory.write("x.npy", &bytes), None).unwrap();
                    assert_eq!(read.values, values, "{descr} {fortran} {dimensions:?}");
                    assert_eq!(read.rows * read.width, 24);
                    assert_eq!(read.rows_per_sample, (dimensions.len() == 3).then_some(3));
                    let packed = zipped(&[("k.npy", &bytes)], CompressionMethod::Deflated);
                    let read = rows(&directory.write("x.npz", &packed), Some("k")).unwrap();
                    assert_eq!(read.values, values, "npz {descr} {fortran} {dimensions:?}");
                }
            }
        }
    }
    let truth = npy(1, "|b1", false, &[2, 2], &[0, 1, 1, 0]);
    assert_eq!(rows(&directory.write("b.npy", &truth), None).unwrap().values, [0.0, 1.0, 1.0, 0.0]);
    let read = rows(&directory.write("h.npy", &npy(1, ">f2", true, &[2, 2], &[0; 8])), None).unwrap();
    assert_eq!(read.kind, "npy float16, big-endian, Fortran order");
}

#[test]
fn rows_can_be_read_in_parts() {
    let directory = Directory::new();
    let values: Vec<f32> = (0..30).map(|value| value as f32).collect();
    let path = directory.write("x.npy", &npy(1, "<f4", false, &[10, 3], &floats(&values)));
    let mut reader = open_rows(&source(&path, None), &budget()).unwrap();
    assert_eq!(reader.shape(), Shape { rows: 10, width: 3, rows_per_sample: None });
    let mut seen = Vec::new();
    loop {
        // 14 values are 4 whole rows of 3.
        let mut out = vec![0.0; 14];
        let count = reader.read(&mut out).unwrap();
        if count == 0 {
            break;
        }
        seen.extend_from_slice(&out[..count * 3]);
    }
    assert_eq!(seen, values);
    let (range, shape) = plain_f32(&source(&path, None)).unwrap().unwrap();
    assert_eq!((range.end - range.start, shape.rows), (120, 10));
    assert_eq!(std::fs::read(&path).unwrap()[range.start as usize..], floats(&values));
    let empty = directory.write("e.npy", &npy(1, "<f4", false, &[0, 3], &[]));
    assert_eq!(rows(&empty, None).unwrap().rows, 0);
}

#[test]
fn values_that_are_not_finite_are_refused_or_dropped() {
    let directory = Directory::new();
    let bytes = npy(1, "<f4", false, &[3, 2], &floats(&[1.0, 2.0, 3.0, f32::NAN, f32::INFINITY, 6.0]));
    let path = directory.write("x.npy", &bytes);
    let error = message(rows(&path, None));
    for part in ["2 values", "row 1, column 1", "npy float32", "drop-rows", "x.npy"] {
        assert!(error.contains(part), "{error}");
    }
    let read = read_rows(&source(&path, None), Finite::DropRows, &budget()).unwrap();
    assert_eq!((read.values, read.rows, read.dropped), (vec![1.0, 2.0], 1, vec![1, 2]));
    let bytes = safetensors(&[("w", "F32", &[2], floats(&[1.0, f32::NAN]))]);
    let error = message(read_tensors(&directory.write("w.safetensors", &bytes), &budget()));
    assert!(error.contains("tensor `w`") && error.contains("first at value 1"), "{error}");
}

#[test]
fn arrays_of_npz_are_chosen_by_key() {
    let directory = Directory::new();
    let a = npy(1, "<f4", false, &[1, 2], &floats(&[1.0, 2.0]));
    let b = npy(1, "<f4", true, &[2, 2], &floats(&[1.0, 2.0, 3.0, 4.0]));
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let path = directory.write("x.npz", &zipped(&[("a.npy", &a), ("b.npy", &b)], method));
        let error = message(rows(&path, None));
        assert!(error.contains("one of a, b") && error.contains("FILE:a"), "{error}");
        assert!(message(rows(&path, Some("c"))).contains("one of a, b"));
        assert_eq!(rows(&path, Some("b")).unwrap().values, [1.0, 3.0, 2.0, 4.0]);
        let tensors = read_tensors(&path, &budget()).unwrap();
        assert_eq!(tensors["b"].values, [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(tensors["a"].shape, [1, 2]);
    }
    let path = directory.write("y.npz", &zipped(&[("a.npy", &a)], CompressionMethod::Stored));
    assert_eq!(rows(&path, None).unwrap().values, [1.0, 2.0]);
}

#[test]
fn safetensors_of_every_number_type() {
    let directory = Directory::new();
    let one = |dtype: &str, bytes: Vec<u8>| {
        let path = directory.write("w.safetensors", &safetensors(&[("w", dtype, &[1, 2], bytes)]));
        rows(&path, None).map(|rows| rows.values)
    };
    let expected = [3.0f32, 5.0];
    assert_eq!(one("F32", floats(&expected)).unwrap(), expected);
    assert_eq!(one("F64", expected.map(|v| f64::from(v).to_le_bytes()).concat()).unwrap(), expected);
    assert_eq!(one("F16", expected.map(|v| f16::from_f32(v).to_le_bytes()).concat()).unwrap(), expected);
    assert_eq!(one("BF16", expected.map(|v| bf16::from_f32(v).to_le_bytes()).concat()).unwrap(), expected);
    assert_eq!(one("I64", [3i64, 5].map(i64::to_le_bytes).concat()).unwrap(), expected);
    assert_eq!(one("U8", vec![3, 5]).unwrap(), expected);
    assert!(message(one("F8_E4M3", vec![3, 5])).contains("F8_E4M3"));
    assert!(message(one("F9", vec![3, 5])).contains("F9"));

    let (w, b) = (floats(&[1.0, 2.0]), floats(&[3.0]));
    let both = safetensors(&[("b", "F32", &[1], b), ("w", "F32", &[1, 2], w.clone())]);
    let path = directory.write("w.safetensors", &both);
    assert_eq!(rows(&path, None).unwrap().values, [1.0, 2.0]);
    assert_eq!(rows(&path, Some("b")).unwrap().values, [3.0]);
    assert!(plain_f32(&source(&path, Some("w"))).unwrap().is_some());
    let two = safetensors(&[("v", "F32", &[1, 2], w.clone()), ("w", "F32", &[1, 2], w)]);
    assert!(message(rows(&directory.write("v.safetensors", &two), None)).contains("one of v, w"));
}

#[test]
fn safetensors_with_wrong_headers_are_refused() {
    let directory = Directory::new();
    for header in [
        r#"{"a":{"dtype":"F32","shape":[1152921504606846976,16],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
        r#"{"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}}"#,
    ] {
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        let path = directory.write("a.safetensors", &bytes);
        assert!(rows(&path, None).is_err() && read_tensors(&path, &budget()).is_err(), "{header}");
    }
    let path = directory.write("a.safetensors", &[&u64::MAX.to_le_bytes()[..], b"{}"].concat());
    assert!(message(rows(&path, None)).contains("too long"));
}

#[test]
fn sparse_rows_are_sorted_and_added_up() {
    let directory = Directory::new();
    let integers = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let file = |format: &[u8], indptr: &[i32], indices: &[i32], data: &[f32], shape: &[i32]| {
        let entries = [
            ("indices.npy", npy(1, "<i4", false, &[indices.len()], &integers(indices))),
            ("indptr.npy", npy(1, "<i4", false, &[indptr.len()], &integers(indptr))),
            ("format.npy", npy(1, "|S3", false, &[], format)),
            ("shape.npy", npy(1, "<i4", false, &[shape.len()], &integers(shape))),
            ("data.npy", npy(1, "<f4", false, &[data.len()], &floats(data))),
        ];
        let entries: Vec<(&str, &[u8])> = entries.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let path = directory.write("s.npz", &zipped(&entries, CompressionMethod::Deflated));
        read_sparse(&source(&path, None), &budget())
    };
    // Row 0: column 3 twice (1 + 2) and column 1; row 1 empty; row 2: column 0, and column 2 that cancels out.
    let read = file(b"csr", &[0, 3, 3, 6], &[3, 1, 3, 2, 0, 2], &[1.0, 5.0, 2.0, 4.0, 7.0, -4.0], &[3, 4]);
    let read = read.unwrap().unwrap();
    assert_eq!((read.rows, read.columns), (3, 4));
    assert_eq!(read.offsets, [0, 2, 2, 3]);
    assert_eq!((read.indices, read.values), (vec![1, 3, 0], vec![5.0, 3.0, 7.0]));

    assert!(message(file(b"csc", &[0, 0], &[], &[], &[1, 1])).contains("tocsr"));
    let nan = message(file(b"csr", &[0, 0, 1], &[1], &[f32::NAN], &[2, 4]));
    assert!(nan.contains("row 1, column 1"), "{nan}");
    let bad: [(&[i32], &[i32], &[i32]); 7] = [
        (&[0, 1], &[4], &[1, 4]),
        (&[0, 1], &[-1], &[1, 4]),
        (&[0, 2], &[1], &[1, 4]),
        (&[0, 0], &[1], &[1, 4]),
        (&[1, 1], &[1], &[1, 4]),
        (&[0, 1, 0, 1], &[1], &[3, 4]),
        (&[0, 1], &[1], &[-1, 4]),
    ];
    for (indptr, indices, shape) in bad {
        assert!(file(b"csr", indptr, indices, &[1.0], shape).is_err(), "{indptr:?} {indices:?}");
    }
    let array = npy(1, "<f4", false, &[0, 1], &[]);
    let plain = directory.write("p.npz", &zipped(&[("a.npy", &array)], CompressionMethod::Stored));
    assert!(read_sparse(&source(&plain, None), &budget()).unwrap().is_none());
}

#[test]
fn torch_strides_and_names_are_read() {
    let directory = Directory::new();
    let path = directory.write("ae.pt", &torch());
    let tensors = read_tensors(&path, &budget()).unwrap();
    assert_eq!(tensors.keys().collect::<Vec<_>>(), ["a.w"]);
    assert_eq!(tensors["a.w"].shape, [3, 2]);
    // The storage is 0 to 5; with strides (1, 3) row r is (r, r + 3).
    assert_eq!(tensors["a.w"].values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(rows(&path, Some("a.w")).unwrap().width, 2);
    assert_eq!(rows(&directory.write("other", &torch()), None).unwrap().rows, 3);
    assert!(message(rows(&path, Some("b"))).contains("one of a.w"));
    let old = directory.write("old.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.");
    assert!(message(read_tensors(&old, &budget())).contains("the pickle ends too early"));
    let evil = b"\x80\x02cposix\nsystem\nX\x01\x00\x00\x00x\x85R.";
    let evil = directory.write("evil.pt", &zipped(&[("ae/data.pkl", evil)], CompressionMethod::Stored));
    assert!(message(read_tensors(&evil, &budget())).contains("posix.system"));
}

#[test]
fn recursive_torch_pickles_are_refused() {
    let directory = Directory::new();
    let read = |pickle: &[u8]| {
        read_tensors(&directory.write("x.pt", &zipped(&[("x/data.pkl", pickle)], CompressionMethod::Stored)), &budget())
    };
    // A list that holds itself, and 40 lists each of which holds the one before twice.
    assert!(message(read(b"\x80\x02]q\x00h\x00a.")).contains("nested too deeply"));
    let twice = [b"\x80\x02]q\x00".to_vec(), b"](h\x00h\x00eq\x00".repeat(40), b".".to_vec()].concat();
    assert!(message(read(&twice)).contains("nested too deeply"));
}

#[test]
fn parquet_as_rows_and_as_text() {
    let directory = Directory::new();
    let columns = [vec![0.0, 1.0, 2.0, 3.0, 4.0], vec![10.0, 11.0, 12.0, 13.0, 14.0]];
    let path = directory.write("x.parquet", &parquet_numbers(&columns));
    let read = rows(&path, None).unwrap();
    assert_eq!((read.rows, read.width), (5, 2));
    assert_eq!(read.values, [0.0, 10.0, 1.0, 11.0, 2.0, 12.0, 3.0, 13.0, 4.0, 14.0]);
    assert_eq!(rows(&path, Some("c1")).unwrap().values, [10.0, 11.0, 12.0, 13.0, 14.0]);
    assert!(message(rows(&path, Some("z"))).contains("one of c0, c1"));

    let path = directory.write("v.parquet", &parquet_lists(&[3, 3]));
    assert!(message(rows(&path, None)).contains("one of id, v"));
    let read = rows(&path, Some("v")).unwrap();
    assert_eq!((read.rows, read.values), (2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    // 2 + 4 values are 3 per row on average, so that only the levels show it; an empty list counts as one value.
    for lengths in [&[2, 4][..], &[3, 2], &[0, 1], &[1, 0]] {
        let path = directory.write("v.parquet", &parquet_lists(lengths));
        assert!(rows(&path, Some("v")).is_err(), "{lengths:?}");
    }
    let path = directory.write("t.parquet", &parquet_text());
    assert!(message(rows(&path, None)).contains("column `name`"));
    let table = read_table(&path, &budget()).unwrap();
    assert_eq!(table.header, ["name", "n"]);
    assert_eq!(table.cells, [["wing", "-1"], ["", "0"], ["tail", "7"]]);
    assert_eq!(table.position(1), "row 1");
}

/// A file of `tests/golden/parquet`, every page of which has a checksum.
fn checked_parquet(name: &str) -> Vec<u8> {
    std::fs::read(crate::golden("parquet").join(name)).unwrap()
}

#[test]
fn a_flipped_bit_of_a_parquet_page_is_detected() {
    let directory = Directory::new();
    let expected: Vec<f32> = (1..=36).map(|value| value as f32).collect();
    for name in ["plain.parquet", "packed.parquet"] {
        assert_eq!(rows(&directory.write(name, &checked_parquet(name)), None).unwrap().values, expected);
    }
    // One bit, as a disk might flip it: 19 becomes -19.
    let mut bytes = checked_parquet("plain.parquet");
    let start = bytes.windows(4).position(|four| four == 19f32.to_le_bytes()).unwrap();
    bytes[start + 3] ^= 0x80;
    let error = message(rows(&directory.write("x.parquet", &bytes), None));
    assert!(error.contains("checksum (CRC)") && error.contains("help: ") && error.contains("x.parquet"), "{error}");
}

#[test]
fn endless_lists_in_parquet_headers_are_refused() {
    let directory = Directory::new();
    // Ten times the unknown field 100 with a list of 2³¹ - 1 booleans, which take no bytes.
    let endless = [0x09, 0xc8, 0x01, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07].repeat(10);
    let bytes = checked_parquet("plain.parquet");
    let length = u32::from_le_bytes(*bytes[..bytes.len() - 4].last_chunk().unwrap()) as usize;
    let (pages, footer) = bytes[..bytes.len() - 8].split_at(bytes.len() - 8 - length);
    let longer = [&footer[..length - 1], &endless, &[0]].concat();
    let end = (longer.len() as u32).to_le_bytes();
    let path = directory.write("x.parquet", &[pages, &longer, &end, b"PAR1"].concat());
    assert!(message(rows(&path, None)).contains("footer"));
    // The same in the header of the first page.
    let mut header = [&[0x15, 0, 0x15, 0, 0x15, 0][..], &endless, &[0]].concat();
    header.extend(&bytes[4 + header.len()..]);
    let path = directory.write("y.parquet", &[b"PAR1", &header[..]].concat());
    assert!(message(rows(&path, None)).contains("the page at byte 4"), "{}", message(rows(&path, None)));
}

#[test]
fn files_without_numbers_are_refused() {
    let directory = Directory::new();
    assert!(message(rows(directory.0.path(), None)).contains("a directory"));
    assert!(message(rows(&directory.0.path().join("absent.npy"), None)).contains("no such file"));
    assert!(message(rows(&directory.write("empty.npy", b""), None)).contains("is empty"));
    assert!(message(rows(&directory.write("x.csv", b"a\n1\n"), None)).contains("numpy.save"));
    assert!(message(read_table(&directory.write("x.npy", b"a"), &budget())).contains(".csv"));
    assert!(message(read_tensors(&directory.write("x.npy", b"a"), &budget())).contains(".safetensors"));
    let keyed = Source { path: directory.write("k.npy", b"x"), key: Some("k".into()) };
    assert!(message(open_rows(&keyed, &budget())).contains("key"));
    let scalar = directory.write("s.npy", &npy(1, "<f4", false, &[], &[0; 4]));
    assert!(message(rows(&scalar, None)).contains("dimensions"));
    let object = directory.write("o.npy", &npy(1, "|O", false, &[1], b"x"));
    assert!(message(rows(&object, None)).contains("allow_pickle=False"));
}

#[test]
fn wrong_sizes_are_refused_before_memory_is_reserved() {
    let directory = Directory::new();
    let tiny = Budget::new(1 << 16);
    for dimensions in [&[1usize << 60, 4][..], &[1 << 60], &[1 << 40, 1 << 10], &[1 << 20, 1 << 20, 1 << 20]] {
        for fortran in [false, true] {
            let bytes = npy(1, "<f4", fortran, dimensions, &[0; 16]);
            let path = directory.write("x.npy", &bytes);
            assert!(read_rows(&source(&path, None), Finite::Refuse, &tiny).is_err());
            let path = directory.write("x.npz", &zipped(&[("a.npy", &bytes)], CompressionMethod::Deflated));
            assert!(read_rows(&source(&path, None), Finite::Refuse, &tiny).is_err());
            assert!(read_tensors(&path, &tiny).is_err());
        }
    }
    // A valid file that is larger than the budget.
    let path = directory.write("big.npy", &npy(1, "<f4", false, &[1 << 15, 1], &vec![0; 1 << 17]));
    assert!(message(read_rows(&source(&path, None), Finite::Refuse, &tiny)).contains("not enough memory"));
    assert_eq!(tiny.left(), 1 << 16);
}

/// Small good files of every format.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let array = npy(1, "<f4", false, &[2, 2], &floats(&[1.0, 2.0, 3.0, 4.0]));
    vec![
        ("a.npy", array.clone()),
        ("f.npy", npy(2, ">f2", true, &[2, 2], &[0; 8])),
        ("a.npz", zipped(&[("k.npy", &array)], CompressionMethod::Stored)),
        ("d.npz", zipped(&[("k.npy", &array)], CompressionMethod::Deflated)),
        ("a.safetensors", safetensors(&[("w", "F32", &[2, 1], floats(&[1.0, 2.0]))])),
        ("a.pt", torch()),
        ("a.parquet", parquet_numbers(&[vec![1.0, 2.0]])),
        ("v.parquet", parquet_text()),
    ]
}

#[test]
fn truncated_files_are_refused_at_every_length() {
    let directory = Directory::new();
    for (name, bytes) in samples() {
        assert!(read_in_every_way(&directory.write(name, &bytes)), "{name} is good");
        for length in 0..bytes.len() {
            assert!(!read_in_every_way(&directory.write(name, &bytes[..length])), "{name} truncated to {length}");
        }
    }
    for (name, bytes) in &samples()[..2] {
        assert!(
            !read_in_every_way(&directory.write(name, &[&bytes[..], b"x"].concat())),
            "{name} with a byte too many"
        );
    }
}

#[test]
fn flipped_bits_never_panic_and_archives_detect_them() {
    let directory = Directory::new();
    for (name, bytes) in samples() {
        for byte in 0..bytes.len() {
            for bit in [0, 3, 7] {
                let mut flipped = bytes.clone();
                flipped[byte] ^= 1 << bit;
                read_in_every_way(&directory.write(name, &flipped));
            }
        }
    }
    // The checksum of an entry covers its numbers.
    let array = npy(1, "<f4", false, &[2, 2], &floats(&[1.0, 2.0, 3.0, 4.0]));
    let mut bytes = zipped(&[("k.npy", &array)], CompressionMethod::Stored);
    let start = bytes.windows(array.len()).position(|window| window == array).unwrap();
    bytes[start + array.len() - 3] ^= 1;
    assert!(rows(&directory.write("c.npz", &bytes), None).is_err());
    assert!(read_tensors(&directory.write("c.npz", &bytes), &budget()).is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(96))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, sample in 0usize..8, start in 0usize..4000, patch: [u8; 6]) {
        let directory = Directory::new();
        for name in ["a.npy", "a.npz", "a.safetensors", "a.pt", "a.parquet", "a.csv", "a.jsonl", "a"] {
            read_in_every_way(&directory.write(name, &bytes));
        }
        // A good file with a patch of noise reaches deeper than noise alone.
        let (name, mut good) = samples().swap_remove(sample);
        let start = start % good.len();
        good.iter_mut().skip(start).zip(patch).for_each(|(byte, noise)| *byte = noise);
        read_in_every_way(&directory.write(name, &good));
    }
}

fn golden(name: &str) -> PathBuf {
    crate::golden("checkpoints").join(name)
}

#[test]
fn every_golden_checkpoint_is_read() {
    for (file, encoder) in [
        ("dl_batchtopk/ae.pt", "encoder.weight"),
        ("dl_gated/ae.pt", "encoder.weight"),
        ("dl_jumprelu/ae.pt", "W_enc"),
        ("dl_matryoshka/ae.pt", "W_enc"),
        ("dl_relu/ae.pt", "encoder.weight"),
        ("dl_topk/ae.pt", "encoder.weight"),
        ("gemma_scope/layer_3/width_16k/average_l0_20/params.npz", "W_enc"),
        ("sl_gated/sae_weights.safetensors", "W_enc"),
        ("sl_jumprelu/sae_weights.safetensors", "W_enc"),
        ("sl_standard/sae_weights.safetensors", "W_enc"),
        ("sl_standard_layer_norm/sae_weights.safetensors", "W_enc"),
        ("sl_topk/sae_weights.safetensors", "W_enc"),
        ("sparsify/layers.3/sae.safetensors", "encoder.weight"),
    ] {
        let tensors = read_tensors(&golden(file), &budget()).unwrap();
        // Every checkpoint has 24 inputs and 64 latents, one way round or the other.
        let mut shape = tensors[encoder].shape.clone();
        shape.sort_unstable();
        assert_eq!(shape, [24, 64], "{file}");
        for tensor in tensors.values() {
            assert_eq!(tensor.values.len(), tensor.shape.iter().product::<usize>(), "{file}");
        }
    }
}

#[test]
fn a_golden_checkpoint_encodes_as_torch_does() {
    // The encoder of this checkpoint was saved as a transposed view: strides (1, 64) for 64 × 24.
    let tensors = read_tensors(&golden("dl_relu/ae.pt"), &budget()).unwrap();
    let x = rows(&golden("x.npy"), None).unwrap();
    let codes = rows(&golden("dl_relu/codes.npy"), None).unwrap();
    let reconstruction = rows(&golden("dl_relu/recon.npy"), None).unwrap();
    let [bias, encoder, encoder_bias, decoder] =
        ["bias", "encoder.weight", "encoder.bias", "decoder.weight"].map(|name| &tensors[name].values);
    assert_eq!(tensors["encoder.weight"].shape, [64, 24]);
    assert_eq!((x.width, codes.width, codes.rows), (24, 64, x.rows));
    let dot =
        |terms: &mut dyn Iterator<Item = (f32, f32)>| terms.map(|(a, b)| f64::from(a) * f64::from(b)).sum::<f64>();
    for row in 0..x.rows {
        let (x, codes) = (&x.values[row * 24..][..24], &codes.values[row * 64..][..64]);
        for latent in 0..64 {
            let sum = dot(&mut (0..24).map(|column| (x[column] - bias[column], encoder[latent * 24 + column])));
            let code = (sum + f64::from(encoder_bias[latent])).max(0.0);
            assert!((code - f64::from(codes[latent])).abs() < 1e-5, "row {row}, latent {latent}");
        }
        for column in 0..24 {
            let sum = dot(&mut (0..64).map(|latent| (codes[latent], decoder[column * 64 + latent])));
            let value = sum + f64::from(bias[column]);
            let expected = f64::from(reconstruction.values[row * 24 + column]);
            assert!((value - expected).abs() < 1e-5, "row {row}, column {column}");
        }
    }
}
