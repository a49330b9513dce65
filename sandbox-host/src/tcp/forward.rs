//! A port of the host that leads to a port inside a sandbox.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{Error, ErrorKind, Forward, Result};
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::connection::ConnectionShared;

/// How long accepting pauses after the system ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Ends a task when dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Listens on `address` and connects each client to `port` inside, until the returned value is
/// dropped or the sandbox ends.
pub(crate) async fn forward(
    shared: Arc<ConnectionShared>,
    address: SocketAddr,
    port: u16,
) -> Result<Forward> {
    if port == 0 {
        let why = "a port inside is 1 to 65535";
        return Err(Error::new(ErrorKind::InvalidRequest, "forward port", why));
    }
    let failed = |error: std::io::Error| {
        Error::new(
            ErrorKind::Io,
            "forward port",
            format!("cannot listen on {address}: {error}"),
        )
        .with_fix("choose a free port of an address of this host, or port 0 for any")
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let task = tokio::spawn(serve(shared, listener, port));
    Ok(Forward::new(bound, port, AbortOnDrop(task)))
}

async fn serve(shared: Arc<ConnectionShared>, listener: TcpListener, port: u16) {
    let ended = shared.watch_end();
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            // Keeps the set small.
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((client, _)) => {
                    drop(connections.spawn(carry(Arc::clone(&shared), client, port)))
                }
                Err(error) => {
                    tracing::warn!(%error, port, "cannot accept a connection to a forwarded port");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        _ = ended => {}
        () = accept => {}
    }
}

/// Resets the client's connection when dropped, unless both directions have ended: cut data must
/// not look complete.
struct ResetOnDrop(Option<TcpStream>);

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        if let Some(client) = &self.0 {
            // Only fails for a socket that is closed already.
            let _ = client.set_zero_linger();
        }
    }
}

async fn carry(shared: Arc<ConnectionShared>, client: TcpStream, port: u16) {
    // Only costs latency if it fails.
    let _ = client.set_nodelay(true);
    let mut client = ResetOnDrop(Some(client));
    let mut inside = match shared.dial(port) {
        Ok(inside) => inside,
        Err(error) => return tracing::warn!(%error, port, "a forwarded connection is refused"),
    };
    let Some(socket) = &mut client.0 else { return };
    match copy_bidirectional(socket, &mut inside).await {
        Ok(_) => {
            // Both directions have ended.
            if let Some(mut socket) = client.0.take() {
                let _ = socket.shutdown().await;
            }
        }
        Err(error) => tracing::debug!(%error, port, "a forwarded connection broke"),
    }
}
