//! Static export of the explorer: a folder for a web server, or a single standalone file. Both are written piece by piece.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use base64::prelude::BASE64_STANDARD;
use base64::write::EncoderWriter;
use etalon::error::{Error, InputError, Result};
use etalon::store::disk::NewFile;

use super::bundle;
use super::catalog::Catalog;
use super::response::Resource;

/// Maximum size of a single file: browsers open larger ones slowly.
const MAX_SINGLE: u64 = 256 << 20;

/// Size of a write to disk.
const BUFFER: usize = 1 << 16;

/// Parts of the page that a single file replaces, in their order.
const MARKERS: [&str; 4] = [
    "<!--policy-->",
    "<link rel=\"stylesheet\" href=\"./app.css\">",
    "<script defer src=\"./app.js\"></script>",
    "</body>",
];

/// Writes the pages and all data addresses to a folder; returns the number of files.
pub fn folder(catalog: &Catalog, out: &Path) -> Result<usize> {
    let addresses = catalog.addresses();
    let pages = ["/app.js", "/app.css"].map(String::from);
    // The page is written last, because it refers to the others.
    for address in addresses.iter().chain(&pages).chain([&"/index.html".to_string()]) {
        let (resource, path) = (resource(catalog, address)?, out.join(address.trim_start_matches('/')));
        write_file(&path, |out| resource.write_to(out))?;
    }
    Ok(addresses.len() + pages.len() + 1)
}

/// Writes a single standalone file; returns its length.
pub fn single(catalog: &Catalog, out: &Path) -> Result<u64> {
    let addresses = catalog.addresses();
    let length = addresses.iter().map(|address| Ok(resource(catalog, address)?.length())).sum::<Result<u64>>()?;
    if length > MAX_SINGLE {
        return Err(InputError::new("the results are too large for a single file")
            .expected(format!("at most {} MB", MAX_SINGLE >> 20))
            .advice("use --out and share the folder")
            .file(out)
            .into());
    }
    let mut parts = Vec::new();
    let mut rest = bundle::PAGE;
    for marker in MARKERS {
        let (before, after) =
            rest.split_once(marker).ok_or_else(|| Error::Bug(format!("the page has no `{marker}`")))?;
        parts.push(before);
        rest = after;
    }
    let mut hashes = bundle::HASHES.lines();
    let (script, style) = (hashes.next().unwrap_or_default(), hashes.next().unwrap_or_default());
    let policy = format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    );
    let find = |address: &str| resource(catalog, address).map_err(io::Error::other);
    let replacement = |marker: usize, out: &mut dyn Write| match marker {
        0 => write!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">"),
        1 => write!(out, "<style>{}</style>", bundle::STYLE),
        2 => {
            write!(out, "<script type=\"application/json\" id=\"data\">")?;
            write_data(&addresses, find, &mut WithoutTags(&mut *out))?;
            write!(out, "</script>")
        }
        _ => write!(out, "<script>{}</script></body>", bundle::SCRIPT),
    };
    write_file(out, |out| {
        for (marker, before) in parts.iter().enumerate() {
            out.write_all(before.as_bytes())?;
            replacement(marker, out)?;
        }
        out.write_all(rest.as_bytes())
    })
}

/// Writes an object with the content of all addresses.
fn write_data(
    addresses: &[String],
    find: impl Fn(&str) -> io::Result<Resource>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (number, address) in addresses.iter().enumerate() {
        let resource = find(address)?;
        let name = serde_json::to_string(address.trim_start_matches('/'))?;
        write!(out, "{}{name}:", if number == 0 { "{" } else { "," })?;
        match address.starts_with("/img/") {
            true => write_image(resource, out)?,
            false => resource.write_to(out)?,
        }
    }
    out.write_all(b"}")
}

/// Writes an image as a data URL.
fn write_image(resource: Resource, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "\"data:{};base64,", resource.kind())?;
    let mut encoder = EncoderWriter::new(&mut *out, &BASE64_STANDARD);
    resource.write_to(&mut encoder)?;
    encoder.finish()?;
    drop(encoder);
    out.write_all(b"\"")
}

/// Escapes `<`, which in a script element can end the data or start a comment. In JSON it is only inside strings.
struct WithoutTags<'a>(&'a mut dyn Write);

impl Write for WithoutTags<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (number, part) in bytes.split(|byte| *byte == b'<').enumerate() {
            if number > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a file piece by piece; returns its length.
fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<u64> {
    let mut file = NewFile::create(path)?;
    let mut out = BufWriter::with_capacity(BUFFER, Counted(&mut file, 0));
    write(&mut out).and_then(|()| out.flush()).map_err(Error::io("write", path))?;
    let length = out.get_ref().1;
    drop(out);
    file.finish()?;
    Ok(length)
}

/// A file and the number of bytes written to it.
struct Counted<'a>(&'a mut NewFile, u64);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::Write::write(self.0, bytes)?;
        self.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::flush(self.0)
    }
}

fn resource(catalog: &Catalog, address: &str) -> Result<Resource> {
    catalog.get(address)?.ok_or_else(|| Error::Bug(format!("{address} is listed but missing")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script() {
        let mut written = Vec::new();
        let find = |address: &str| match address {
            "/img/0" => Ok(Resource::whole("image/png", &[0x89u8, 0x50][..])),
            _ => Ok(Resource::whole("application/json", r#"{"a":"</script><!--"}"#)),
        };
        let addresses = ["/api/a.json", "/img/0"].map(String::from);
        write_data(&addresses, find, &mut WithoutTags(&mut written)).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text, r#"{"api/a.json":{"a":"\u003c/script>\u003c!--"},"img/0":"data:image/png;base64,iVA="}"#);
    }

    #[test]
    fn the_page_has_every_marker_that_a_single_file_replaces() {
        let mut rest = bundle::PAGE;
        for marker in MARKERS {
            assert_eq!(bundle::PAGE.matches(marker).count(), 1, "{marker}");
            rest = rest.split_once(marker).unwrap().1;
        }
        assert!(!bundle::SCRIPT.contains("</script") && !bundle::STYLE.contains("</style"));
        assert_eq!(bundle::HASHES.lines().filter(|line| line.starts_with("sha256-")).count(), 2);
    }
}
