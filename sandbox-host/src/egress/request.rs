//! Reads the head of an HTTP/1 request, as far as it names the server.

use super::first_flight::{Flight, Mismatch};

/// The most headers of a request.
const MAX_HEADERS: usize = 128;

/// Whether the bytes can be the begin of a request: a method is a word of capital letters.
pub(super) fn is_http(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_uppercase)
}

/// Whether a client asks for this host and port, the host in lower case.
pub(super) fn check(bytes: &[u8], name: &str, port: u16) -> Flight {
    // HTTP/2 without TLS begins so. Its later requests name hosts in a form that is not read here.
    if bytes.starts_with(b"PRI ") {
        return Flight::Refused(Mismatch::Http2);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Err(_) => return Flight::Refused(Mismatch::Http),
        Ok(httparse::Status::Partial) => return Flight::Incomplete,
        Ok(httparse::Status::Complete(length)) => {
            // Servers do not agree on lines that end with one of CR and LF: what follows could be
            // a header for one and a value for another.
            if !has_plain_lines(&bytes[..length]) {
                return Flight::Refused(Mismatch::Http);
            }
        }
    }
    let (Some(method), Some(path)) = (request.method, request.path) else {
        return Flight::Refused(Mismatch::Http);
    };
    if method == "CONNECT" {
        return Flight::Refused(Mismatch::Connect);
    }
    let mut hosts = request
        .headers
        .iter()
        .filter(|header| header.name.trim().eq_ignore_ascii_case("host"));
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Flight::Refused(Mismatch::HostHeaders);
    };
    if !is_authority(host.value, name, port) {
        return Flight::Refused(Mismatch::Host(String::from_utf8_lossy(host.value).into()));
    }
    // `GET http://host/path` overrides the header; `*` is for `OPTIONS`.
    if !path.starts_with('/') && path != "*" {
        let authority = path
            .split_once("://")
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http"))
            .and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
        if !authority.is_some_and(|authority| is_authority(authority.as_bytes(), name, port)) {
            return Flight::Refused(Mismatch::Host(path.to_owned()));
        }
    }
    Flight::Matches
}

/// Whether each line of a head ends with CR and LF, and has none of them inside.
fn has_plain_lines(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').rev();
    // After the last line's end, there is nothing.
    lines.next().is_some_and(<[u8]>::is_empty)
        && lines.all(|line| {
            line.strip_suffix(b"\r")
                .is_some_and(|line| !line.contains(&b'\r'))
        })
}

/// Whether text is the name, alone or with the port. Without a port, it means the port of the
/// connection for every server.
pub(super) fn is_authority(text: &[u8], name: &str, port: u16) -> bool {
    let text = text.trim_ascii();
    let (host, asked) = match text.iter().position(|byte| *byte == b':') {
        Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
        None => (text, None),
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    host.eq_ignore_ascii_case(name.as_bytes())
        && asked.is_none_or(|asked| asked == port.to_string().as_bytes())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
