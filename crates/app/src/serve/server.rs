//! The connections: a limited number at a time, each for one request, with limits on its size and its time.

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
use super::answer::{add_security_headers, refused, refused_bytes};
use super::catalog::Catalog;
use super::guard::guard;
use super::token::Token;

/// Connections at a time.
const MOST_CONNECTIONS: u32 = 32;

/// The largest head of a request.
const LARGEST_HEAD: usize = 16 << 10;

/// The largest buffer of a connection.
const LARGEST_BUFFER: usize = 64 << 10;

/// How long the head of a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a browser may take no bytes of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// How often the server asks whether to stop, and how long it then waits for answers that are being sent.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    state: Arc<ServerState>,
}

/// What every request needs.
pub struct ServerState {
    /// Where the server listens.
    pub address: Address,
    /// The secret of this server.
    pub token: Token,
    /// What can be asked for.
    catalog: Catalog,
}

/// One of the [`MOST_CONNECTIONS`], free again when it is dropped.
type ConnectionSlot = OwnedSemaphorePermit;

impl Server {
    /// Starts to listen.
    pub fn bind(address: Address, token: Token, catalog: Catalog) -> Result<Server> {
        let listener = TcpListener::bind((address.ip, address.port)).map_err(|error| {
            InputError::new("the server cannot listen there")
                .found(error)
                .at(format!("{}, port {}", address.ip, address.port))
                .advice("another program may use the port: choose one with --port, or 0 for any that is free")
        })?;
        let local = listener.local_addr().map_err(failed("get the address of the server"))?;
        let address = Address { port: local.port(), ..address };
        Ok(Server { listener, state: Arc::new(ServerState { address, token, catalog }) })
    }

    /// The address to open, token included.
    pub fn url(&self) -> String {
        format!("{}/?token={}", self.state.address.url(), self.state.token.text())
    }

    /// Answers requests until `stop` says true.
    pub fn run(self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Result<()> {
        // Waiting needs few threads; files are read and JSON is written on others.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().map_err(failed("start the server"))?;
        let done = runtime.block_on(self.serve(stop));
        runtime.shutdown_background();
        done
    }

    async fn serve(self, stop: impl Fn() -> bool) -> Result<()> {
        let listener =
            self.listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(self.listener));
        let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS as usize));
        let accepting = accept(listener.map_err(failed("start the server"))?, router(self.state), slots.clone());
        let accepting = tokio::spawn(accepting);
        while !stop() {
            sleep(STOP_INTERVAL).await;
        }
        accepting.abort();
        // All slots are free when the last answer is sent.
        let _ = timeout(STOP_TIMEOUT, slots.acquire_many(MOST_CONNECTIONS)).await;
        Ok(())
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Bug(format!("cannot {what}: {error}"))
}

fn router(state: Arc<ServerState>) -> Router {
    // The fastest level: on this machine the browser waits for the compression, not for the network.
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest);
    // Addresses are compared with those of the catalog as they are; the last layer is the first to see a request.
    Router::new()
        .fallback(answer)
        .layer(compression)
        .layer(middleware::from_fn_with_state(state.clone(), guard))
        .layer(middleware::map_response(add_security_headers))
        .with_state(state)
}

async fn answer(State(state): State<Arc<ServerState>>, request: Request) -> Response {
    let path = request.uri().path().to_string();
    match tokio::task::spawn_blocking(move || state.catalog.get(&path)).await {
        Ok(Ok(Some(answer))) => answer.into_response(request.headers()),
        Ok(Ok(None)) => refused(StatusCode::NOT_FOUND, "there is nothing under this address"),
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
                // The buffer of a new connection has room for this, so that nobody has to wait.
                Err(_) => drop(stream.into_std().and_then(|stream| std::io::Write::write(&mut &stream, &busy))),
            },
            // No file handles are left, or the other side has disconnected.
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
        .max_header_size(LARGEST_HEAD)
        .max_buf_size(LARGEST_BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    // All other errors concern a browser that has disconnected, or have been answered.
    if let Err(error) = Pin::new(&mut connection).await
        && error.is_timeout()
    {
        let late = refused_bytes(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time");
        let _ = connection.into_parts().io.inner().get_ref().try_write(&late);
    }
}
