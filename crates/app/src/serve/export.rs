//! The explorer as files: a folder for any web server, or one file that opens by itself.

use std::path::Path;

use etalon::error::{Complaint, Error, Result};
use etalon::store::disk;
use serde_json::{Map, Value};

use super::bundle;
use super::shelf::Shelf;

/// A larger single file is no pleasure to open.
const LARGEST_SINGLE: usize = 256 << 20;

/// Writes the pages and every address of the data below a folder; gives the number of files.
pub fn folder(shelf: &Shelf, out: &Path) -> Result<usize> {
    let addresses = shelf.addresses();
    let pages = ["/app.js", "/app.css"].map(String::from);
    // The page comes last, since it points to the others.
    for address in addresses.iter().chain(&pages).chain([&"/index.html".to_string()]) {
        disk::write(&out.join(address.trim_start_matches('/')), &bytes(shelf, address)?)?;
    }
    Ok(addresses.len() + pages.len() + 1)
}

/// Writes everything as one file, which needs no server; gives its length.
pub fn single(shelf: &Shelf, out: &Path) -> Result<usize> {
    let mut data = Map::new();
    let mut length = 0;
    for address in shelf.addresses() {
        let bytes = bytes(shelf, &address)?;
        length += bytes.len();
        if length > LARGEST_SINGLE {
            return Err(Complaint::new("the results are too large for a single file")
                .expected(format!("at most {} MB", LARGEST_SINGLE >> 20))
                .advice("leave --single out and share the folder")
                .file(out)
                .into());
        }
        let value = if address.starts_with("/img/") {
            Value::String(data_url(&bytes))
        } else {
            serde_json::from_slice(&bytes).map_err(|error| Error::Bug(format!("data of {address}: {error}")))?
        };
        data.insert(address.trim_start_matches('/').to_string(), value);
    }
    // In a script element only `<` can end the data or open a comment.
    let data = Value::Object(data).to_string().replace('<', "\\u003c");
    let mut hashes = bundle::HASHES.lines();
    let (script, style) = (hashes.next().unwrap_or_default(), hashes.next().unwrap_or_default());
    let policy = format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    );
    let page = bundle::PAGE
        .replacen("<!--policy-->", &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">"), 1)
        .replacen("<link rel=\"stylesheet\" href=\"./app.css\">", &format!("<style>{}</style>", bundle::STYLE), 1)
        .replacen(
            "<script defer src=\"./app.js\"></script>",
            &format!("<script type=\"application/json\" id=\"data\">{data}</script>"),
            1,
        )
        .replacen("</body>", &format!("<script>{}</script></body>", bundle::SCRIPT), 1);
    disk::write(out, page.as_bytes())?;
    Ok(page.len())
}

fn bytes(shelf: &Shelf, address: &str) -> Result<Vec<u8>> {
    let answer = shelf.get(address)?.ok_or_else(|| Error::Bug(format!("{address} is listed but not there")))?;
    Ok(answer.body.into_owned())
}

fn data_url(bytes: &[u8]) -> String {
    let kind = match bytes {
        [0x89, ..] => "image/png",
        [0xff, ..] => "image/jpeg",
        _ => "image/webp",
    };
    format!("data:{kind};base64,{}", base64(bytes))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |place: usize| three.get(place).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= three.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn the_page_has_the_places_that_a_single_file_fills() {
        for place in [
            "<!--policy-->",
            "<link rel=\"stylesheet\" href=\"./app.css\">",
            "<script defer src=\"./app.js\"></script>",
            "</body>",
        ] {
            assert_eq!(bundle::PAGE.matches(place).count(), 1, "{place}");
        }
        assert!(!bundle::SCRIPT.contains("</script") && !bundle::STYLE.contains("</style"));
        assert_eq!(bundle::HASHES.lines().filter(|line| line.starts_with("sha256-")).count(), 2);
    }
}
