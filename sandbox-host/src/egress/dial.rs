//! Connects to one of several addresses.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::limits::NEXT_ADDRESS_AFTER;

/// Connects to the first address that accepts. An address is tried when the one before failed, or
/// after a moment.
pub(super) async fn dial(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.iter().copied();
    let mut last = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(async move { (TcpStream::connect(address).await, address) });
        }
        let ended = match waiting.len() {
            0 => attempts.join_next().await,
            _ => match tokio::time::timeout(NEXT_ADDRESS_AFTER, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
        };
        match ended {
            Some(Ok((Ok(stream), address))) => {
                stream.set_nodelay(true)?;
                return Ok((stream, address));
            }
            Some(Ok((Err(error), _))) => last = Some(error),
            Some(Err(error)) => last = Some(io::Error::other(error)),
            None => break,
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("there is no address to connect to")))
}
