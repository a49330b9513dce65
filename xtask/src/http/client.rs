//! Sends one request over a Unix socket and reads the answer.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::response::{self, Response};

/// What a request carries.
pub enum Body<'a> {
    /// Nothing.
    Empty,
    /// `length` bytes out of `reader`.
    Tar {
        /// Size of the archive in bytes; `reader` must yield exactly that many.
        length: u64,
        /// Where the archive comes from.
        reader: &'a mut dyn Read,
    },
}

/// One engine's socket. Every request opens its own connection.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    timeout: Duration,
}

impl Client {
    /// A client of the socket at `socket` that gives up when a single read or write makes no
    /// progress for `timeout`. Nothing is opened yet.
    pub fn new(socket: &Path, timeout: Duration) -> Self {
        Self {
            socket: socket.to_path_buf(),
            timeout,
        }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request without a body.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn get(&self, target: &str) -> io::Result<Response> {
        self.send("GET", target, Body::Empty)
    }

    /// Sends `method target` with `body` and returns the answer, whatever its status.
    ///
    /// # Errors
    /// When the socket cannot be reached, makes no progress in time, or answers with something
    /// that is not HTTP.
    pub fn send(&self, method: &str, target: &str, body: Body<'_>) -> io::Result<Response> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let sent = write_request(&mut stream, method, target, body);
        // An engine may refuse a body before it has read all of it and close its end: the reason
        // is in its answer, which counts more than our broken pipe.
        match (response::read(&mut BufReader::new(&stream)), sent) {
            (Ok(answer), Err(error)) if answer.is_success() => Err(error),
            (Ok(answer), _) => Ok(answer),
            (Err(_), Err(error)) => Err(error),
            (Err(error), Ok(())) => Err(clarify(error)),
        }
    }
}

fn write_request(
    stream: &mut impl Write,
    method: &str,
    target: &str,
    body: Body<'_>,
) -> io::Result<()> {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n");
    stream.write_all(head.as_bytes())?;
    match body {
        Body::Empty => stream.write_all(b"Content-Length: 0\r\n\r\n")?,
        Body::Tar { length, reader } => {
            write!(
                stream,
                "Content-Type: application/x-tar\r\nContent-Length: {length}\r\n\r\n"
            )?;
            let copied = io::copy(&mut reader.take(length), stream)?;
            if copied != length {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("the body ended after {copied} of {length} bytes"),
                ));
            }
        }
    }
    stream.flush()
}

fn clarify(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
        }
        _ => error,
    }
}

/// Percent-encodes `value` for use inside a query or as one path segment.
pub fn encode(value: &str) -> String {
    value
        .bytes()
        .fold(String::with_capacity(value.len()), |mut text, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A server that reads `take` bytes, writes `answer` and closes.
    fn server(take: usize, answer: &'static str) -> (tempfile::TempDir, Client) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("bind");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut received = vec![0; take];
            stream.read_exact(&mut received).expect("request");
            stream.write_all(answer.as_bytes()).expect("answer");
        });
        (folder, Client::new(&path, Duration::from_millis(500)))
    }

    #[test]
    fn a_query_value_is_encoded() {
        assert_eq!(encode("ENV A=\"b c\"/é"), "ENV%20A%3D%22b%20c%22%2F%C3%A9");
    }

    #[test]
    fn an_early_refusal_beats_the_broken_pipe() {
        let (_folder, client) = server(
            64,
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno",
        );
        // Far more than a socket's buffer holds, so that writing must fail.
        let length = 8 << 20;
        let body = Body::Tar {
            length,
            reader: &mut io::repeat(0),
        };
        // The kernel may reset the connection and drop the answer: then the write's error stands.
        match client.send("POST", "/images/create", body) {
            Ok(answer) => assert_eq!((answer.status, answer.body.as_slice()), (400, &b"no"[..])),
            Err(error) => assert!(matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            )),
        }
    }

    #[test]
    fn success_after_a_short_body_is_still_an_error() {
        let (_folder, client) = server(16, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let body = Body::Tar {
            length: 10,
            reader: &mut io::empty(),
        };
        let error = client.send("POST", "/", body).expect_err("short body");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn silence_times_out() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).expect("bind");
        let error = Client::new(&path, Duration::from_millis(50))
            .get("/_ping")
            .expect_err("mute");
        assert_eq!(error.to_string(), "no answer in time");
    }
}
