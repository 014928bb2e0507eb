//! Foreign files built byte by byte, so that tests can corrupt any part.

/// A numpy array with any header.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    npy_header(&format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"), data)
}

/// A numpy array whose header is this text.
pub fn npy_header(text: &str, data: &[u8]) -> Vec<u8> {
    let mut header = text.to_string();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// Dimensions as numpy writes them.
pub fn shape(dimensions: &[usize]) -> String {
    dimensions.iter().fold(String::from("("), |text, size| format!("{text}{size}, ")) + ")"
}

/// A valid array of `f32`.
pub fn npy_f32(dimensions: &[usize], values: &[f32]) -> Vec<u8> {
    npy("<f4", false, &shape(dimensions), &le(values))
}

/// Values as little-endian bytes.
pub fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// An array of integers.
pub fn npy_i64(values: &[i64]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    npy("<i8", false, &shape(&[values.len()]), &data)
}

/// A safetensors file with this header.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// The weights of a SAELens dictionary of width 4 and 6 latents, some of them under other names or shapes.
pub fn saelens(tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let (mut header, mut data) = (String::new(), Vec::new());
    for (name, dimensions) in tensors {
        let (start, length) = (data.len(), dimensions.iter().product::<usize>());
        data.extend(le(&(0..length).map(|index| (index % 7) as f32 / 7.0 - 0.4).collect::<Vec<_>>()));
        let comma = if header.is_empty() { "" } else { "," };
        let end = data.len();
        header +=
            &format!(r#"{comma}"{name}":{{"dtype":"F32","shape":{dimensions:?},"data_offsets":[{start},{end}]}}"#);
    }
    safetensors(&format!("{{{header}}}"), &data)
}

/// The valid weights.
pub const SAELENS: [(&str, &[usize]); 4] = [("W_enc", &[4, 6]), ("b_enc", &[6]), ("W_dec", &[6, 4]), ("b_dec", &[4])];

/// The settings of the dictionary.
pub const SAELENS_SETTINGS: &str = r#"{"d_in": 4, "d_sae": 6, "dtype": "float32", "apply_b_dec_to_input": true,
"normalize_activations": "none", "reshape_activations": "none", "architecture": "standard"}"#;

/// A zip archive of uncompressed entries.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let lengths: Vec<u32> = entries.iter().map(|(_, data)| data.len() as u32).collect();
    zip_claiming(entries, &lengths)
}

/// A zip archive whose directory claims other lengths.
pub fn zip_claiming(entries: &[(&str, &[u8])], lengths: &[u32]) -> Vec<u8> {
    let packed = entries.iter().zip(lengths).map(|(&(name, data), &claimed)| ZipEntry {
        name,
        packed: data.to_vec(),
        method: 0,
        crc: crc32(data),
        lengths: [data.len() as u32, claimed],
    });
    zip_of(&packed.collect::<Vec<_>>())
}

/// A zip archive of one compressed entry.
pub fn zip_deflated(name: &str, data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, data).unwrap();
    let lengths = [data.len() as u32; 2];
    zip_of(&[ZipEntry { name, packed: encoder.finish().unwrap(), method: 8, crc: crc32(data), lengths }])
}

/// An entry of a zip archive.
struct ZipEntry<'a> {
    name: &'a str,
    packed: Vec<u8>,
    /// 0: stored, 8: deflated.
    method: u16,
    crc: u32,
    /// The length after unpacking, in the header of the entry and in the directory.
    lengths: [u32; 2],
}

fn zip_of(entries: &[ZipEntry<'_>]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for ZipEntry { name, packed, method, crc, lengths } in entries {
        let offset = bytes.len() as u32;
        let fields = |unpacked: u32| {
            let mut fields = Vec::new();
            fields.extend([20u16, 0, *method, 0, 0x21].map(u16::to_le_bytes).concat());
            fields.extend(crc.to_le_bytes());
            fields.extend((packed.len() as u32).to_le_bytes());
            fields.extend(unpacked.to_le_bytes());
            fields.extend((name.len() as u16).to_le_bytes());
            fields.extend(0u16.to_le_bytes());
            fields
        };
        bytes.extend(b"PK\x03\x04");
        bytes.extend(fields(lengths[0]));
        bytes.extend(name.as_bytes());
        bytes.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(fields(lengths[1]));
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (bytes.len() as u32, entries.len() as u16);
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].map(u16::to_le_bytes).concat());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// A matrix in the layout of `scipy.sparse.save_npz`.
pub fn scipy(rows: i64, columns: i64, starts: &[i64], indices: &[i64], data: &[f32]) -> Vec<u8> {
    zip(&[
        ("indices.npy", &npy_i64(indices)),
        ("indptr.npy", &npy_i64(starts)),
        ("format.npy", &npy("|S3", false, "()", b"csr")),
        ("shape.npy", &npy_i64(&[rows, columns])),
        ("data.npy", &npy_f32(&[data.len()], data)),
    ])
}

/// The CRC-32 of zip archives.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    })
}
