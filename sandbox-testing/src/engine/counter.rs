//! A server on loopback that counts connections, as a web server and as a registry.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest wait for a client's request. It is counted before.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Counts connections, and answers every request with 404.
pub struct ConnectionCounter {
    pub address: SocketAddr,
    count: Arc<AtomicUsize>,
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionCounter {
    pub fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("address");
        let count = Arc::new(AtomicUsize::new(0));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (counted, ended) = (Arc::clone(&count), Arc::clone(&is_closed));
        let thread = std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                // A client that disconnects or speaks another protocol is counted as well.
                let _ = client.and_then(|client| respond(&client));
            }
        });
        Self {
            address,
            count,
            is_closed,
            thread: Some(thread),
        }
    }

    /// The number of connections since the last call.
    pub fn take(&self) -> usize {
        self.count.swap(0, Ordering::SeqCst)
    }
}

fn respond(mut client: &TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    match client.read(&mut [0; 4096])? {
        // The client has disconnected without a request.
        0 => Ok(()),
        _ => client.write_all(NOT_FOUND),
    }
}

impl Drop for ConnectionCounter {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection, unless it has ended.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
