//! The head of a request, read within limits of size and time. Bodies are never read: nothing here takes one.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The largest head.
const LONGEST_HEAD: usize = 16 << 10;

/// The longest address.
const LONGEST_TARGET: usize = 2 << 10;

/// What a browser asks for.
#[derive(Debug, Default, PartialEq)]
pub struct Request {
    /// GET, HEAD, or something that will be refused.
    pub method: String,
    /// The address without its query, as it was sent: nothing is decoded.
    pub path: String,
    /// What followed the question mark.
    pub query: String,
    headers: Vec<(String, String)>,
}

/// Why a request was not understood: the status that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not HTTP.
    Malformed,
    /// The head is too long.
    TooLong,
    /// It did not come in time.
    TooSlow,
    /// The other side went away.
    Gone,
}

impl Request {
    /// Reads a head; all of it must have come when the patience is over.
    pub fn read(stream: &mut TcpStream, patience: Duration) -> Result<Request, Refusal> {
        let end = Instant::now() + patience;
        let mut head = Vec::new();
        let mut part = [0; 4096];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                return Err(Refusal::TooSlow);
            }
            let read = match stream.read(&mut part) {
                Ok(0) => return Err(Refusal::Gone),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(Refusal::TooSlow);
                }
                Err(_) => return Err(Refusal::Gone),
            };
            // The end may lie across two parts.
            let from = head.len().saturating_sub(3);
            head.extend_from_slice(&part[..read]);
            if let Some(place) = head[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                head.truncate(from + place);
                return Request::parse(&head);
            }
            if head.len() > LONGEST_HEAD {
                return Err(Refusal::TooLong);
            }
        }
    }

    fn parse(head: &[u8]) -> Result<Request, Refusal> {
        let text = std::str::from_utf8(head).map_err(|_| Refusal::Malformed)?;
        if text.contains('\0') {
            return Err(Refusal::Malformed);
        }
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refusal::Malformed);
        };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !target.starts_with('/') {
            return Err(Refusal::Malformed);
        }
        if target.len() > LONGEST_TARGET {
            return Err(Refusal::TooLong);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Refusal::Malformed)?;
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(Refusal::Malformed);
            }
            headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
        }
        Ok(Request { method: method.into(), path: path.into(), query: query.into(), headers })
    }

    /// A header by its name in small letters; `None` when it is missing or given twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(other, _)| other == name);
        let first = found.next()?;
        found.next().is_none().then_some(first.1.as_str())
    }

    /// Was this header sent at all?
    pub fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(other, _)| other == name)
    }

    /// A cookie by its name.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.header("cookie")?.split(';');
        pairs.filter_map(|pair| pair.trim().split_once('=')).find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// A value of the query by its name.
    pub fn asked(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_in_its_parts() {
        let request =
            Request::parse(b"GET /a.json?token=1&x=2 HTTP/1.1\r\nHost: h:1\r\nCookie: a=b; etalon=c").unwrap();
        assert_eq!((request.path.as_str(), request.asked("x")), ("/a.json", Some("2")));
        assert_eq!((request.header("host"), request.cookie("etalon")), (Some("h:1"), Some("c")));
        let twice = Request::parse(b"GET / HTTP/1.1\r\nHost: a\r\nhost: b").unwrap();
        assert_eq!((twice.header("host"), twice.has("host")), (None, true));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for head in [
            "",
            "GET",
            "GET /",
            "GET / HTTP/2",
            "GET http://a/ HTTP/1.1",
            "GET / HTTP/1.1\r\nno colon",
            "GET /\0 HTTP/1.1",
            "GET  / HTTP/1.1",
        ] {
            assert_eq!(Request::parse(head.as_bytes()), Err(Refusal::Malformed), "{head:?}");
        }
        assert_eq!(Request::parse(b"GET /\xff HTTP/1.1"), Err(Refusal::Malformed));
        let long = format!("GET /{} HTTP/1.1", "a".repeat(LONGEST_TARGET));
        assert_eq!(Request::parse(long.as_bytes()), Err(Refusal::TooLong));
    }
}
