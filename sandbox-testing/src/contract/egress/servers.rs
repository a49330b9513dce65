//! Servers on this host's loopback. They run until the test program ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::wait::wait_until;

/// A listener on a free port, and the port.
pub(super) fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

/// A server that answers each request with `content`, as HTTP. Returns its port.
pub fn web_server(content: &'static str) -> u16 {
    let (listener, port) = listener();
    std::thread::spawn(move || {
        for peer in listener.incoming().flatten() {
            // A client that sends nothing must not keep others waiting.
            std::thread::spawn(move || answer(peer, content));
        }
    });
    port
}

fn answer(mut peer: TcpStream, content: &str) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") && peer.read(&mut byte).is_ok_and(|n| n == 1) {
        request.push(byte[0]);
    }
    let length = content.len();
    // The client may have left.
    let _ = write!(
        peer,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{content}"
    );
}

/// A server that sends a byte every 10 ms until the client has left. Returns its port.
pub(super) fn endless_server() -> u16 {
    let (listener, port) = listener();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            std::thread::spawn(move || {
                for _ in 0..10_000 {
                    if peer.write_all(b"x").is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
    });
    port
}

/// Accepts a connection and reads its first byte.
pub(super) fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a listener");
    let mut connection = None;
    wait_until("a connection arrives", Duration::from_secs(60), || {
        connection = listener.accept().ok();
        connection.is_some()
    });
    let (mut peer, _) = connection.expect("a connection");
    peer.set_nonblocking(false).expect("a connection");
    peer.set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a time limit");
    assert_eq!(peer.read(&mut [0; 8]).expect("a byte"), 1);
    peer
}

/// Waits for the reset of a connection. A server that took the end for that of the data would keep
/// half of an upload.
pub(super) fn assert_reset(mut peer: TcpStream) {
    let end = peer.read(&mut [0; 8]).expect_err("a reset");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
}
