//! A way to the API server that can die in silence, as connections do that a router or a load
//! balancer forgets: nothing comes any more on either side, and nothing says so.
//!
//! Bytes pass as they are, TLS with them: the certificate is that of the API server, which holds
//! for this address, too.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::plane::ControlPlane;
use super::ports::Port;
use super::trouble::{Result, Trouble};

/// Forwards connections for as long as it lives.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    /// How often all connections were frozen.
    freezes: watch::Sender<u64>,
    /// Connections that pass.
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// From now on nothing passes on any connection that there is, in neither direction, and none
    /// is closed; those that are made later pass. How many there were.
    pub fn freeze(&self) -> usize {
        let open = self.open.load(Ordering::SeqCst);
        self.freezes.send_modify(|times| *times += 1);
        open
    }

    /// Where it listens.
    fn url(&self) -> String {
        format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.port.number())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ControlPlane {
    /// Puts a proxy before the API server.
    pub fn proxy(&self) -> Result<Proxy> {
        let (port, to) = (Port::reserve()?, self.api_port());
        let (freezes, frozen) = watch::channel(0);
        let open = Arc::new(AtomicUsize::new(0));
        let at = (Ipv4Addr::LOCALHOST, port.number());
        let listener = self.block_on(TcpListener::bind(at));
        let listener = listener.map_err(|e| Trouble::new(format!("a proxy at {at:?}: {e}")))?;
        let task = self.spawn_task(forward(listener, to, frozen, open.clone()));
        Ok(Proxy { port, freezes, open, task })
    }

    /// A kubeconfig of a user that the options name, by way of a proxy.
    pub fn kubeconfig_through(&self, proxy: &Proxy, user: &str) -> Result<PathBuf> {
        self.write_kubeconfig_to(&proxy.url(), user)
    }
}

async fn forward(
    listener: TcpListener,
    to: u16,
    frozen: watch::Receiver<u64>,
    open: Arc<AtomicUsize>,
) {
    while let Ok((near, _)) = listener.accept().await {
        // What is frozen from here on is this connection, too.
        let mut frozen = frozen.clone();
        let born = *frozen.borrow_and_update();
        let open = open.clone();
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await else { return };
            let (mut near, mut far) = (near, far);
            open.fetch_add(1, Ordering::SeqCst);
            let freezes = tokio::select! {
                // What comes together with the freeze does not pass any more.
                biased;
                it = frozen.wait_for(|times| *times > born) => it.is_ok(),
                _ = copy_bidirectional(&mut near, &mut far) => false,
            };
            open.fetch_sub(1, Ordering::SeqCst);
            if freezes {
                // Both ends stay open, and nobody reads them, until the proxy is gone.
                let _ = frozen.wait_for(|_| false).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream as Blocking;
    use std::time::Duration;

    /// A line sent and what comes back of it; `None`: nothing does.
    fn echo(stream: &mut Blocking) -> Option<u8> {
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        stream.write_all(b"x").expect("it is open");
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => Some(byte[0]),
            Ok(_) => panic!("it was closed"),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_frozen_is_silent_and_open_and_what_comes_later_passes() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = server.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.expect("a client");
                std::thread::spawn(move || {
                    let mut copy = stream.try_clone().expect("a copy");
                    std::io::copy(&mut stream, &mut copy)
                });
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("bound");
        let ((freezes, frozen), open) = (watch::channel(0), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(forward(listener, to, frozen, open.clone()));
        let asked = tokio::task::spawn_blocking(move || {
            let mut first = Blocking::connect(at).expect("connected");
            assert_eq!(echo(&mut first), Some(b'x'));
            assert_eq!(open.load(Ordering::SeqCst), 1);
            freezes.send_modify(|times| *times += 1);
            assert_eq!(echo(&mut first), None);
            let mut second = Blocking::connect(at).expect("connected");
            assert_eq!(echo(&mut second), Some(b'x'));
            assert_eq!(echo(&mut first), None, "for ever");
            assert_eq!(open.load(Ordering::SeqCst), 1);
        });
        asked.await.expect("no panic");
    }
}
