//! Static export of the explorer: a folder for a web server, or a single standalone file.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use etalon::error::{Error, InputError, Result};
use etalon::store::disk;
use serde_json::{Map, Value};

use super::bundle;
use super::catalog::Catalog;

/// Maximum size of a single file: browsers open larger ones slowly.
const MAX_SINGLE: usize = 256 << 20;

/// Writes the pages and all data addresses to a folder; returns the number of files.
pub fn folder(catalog: &Catalog, out: &Path) -> Result<usize> {
    let addresses = catalog.addresses();
    let pages = ["/app.js", "/app.css"].map(String::from);
    // The page is written last, because it refers to the others.
    for address in addresses.iter().chain(&pages).chain([&"/index.html".to_string()]) {
        disk::write(&out.join(address.trim_start_matches('/')), &bytes(catalog, address)?)?;
    }
    Ok(addresses.len() + pages.len() + 1)
}

/// Writes a single standalone file; returns its length.
pub fn single(catalog: &Catalog, out: &Path) -> Result<usize> {
    let mut data = Map::new();
    let mut length = 0;
    for address in catalog.addresses() {
        let bytes = bytes(catalog, &address)?;
        length += bytes.len();
        if length > MAX_SINGLE {
            return Err(InputError::new("the results are too large for a single file")
                .expected(format!("at most {} MB", MAX_SINGLE >> 20))
                .advice("use --out and share the folder")
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
    // In a script element, only `<` can end the data or start a comment.
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

fn bytes(catalog: &Catalog, address: &str) -> Result<Vec<u8>> {
    let resource = catalog.get(address)?.ok_or_else(|| Error::Bug(format!("{address} is listed but missing")))?;
    resource.into_bytes().map_err(|error| Error::Bug(format!("{address} cannot be read: {error}")))
}

fn data_url(bytes: &[u8]) -> String {
    let kind = match bytes {
        [0x89, ..] => "image/png",
        [0xff, ..] => "image/jpeg",
        _ => "image/webp",
    };
    format!("data:{kind};base64,{}", BASE64_STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_become_data_urls() {
        assert_eq!(data_url(&[0x89, 0x50]), "data:image/png;base64,iVA=");
        assert_eq!(data_url(&[0xff]), "data:image/jpeg;base64,/w==");
    }

    #[test]
    fn the_page_has_every_marker_that_a_single_file_replaces() {
        for marker in [
            "<!--policy-->",
            "<link rel=\"stylesheet\" href=\"./app.css\">",
            "<script defer src=\"./app.js\"></script>",
            "</body>",
        ] {
            assert_eq!(bundle::PAGE.matches(marker).count(), 1, "{marker}");
        }
        assert!(!bundle::SCRIPT.contains("</script") && !bundle::STYLE.contains("</style"));
        assert_eq!(bundle::HASHES.lines().filter(|line| line.starts_with("sha256-")).count(), 2);
    }
}
