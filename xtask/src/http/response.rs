//! Parses an answer: status line, headers, and a body in any of HTTP/1.1's three framings.

use std::io::{self, BufRead, Read};

/// Most bytes in the status line and headers together; engines send a few hundred.
const MAX_HEAD: u64 = 64 << 10;
/// Most bytes in a body; the largest that tasks ask for, an image's description, is some KiB.
const MAX_BODY: u64 = 16 << 20;
/// Most bytes of a body that is quoted in an error.
const MAX_QUOTE: usize = 500;

/// An answer, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body, with its framing removed.
    pub body: Vec<u8>,
}

impl Response {
    /// True for 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What the engine says went wrong, on one line: the `message` of its JSON object, else the
    /// body's text, and always the status.
    pub fn error_message(&self) -> String {
        let parsed = serde_json::from_slice::<serde_json::Value>(&self.body).ok();
        let text = match parsed.as_ref().and_then(|value| value["message"].as_str()) {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote: String = line.chars().take(MAX_QUOTE).collect();
        if quote.is_empty() {
            format!("status {}", self.status)
        } else {
            format!("{quote} (status {})", self.status)
        }
    }
}

enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClosed,
}

/// Reads one answer, skipping interim (1xx) ones.
///
/// # Errors
/// `InvalidData` for what is not HTTP/1 or is too large, `UnexpectedEof` for an answer that is cut
/// off, and the reader's own errors.
pub fn read(reader: &mut impl BufRead) -> io::Result<Response> {
    let mut head = reader.by_ref().take(MAX_HEAD);
    let (status, framing) = loop {
        let (status, framing) = read_head(&mut head)?;
        if !(100..200).contains(&status) {
            break (status, framing);
        }
    };
    let body = match framing {
        Framing::None => Vec::new(),
        Framing::Length(length) => read_exactly(reader, length, 0)?,
        Framing::Chunked => read_chunks(reader)?,
        Framing::UntilClosed => read_until_closed(reader)?,
    };
    Ok(Response { status, body })
}

fn read_head(reader: &mut impl BufRead) -> io::Result<(u16, Framing)> {
    let status = parse_status(&read_line(reader)?)?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| invalid(format!("header without a colon: {line:?}")))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let parsed = decimal(value)?;
            if length.is_some_and(|earlier| earlier != parsed) {
                return Err(invalid("two different Content-Length headers".to_owned()));
            }
            length = Some(parsed);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(invalid(format!("unsupported transfer encoding {value:?}")));
            }
            chunked = true;
        }
    }
    let framing = match (status, chunked, length) {
        (100..=199 | 204 | 304, ..) => Framing::None,
        (_, true, _) => Framing::Chunked,
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::UntilClosed,
    };
    Ok((status, framing))
}

fn parse_status(line: &str) -> io::Result<u16> {
    let mut words = line.split(' ');
    let version = words.next().unwrap_or_default();
    let code = words.next().unwrap_or_default();
    if !version.starts_with("HTTP/1.") || code.len() != 3 {
        return Err(invalid(format!("not an HTTP status line: {line:?}")));
    }
    decimal(code)?
        .try_into()
        .map_err(|_| invalid(format!("not an HTTP status line: {line:?}")))
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(&mut reader.by_ref().take(MAX_HEAD))?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid(format!("not a chunk size: {line:?}")));
        }
        let size = u64::from_str_radix(digits, 16)
            .map_err(|error| invalid(format!("chunk size {digits:?}: {error}")))?;
        if size == 0 {
            let mut trailers = reader.by_ref().take(MAX_HEAD);
            while !read_line(&mut trailers)?.is_empty() {}
            return Ok(body);
        }
        let chunk = read_exactly(reader, size, body.len() as u64)?;
        body.extend_from_slice(&chunk);
        let end = read_line(&mut reader.by_ref().take(MAX_HEAD))?;
        if !end.is_empty() {
            return Err(invalid(format!("chunk is longer than its size: {end:?}")));
        }
    }
}

/// Reads `length` bytes, which with `already` must stay within [`MAX_BODY`]. Memory grows with
/// what arrives, not with what a header promises.
fn read_exactly(reader: &mut impl BufRead, length: u64, already: u64) -> io::Result<Vec<u8>> {
    if already.saturating_add(length) > MAX_BODY {
        return Err(invalid(format!("body is larger than {MAX_BODY} bytes")));
    }
    let mut bytes = Vec::new();
    if reader.by_ref().take(length).read_to_end(&mut bytes)? as u64 == length {
        Ok(bytes)
    } else {
        Err(cut_off())
    }
}

fn read_until_closed(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_BODY + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BODY {
        return Err(invalid(format!("body is larger than {MAX_BODY} bytes")));
    }
    Ok(bytes)
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(cut_off());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| invalid("a header is not UTF-8".to_owned()))
}

/// Stricter than `str::parse`, which takes a plus sign.
fn decimal(text: &str) -> io::Result<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(format!("not a decimal number: {text:?}")));
    }
    text.parse()
        .map_err(|error| invalid(format!("{text:?}: {error}")))
}

fn cut_off() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the answer is cut off or its head too long",
    )
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
