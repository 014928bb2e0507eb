//! Connections: a limited number at a time, one request each, with limits on size and time.

use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use etalon::error::{Error, InputError, Result};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutWriter;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use super::address::Address;
use super::catalog::Catalog;
use super::guard::guard;
use super::response::{add_security_headers, refused, refused_bytes};
use super::token::Token;

/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: u32 = 32;

/// Maximum size of a request head.
const MAX_HEAD: usize = 16 << 10;

/// Maximum size of a connection's buffer.
const MAX_BUFFER: usize = 64 << 10;

/// Time limit for receiving the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a browser that reads no bytes of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval of checks for Ctrl-C, and time limit for open responses after it.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// A listening server.
pub struct Server {
    listener: TcpListener,
    state: Arc<ServerState>,
}

/// State shared by all requests.
pub struct ServerState {
    /// The address of the server.
    pub address: Address,
    /// The token of this server.
    pub token: Token,
    /// The content by address.
    catalog: Catalog,
}

/// One of the [`MAX_CONNECTIONS`], released when dropped.
type ConnectionSlot = OwnedSemaphorePermit;

impl Server {
    /// Starts listening.
    pub fn bind(address: Address, token: Token, catalog: Catalog) -> Result<Server> {
        let listener = TcpListener::bind((address.ip, address.port)).map_err(|error| {
            InputError::new("cannot listen on this address")
                .found(error)
                .at(format!("{}, port {}", address.ip, address.port))
                .advice("the port may be in use: choose another with --port, or 0 for a free one")
        })?;
        let local = listener.local_addr().map_err(failed("get the address of the server"))?;
        let address = Address { port: local.port(), ..address };
        Ok(Server { listener, state: Arc::new(ServerState { address, token, catalog }) })
    }

    /// The URL to open, including the token.
    pub fn url(&self) -> String {
        format!("{}/?token={}", self.state.address.url(), self.state.token.text())
    }

    /// Handles requests until `stop` returns true.
    pub fn run(self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Result<()> {
        // Few threads suffice for waiting; blocking threads read files and write JSON.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().map_err(failed("start the server"))?;
        let done = runtime.block_on(self.serve(stop));
        runtime.shutdown_background();
        done
    }

    async fn serve(self, stop: impl Fn() -> bool) -> Result<()> {
        let listener =
            self.listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(self.listener));
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
        let accepting = accept(listener.map_err(failed("start the server"))?, router(self.state), slots.clone());
        let accepting = tokio::spawn(accepting);
        while !stop() {
            sleep(STOP_INTERVAL).await;
        }
        accepting.abort();
        // All slots are free when the last response is sent.
        let _ = timeout(STOP_TIMEOUT, slots.acquire_many(MAX_CONNECTIONS)).await;
        Ok(())
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Bug(format!("cannot {what}: {error}"))
}

fn router(state: Arc<ServerState>) -> Router {
    // The fastest level: on a local connection, compression is the bottleneck.
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest);
    // A fallback, because addresses are compared with the catalog. The last layer is the first to see a request.
    Router::new()
        .fallback(respond)
        .layer(compression)
        .layer(middleware::from_fn_with_state(state.clone(), guard))
        .layer(middleware::map_response(add_security_headers))
        .with_state(state)
}

async fn respond(State(state): State<Arc<ServerState>>, request: Request) -> Response {
    let path = request.uri().path().to_string();
    match tokio::task::spawn_blocking(move || state.catalog.get(&path)).await {
        Ok(Ok(Some(resource))) => resource.into_response(request.headers()),
        Ok(Ok(None)) => refused(StatusCode::NOT_FOUND, "not found"),
        Ok(Err(error)) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &format!("this is a bug, please report it: {error}")),
    }
}

async fn accept(listener: tokio::net::TcpListener, router: Router, slots: Arc<Semaphore>) {
    let busy = refused_bytes(StatusCode::SERVICE_UNAVAILABLE, "too many connections at once; try again");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match slots.clone().try_acquire_owned() {
                Ok(slot) => drop(tokio::spawn(serve_connection(stream, router.clone(), slot))),
                // A new connection's send buffer holds this message, so the write does not block.
                Err(_) => drop(stream.into_std().and_then(|stream| std::io::Write::write(&mut &stream, &busy))),
            },
            // Out of file handles, or the client has disconnected.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router, _slot: ConnectionSlot) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(WRITE_TIMEOUT));
    let mut connection = http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    // All other errors are disconnects, or were already reported to the client.
    if let Err(error) = Pin::new(&mut connection).await
        && error.is_timeout()
    {
        let late = refused_bytes(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time");
        let _ = connection.into_parts().io.inner().get_ref().try_write(&late);
    }
}
