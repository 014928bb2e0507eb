//! Response bodies that are written while they are sent: a thread writes, and waits for a slow reader.

use std::io::{self, BufWriter, Write};

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::mpsc;

/// Bytes per piece. At most three pieces of a body are in memory: one being written, one waiting, one being sent.
const PIECE: usize = 64 << 10;

/// A body with the output of `write`. An error closes the connection early.
pub fn body(write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Body {
    let (sender, mut pieces) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(PIECE, PieceWriter(sender.clone()));
        if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
            let _ = sender.blocking_send(Err(error));
        }
    });
    Body::from_stream(stream::poll_fn(move |context| pieces.poll_recv(context)))
}

struct PieceWriter(mpsc::Sender<io::Result<Bytes>>);

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(piece)));
        // The reader has disconnected.
        sent.map(|()| piece.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
