//! Responses: resources with content type and validator, refusals, and the headers of every response.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::stream;

/// Scripts, styles, data and images are loaded from this server only; nothing inside the data can run.
const SECURITY_HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

const TEXT: &str = "text/plain; charset=utf-8";

/// Browsers may cache the content, and revalidate it before each use.
const REVALIDATE: &str = "private, no-cache";

/// The address of an image contains its hash, so its content does not change.
const IMMUTABLE: &str = "private, max-age=31536000, immutable";

/// The content of one address.
pub struct Resource {
    kind: &'static str,
    cache: &'static str,
    /// Hash of the content before compression.
    tag: Option<String>,
    content: Content,
}

enum Content {
    Whole(Bytes),
    /// Written in pieces while it is sent.
    Streamed(u64, Writer),
}

type Writer = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

impl Resource {
    /// Content that fits into memory.
    pub fn whole(kind: &'static str, bytes: impl Into<Bytes>) -> Resource {
        let bytes = bytes.into();
        let tag = tag(&blake3::hash(&bytes));
        Resource { kind, cache: REVALIDATE, tag: Some(tag), content: Content::Whole(bytes) }
    }

    /// Content of a known length and tag that is written while it is sent.
    pub fn streamed(
        kind: &'static str,
        tag: String,
        length: u64,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
    ) -> Resource {
        Resource { kind, cache: REVALIDATE, tag: Some(tag), content: Content::Streamed(length, Box::new(write)) }
    }

    /// An image, copied from its file while it is sent.
    pub fn image(kind: &'static str, length: u64, mut file: impl io::Read + Send + 'static) -> Resource {
        let write = move |out: &mut dyn Write| io::copy(&mut file, out).map(drop);
        Resource { kind, cache: IMMUTABLE, tag: None, content: Content::Streamed(length, Box::new(write)) }
    }

    /// The content type.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The length of the content.
    pub fn length(&self) -> u64 {
        match &self.content {
            Content::Whole(bytes) => bytes.len() as u64,
            Content::Streamed(length, _) => *length,
        }
    }

    /// Writes the complete content.
    pub fn write_to(self, out: &mut dyn Write) -> io::Result<()> {
        match self.content {
            Content::Whole(bytes) => out.write_all(&bytes),
            Content::Streamed(_, write) => write(out),
        }
    }

    /// The response to a request with these headers: 304 if the browser already has this content.
    pub fn into_response(self, request: &HeaderMap) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(self.cache));
        if let Some(tag) = self.tag {
            let current = request.get_all(IF_NONE_MATCH).iter().any(|value| contains_tag(value, &tag));
            // Weak, because compressed content has the same tag.
            headers.extend(HeaderValue::try_from(format!("W/\"{tag}\"")).map(|value| (ETAG, value)));
            if current {
                return (StatusCode::NOT_MODIFIED, headers).into_response();
            }
        }
        let body = match self.content {
            Content::Whole(bytes) => Body::from(bytes),
            Content::Streamed(length, write) => {
                headers.insert(CONTENT_LENGTH, length.into());
                stream::body(write)
            }
        };
        (headers, body).into_response()
    }
}

/// The entity tag of a hash.
pub fn tag(hash: &blake3::Hash) -> String {
    hash.to_hex()[..32].to_string()
}

/// Whether an `If-None-Match` header contains the tag.
fn contains_tag(header: &HeaderValue, tag: &str) -> bool {
    let listed = |one: &str| one == "*" || one.strip_prefix("W/").unwrap_or(one).trim_matches('"') == tag;
    header.to_str().is_ok_and(|list| list.split(',').any(|one| listed(one.trim())))
}

/// A refusal with its reason.
pub fn refused(status: StatusCode, reason: &str) -> Response {
    let headers = [(CONTENT_TYPE, TEXT), (CACHE_CONTROL, "no-store")];
    let mut response = (status, headers, format!("{reason}\n")).into_response();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert("allow", HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// A refusal as bytes, for connections without a complete request.
pub fn refused_bytes(status: StatusCode, reason: &str) -> Vec<u8> {
    let length = reason.len() + 1;
    let mut text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {TEXT}\r\ncontent-length: {length}\r\ncache-control: no-store\r\n\
         connection: close\r\n"
    );
    for (name, value) in SECURITY_HEADERS {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("\r\n{reason}\n");
    text.into_bytes()
}

/// Adds the headers of every response.
pub async fn add_security_headers(mut response: Response) -> Response {
    let headers =
        SECURITY_HEADERS.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_content_is_not_sent_again() {
        let status = |header: &'static str| {
            let request = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(header))]);
            Resource::whole(TEXT, "").into_response(&request).status().as_u16()
        };
        // The first half of the BLAKE3 hash of the empty string.
        for header in ["W/\"af1349b9f5f9a1a6a0404dea36dcc949\"", "\"x\", \"af1349b9f5f9a1a6a0404dea36dcc949\"", "*"] {
            assert_eq!(status(header), 304, "{header}");
        }
        for header in ["", "\"x\"", "\"af1349b9f5f9a1a6a0404dea36dcc94\""] {
            assert_eq!(status(header), 200, "{header}");
        }
    }
}
