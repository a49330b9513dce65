//! Reads the engine's version and family from the headers of its ping response.
//!
//! Podman runs several programs before it answers `GET /version`, about 0.4 s. The ping response
//! has the same facts in its headers after half a millisecond. bollard does not expose headers.

use std::io;
use std::time::Duration;

use bollard::ClientVersion;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{Endpoint, version};

/// Time limit for the connection: a missing engine is reported within 2 s.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1700);

const REQUEST: &[u8] =
    b"GET /_ping HTTP/1.1\r\nHost: engine\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// Byte limit for the headers; those of engines have about 300 bytes.
const HEAD_LIMIT: u64 = 16 * 1024;
const MAX_HEADERS: usize = 64;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The headers of a ping response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ping {
    /// The highest API version that both sides support: major, minor.
    pub api: (usize, usize),
    /// The engine's name, as in `GET /version`.
    pub engine: String,
}

impl Ping {
    pub(super) fn client_version(&self) -> ClientVersion {
        let (major_version, minor_version) = self.api;
        ClientVersion {
            major_version,
            minor_version,
        }
    }
}

/// Pings the engine at `endpoint`. `None` if the response lacks a header; `GET /version` then has
/// the facts, or the error.
///
/// # Errors
///
/// The error of the connection.
pub(super) async fn ping(endpoint: &Endpoint) -> io::Result<Option<Ping>> {
    let head = match endpoint {
        Endpoint::Unix(path) => request(UnixStream::connect(path).await?).await,
        Endpoint::Tcp(address) => {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await? {
                // The address has no port: bollard adds the default one.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
                connected => request(connected?).await,
            }
        }
        Endpoint::Given(_) => return Ok(None),
    };
    // Other failures recur in the next request, which reports them better.
    Ok(head.ok().and_then(|head| parse(&head)))
}

/// Reads at least the headers: a proxy may keep the connection open after them.
async fn request(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Vec<u8>> {
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    let mut stream = stream.take(HEAD_LIMIT);
    while !answer.windows(HEAD_END.len()).any(|end| end == HEAD_END) {
        if stream.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    Ok(answer)
}

fn parse(answer: &[u8]) -> Option<Ping> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    if !response.parse(answer).ok()?.is_complete() || response.code != Some(200) {
        return None;
    }
    let value = |name: &str| {
        let header = response
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let engine = match value("Libpod-API-Version") {
        Some(_) => "Podman Engine",
        // "Docker/27.3.1 (linux)"
        None => value("Server")?.split('/').next()?,
    };
    Some(Ping {
        api: version::common_version(value("Api-Version")?)?,
        engine: engine.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 2\r\n\r\nOK").into_bytes()
    }

    #[test]
    fn engine_family_is_read_from_headers() {
        let podman = answer(
            "API-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\nServer: Libpod/4.3.1 (linux)\r\n",
        );
        let docker = answer("Api-Version: 1.41\r\nServer: Docker/20.10.24 (linux)\r\n");
        let ping = |engine: &str| {
            Some(Ping {
                api: (1, 41),
                engine: engine.to_owned(),
            })
        };
        assert_eq!(parse(&podman), ping("Podman Engine"));
        assert_eq!(parse(&docker), ping("Docker"));
    }

    #[test]
    fn incomplete_response_is_none() {
        let complete = answer("Api-Version: 1.41\r\nServer: Docker/20.10.24 (linux)\r\n");
        assert!(parse(&complete).is_some());
        assert_eq!(parse(&complete[..40]), None, "cut off");
        assert_eq!(parse(&answer("Api-Version: 1.41\r\n")), None);
        assert_eq!(parse(&answer("Server: Docker/1\r\n")), None);
        assert_eq!(
            parse(&answer("Api-Version: x\r\nServer: Docker/1\r\n")),
            None
        );
        assert_eq!(parse(b"HTTP/1.1 403 Forbidden\r\n\r\n"), None);
        assert_eq!(parse(b"\x15\x03\x01"), None, "another protocol");
        let many = "X: y\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(parse(&answer(&many)), None);
    }
}
