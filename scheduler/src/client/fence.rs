//! Nothing leaves the process any more once it may not act: asked as the last thing before bytes
//! go to the socket.
//!
//! Problem: a request that was allowed when it was made may wait in buffers of HTTP/2 and TLS. A
//! process that is stopped there (SIGSTOP, a frozen container, a host that swaps) goes on where it
//! was when it wakes, sends them, and only then looks at its lease: binds of a leader that is no
//! more, among those of its successor.
//!
//! Wanted: what had not reached the socket when leadership ended never does. The connection fails
//! instead; who waits for an answer on it does not know, and leads no more anyway.
//!
//! What the kernel took over before is sent by the kernel, also while the process sleeps, and so
//! arrives long before a lease runs out. Left over is the instant between the question and the
//! write itself; preconditions on uids and the API server's refusal of second binds cover it.
//!
//! Cost: a look at the clock for each write to a socket, which carries many requests.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether bytes may be sent now.
type MaySend = Box<dyn Fn() -> bool + Send + Sync>;

/// What some clients ask before they send; it is open until somebody guards it.
#[derive(Clone, Default)]
pub struct Fence(Arc<OnceLock<MaySend>>);

impl Fence {
    /// From now on, and on connections that are there already, bytes are sent only while this
    /// holds. The first guard stays.
    pub fn guard(&self, may_send: impl Fn() -> bool + Send + Sync + 'static) {
        // A second guard would be a second owner of the same clients: there is none.
        let first = self.0.set(Box::new(may_send)).is_ok();
        debug_assert!(first, "a fence has one guard");
    }

    fn ask(&self) -> io::Result<()> {
        if self.0.get().is_none_or(|may_send| may_send()) {
            return Ok(());
        }
        let why = "nothing is sent any more: this replica does not lead";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// A connection behind a fence. What arrives is always read.
pub struct Fenced<S> {
    stream: S,
    fence: Fence,
}

impl<S> Fenced<S> {
    /// Puts a connection behind it.
    pub fn new(stream: S, fence: Fence) -> Fenced<S> {
        Fenced { stream, fence }
    }
}

impl<S: Connection> Connection for Fenced<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Fenced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Fenced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.fence.ask()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.fence.ask()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_was_not_sent_before_never_is() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (fence, leads) = (Fence::default(), Arc::new(AtomicBool::new(true)));
        let mut ours = Fenced::new(ours, fence.clone());
        ours.write_all(b"unguarded ").await.expect("open");
        let asked = leads.clone();
        fence.guard(move || asked.load(Ordering::Relaxed));
        ours.write_all(b"leading ").await.expect("open");
        leads.store(false, Ordering::Relaxed);
        for closed in [ours.write_all(b"too late").await, {
            let slices = [io::IoSlice::new(b"too "), io::IoSlice::new(b"late")];
            ours.write_vectored(&slices).await.map(drop)
        }] {
            let error = closed.expect_err("it leads no more");
            assert!(error.to_string().contains("does not lead"), "{error}");
        }
        theirs.write_all(b"an answer").await.expect("open");
        let mut answer = [0; 9];
        ours.read_exact(&mut answer).await.expect("what arrives is read");
        drop(ours);
        let mut arrived = String::new();
        theirs.read_to_string(&mut arrived).await.expect("the end");
        assert_eq!(arrived, "unguarded leading ");
    }
}
