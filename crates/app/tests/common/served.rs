//! A running server of the explorer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Sandbox, etalon, words};

/// A running server with its port and token.
pub struct Served {
    /// The process.
    pub child: Child,
    /// Its port.
    pub port: u16,
    /// The token of its address.
    pub token: String,
    /// The directory in which it runs.
    pub sandbox: Sandbox,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response.
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| line.split_once(':').filter(|(other, _)| other.eq_ignore_ascii_case(name)).is_some();
        self.head.lines().find(|line| of(line)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

/// Serves the directory `out` of a sandbox.
pub fn serve_sandbox(sandbox: Sandbox, options: &str) -> Served {
    let child = start_server(&sandbox, options);
    connect(sandbox, child)
}

/// Starts a server of the directory `out` of a sandbox.
pub fn start_server(sandbox: &Sandbox, options: &str) -> Child {
    let arguments = format!("serve out {options}");
    let mut command = etalon(&sandbox.path("."), &words(&arguments));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until a server has read its directory.
pub fn connect(sandbox: Sandbox, mut child: Child) -> Served {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (address, token) = line.trim().split_once("/?token=").unwrap_or_else(|| panic!("not an address: {line:?}"));
    let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
    Served { child, port, token: token.into(), sandbox }
}

impl Served {
    /// Sends exactly these bytes.
    pub fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let end = all
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&all)));
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head, body: all[end + 4..].to_vec() }
    }

    /// Sends a request.
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Reply {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{headers}\r\n", self.port).as_bytes())
    }

    /// Sends a request with the token.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &format!("Cookie: etalon-{}={}\r\n", self.port, self.token))
    }
}
