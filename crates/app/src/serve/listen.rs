//! The connections: at most a few at a time, each for one request and for a short while.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use etalon::error::{Complaint, Error, Result};

use super::address::Address;
use super::answer::Answer;
use super::guard::{self, Pass};
use super::request::{Refusal, Request};
use super::shelf::Shelf;
use super::token::Token;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 32;

/// How long a request may take to arrive.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// How long one write of an answer may stand still.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    house: Arc<House>,
}

/// What every connection needs.
struct House {
    address: Address,
    token: Token,
    shelf: Shelf,
    busy: AtomicUsize,
}

impl Server {
    /// Begins to listen.
    pub fn bind(address: Address, token: Token, shelf: Shelf) -> Result<Server> {
        let listener = TcpListener::bind((address.ip, address.port)).map_err(|error| {
            Complaint::new("the server cannot listen there")
                .found(error)
                .at(format!("{}, port {}", address.ip, address.port))
                .advice("another program may use the port: choose one with --port, or 0 for any that is free")
        })?;
        let local = listener.local_addr().map_err(|error| Error::Bug(format!("no address of our own: {error}")))?;
        let address = Address { port: local.port(), ..address };
        Ok(Server { listener, house: Arc::new(House { address, token, shelf, busy: AtomicUsize::new(0) }) })
    }

    /// The address to open, token included.
    pub fn url(&self) -> String {
        format!("{}/?token={}", self.house.address.url(), self.house.token.text())
    }

    /// Answers until the flag is set.
    pub fn run(self, cancel: &AtomicBool) {
        let Server { listener, house } = self;
        // Accepting waits for ever; the process ends with this function, and that thread with it.
        thread::spawn(move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => receive(&house, stream),
                    // Out of file handles, or the other side has gone: neither is helped by haste.
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
            }
        });
        while !cancel.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn receive(house: &Arc<House>, stream: TcpStream) {
    if house.busy.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
        house.busy.fetch_sub(1, Ordering::SeqCst);
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = Answer::refused(503, "too many connections at once; try again").write(&mut &stream, true);
        return;
    }
    let guest = Guest(house.clone());
    let started = thread::Builder::new().name("answer".into()).spawn(move || guest.0.serve(stream));
    // A machine that gives no thread gives no answer; dropping the stream says so.
    drop(started);
}

/// A place among the connections, given back whatever happens.
struct Guest(Arc<House>);

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl House {
    fn serve(&self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(WRITE_PATIENCE));
        let request = Request::read(&mut stream, HEAD_PATIENCE);
        let (answer, with_body) = match &request {
            Ok(request) => (self.answer(request), request.method != "HEAD"),
            Err(Refusal::Gone) => return,
            Err(Refusal::Malformed) => (Answer::refused(400, "this is not a request"), true),
            Err(Refusal::TooLong) => (Answer::refused(431, "this request is too long"), true),
            Err(Refusal::TooSlow) => (Answer::refused(408, "the request did not arrive in time"), true),
        };
        // A browser that went away is nobody to tell.
        let _ = answer.write(&mut Chunked(&stream), with_body);
        let _ = stream.shutdown(Shutdown::Write);
    }

    fn answer(&self, request: &Request) -> Answer {
        match guard::check(request, &self.address, &self.token) {
            Err(refusal) => refusal,
            Ok(pass) => {
                let mut answer = match self.shelf.get(&request.path) {
                    Ok(Some(answer)) => answer,
                    Ok(None) => Answer::refused(404, "there is nothing under this address"),
                    Err(error) => Answer::refused(500, &error.to_string()),
                };
                if let Pass::New(cookie) = pass {
                    answer.cookie = Some(cookie);
                }
                answer
            }
        }
    }
}

/// Writes in pieces, so that the time limit is for a piece and not for a large answer.
struct Chunked<'a>(&'a TcpStream);

impl Write for Chunked<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut stream = self.0;
        stream.write(&bytes[..bytes.len().min(1 << 16)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
