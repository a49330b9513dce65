//! What a client sends before a server answers, for rules at level `name`.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::limits::{DIAL_TIME_LIMIT, MAX_FIRST_FLIGHT, MAX_PIECES};
use super::{hello, request};

/// Whether the bytes of a client ask for the name that it connected to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flight {
    Matches,
    Incomplete,
    Refused(Mismatch),
}

/// Why a client does not ask for the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    Protocol,
    Tls,
    NoServerName,
    ServerName(String),
    EncryptedHello,
    Http,
    Http2,
    Connect,
    HostHeaders,
    Host(String),
    TooLong,
    TooManyPieces,
    TooSlow,
}

impl Mismatch {
    /// What the client understands as a refusal, if its protocol is known: a fatal alert
    /// (`access_denied`), or an answer with status 403.
    pub(super) fn answer(bytes: &[u8], why: &str) -> Vec<u8> {
        if hello::is_tls(bytes) {
            return vec![21, 3, 3, 0, 2, 2, 49];
        }
        if request::is_http(bytes) {
            let body = format!("sandbox: {why}\n");
            return format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            )
            .into_bytes();
        }
        Vec::new()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol => {
                f.write_str("it is neither TLS nor HTTP; a rule with tcp allows that")
            }
            Self::Tls => f.write_str("its TLS hello cannot be read"),
            Self::NoServerName => f.write_str("its TLS hello names no server"),
            Self::ServerName(name) => {
                write!(f, "its TLS hello asks for the server {}", short(name))
            }
            Self::EncryptedHello => f.write_str("its TLS hello is encrypted (ECH)"),
            Self::Http => f.write_str("its HTTP request cannot be read"),
            Self::Http2 => f.write_str("it is HTTP/2 without TLS"),
            Self::Connect => f.write_str("it is a CONNECT request to a proxy"),
            Self::HostHeaders => f.write_str("its HTTP request has not one Host header"),
            Self::Host(host) => write!(f, "its HTTP request asks for the host {}", short(host)),
            Self::TooLong => write!(
                f,
                "its first request is longer than {MAX_FIRST_FLIGHT} bytes"
            ),
            Self::TooManyPieces => {
                write!(f, "its first request came in more than {MAX_PIECES} pieces")
            }
            Self::TooSlow => write!(f, "its first request took longer than {DIAL_TIME_LIMIT:?}"),
        }
    }
}

/// As much of a text of code as a message shows.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// How reading ended.
pub(super) enum FirstFlight {
    /// The client asks for the name.
    Matches,
    Refused(Mismatch),
    /// The client ended before it sent a byte.
    Closed,
}

/// Reads until it is known whether the client asks for the name. `bytes` is then all that was read.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    name: &str,
    port: u16,
) -> io::Result<FirstFlight> {
    let reading = async {
        for _ in 0..MAX_PIECES {
            let before = bytes.len();
            if before >= MAX_FIRST_FLIGHT {
                return Ok(FirstFlight::Refused(Mismatch::TooLong));
            }
            let room = (MAX_FIRST_FLIGHT - before) as u64;
            if (&mut *stream).take(room).read_buf(bytes).await? == 0 {
                return Ok(match before {
                    0 => FirstFlight::Closed,
                    _ => FirstFlight::Refused(unfinished(bytes)),
                });
            }
            match check(bytes, name, port) {
                Flight::Incomplete => {}
                Flight::Matches => return Ok(FirstFlight::Matches),
                Flight::Refused(why) => return Ok(FirstFlight::Refused(why)),
            }
        }
        Ok(FirstFlight::Refused(Mismatch::TooManyPieces))
    };
    match tokio::time::timeout(DIAL_TIME_LIMIT, reading).await {
        Ok(read) => read,
        Err(_) => Ok(FirstFlight::Refused(Mismatch::TooSlow)),
    }
}

fn unfinished(bytes: &[u8]) -> Mismatch {
    match hello::is_tls(bytes) {
        true => Mismatch::Tls,
        false => Mismatch::Http,
    }
}

/// Whether these first bytes of a client ask for the name.
pub(super) fn check(bytes: &[u8], name: &str, port: u16) -> Flight {
    if hello::is_tls(bytes) {
        hello::check(bytes, name)
    } else if request::is_http(bytes) {
        request::check(bytes, name, port)
    } else {
        Flight::Refused(Mismatch::Protocol)
    }
}
