//! A server of chat completions on this machine, for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// The lines before the body, with the first one.
    pub head: String,
    /// The body.
    pub body: Value,
}

impl Request {
    /// What the judge is told to do.
    pub fn system(&self) -> &str {
        self.body["messages"][0]["content"].as_str().unwrap_or_default()
    }

    /// The answer of a judge that says something useful.
    pub fn sensible(&self) -> Reply {
        let answer = if self.system().contains("This latent activates on") {
            "This latent activates on odd words."
        } else {
            "1, 2 and 5."
        };
        Reply::answer(answer)
    }
}

/// What a server does with a request.
pub enum Reply {
    /// Status, more header lines, body.
    Http(u16, &'static str, String),
    /// Nothing, until the client leaves.
    Hang,
}

impl Reply {
    /// A completion.
    pub fn answer(text: &str) -> Reply {
        let body = json!({"id": "x", "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]});
        Reply::Http(200, "", body.to_string())
    }
}

/// A server that lasts to the end of the test.
pub struct ChatServer {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl ChatServer {
    /// A server that replies to the n-th request, from 0.
    pub fn new(reply: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> ChatServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, reply): (Arc<Mutex<Vec<Request>>>, _) = (Arc::default(), Arc::new(reply));
        let shared = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, reply) = (shared.clone(), reply.clone());
                std::thread::spawn(move || serve(stream, &requests, &*reply));
            }
        });
        ChatServer { port, requests }
    }

    /// The base address.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, requests: &Mutex<Vec<Request>>, reply: &dyn Fn(usize, &Request) -> Reply) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = Request { head, body: serde_json::from_slice(&body).ok()? };
    let number = {
        let mut requests = requests.lock().unwrap();
        requests.push(request.clone());
        requests.len() - 1
    };
    let mut stream = stream;
    match reply(number, &request) {
        Reply::Http(status, header, body) => {
            let text = format!(
                "HTTP/1.1 {status} Some Reason\r\n{header}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(text.as_bytes()).ok()
        }
        Reply::Hang => {
            std::thread::sleep(Duration::from_secs(120));
            Some(())
        }
    }
}
