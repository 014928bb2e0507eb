//! What the server says, and the headers that every answer carries.

use std::borrow::Cow;
use std::io::{Result, Write};

/// Scripts, styles, data and pictures come from this server alone; nothing that stands in data can run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// An answer.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The type of the content.
    pub kind: &'static str,
    /// The content.
    pub body: Cow<'static, [u8]>,
    /// How long a browser may keep it.
    pub keep: &'static str,
    /// The cookie to set.
    pub cookie: Option<String>,
}

impl Answer {
    /// Content that is there.
    pub fn found(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Answer {
        Answer { status: 200, kind, body: body.into(), keep: "no-store", cookie: None }
    }

    /// A refusal, in words.
    pub fn refused(status: u16, why: &str) -> Answer {
        let body = format!("{why}\n").into_bytes();
        Answer { status, kind: "text/plain; charset=utf-8", body: body.into(), keep: "no-store", cookie: None }
    }

    /// Writes it; without the body for HEAD.
    pub fn write(&self, out: &mut impl Write, with_body: bool) -> Result<()> {
        let words = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        let mut head = format!(
            "HTTP/1.1 {} {words}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: {}\r\nConnection: close\r\n\
             Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.keep
        );
        if self.status == 405 {
            head += "Allow: GET, HEAD\r\n";
        }
        if let Some(cookie) = &self.cookie {
            head += &format!("Set-Cookie: {cookie}\r\n");
        }
        out.write_all(head.as_bytes())?;
        out.write_all(b"\r\n")?;
        if with_body {
            out.write_all(&self.body)?;
        }
        out.flush()
    }
}
