//! Reads the first message of a TLS client, as far as it names the server.

use super::first_flight::{Flight, Mismatch};

/// A record with part of a handshake.
const HANDSHAKE: u8 = 22;
/// The first message of a client.
const CLIENT_HELLO: u8 = 1;
/// The longest content of a record.
const MAX_RECORD: usize = 16 * 1024;
/// The extension with the server's name, and in it the type of a host name.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// The extension of an encrypted hello, whose real server name is not the one that can be read.
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
/// What earlier drafts of it used.
const ENCRYPTED_DRAFTS: [u16; 4] = [0xfe08, 0xfe09, 0xfe0a, 0xffce];

/// Whether the bytes begin like TLS.
pub(super) fn is_tls(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE)
}

/// Whether a client asks for the server of this name, in lower case.
pub(super) fn check(bytes: &[u8], name: &str) -> Flight {
    let hello = match message(bytes) {
        Ok(Some(hello)) => hello,
        Ok(None) => return Flight::Incomplete,
        Err(Malformed) => return Flight::Refused(Mismatch::Tls),
    };
    match server_name(&hello) {
        Err(Malformed) => Flight::Refused(Mismatch::Tls),
        Ok(HelloNames::Encrypted) => Flight::Refused(Mismatch::EncryptedHello),
        Ok(HelloNames::None) => Flight::Refused(Mismatch::NoServerName),
        Ok(HelloNames::One(asked)) if asked.eq_ignore_ascii_case(name.as_bytes()) => {
            Flight::Matches
        }
        Ok(HelloNames::One(asked)) => {
            Flight::Refused(Mismatch::ServerName(String::from_utf8_lossy(asked).into()))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Malformed;

#[derive(Debug, PartialEq, Eq)]
enum HelloNames<'a> {
    None,
    One(&'a [u8]),
    Encrypted,
}

/// The body of the hello, which can be spread over records; `None` while it is incomplete.
fn message(bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let mut rest = Fields(bytes);
    let mut handshake = Vec::new();
    while let Some(header) = rest.take(5) {
        let &[kind, major, _, high, low] = header else {
            return Err(Malformed);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > MAX_RECORD {
            return Err(Malformed);
        }
        let Some(content) = rest.take(length) else {
            // The message can end before the record does: look at what is there.
            handshake.extend_from_slice(rest.0);
            break;
        };
        handshake.extend_from_slice(content);
    }
    let mut fields = Fields(&handshake);
    match fields.u8() {
        Some(CLIENT_HELLO) => {}
        Some(_) => return Err(Malformed),
        None => return Ok(None),
    }
    let Some(length) = fields.u24() else {
        return Ok(None);
    };
    if length > super::limits::MAX_FIRST_FLIGHT {
        return Err(Malformed);
    }
    Ok(fields.take(length).map(<[u8]>::to_vec))
}

/// The server name in the body of a hello.
fn server_name(hello: &[u8]) -> Result<HelloNames<'_>, Malformed> {
    let mut hello = Fields(hello);
    // Version and random.
    hello.take(2 + 32).ok_or(Malformed)?;
    hello.list8().ok_or(Malformed)?; // session
    hello.list16().ok_or(Malformed)?; // cipher suites
    hello.list8().ok_or(Malformed)?; // compression methods
    if hello.0.is_empty() {
        return Ok(HelloNames::None);
    }
    let mut extensions = Fields(hello.list16().ok_or(Malformed)?);
    if !hello.0.is_empty() {
        return Err(Malformed);
    }
    let mut names = HelloNames::None;
    let mut is_encrypted = false;
    while !extensions.0.is_empty() {
        let kind = extensions.u16().ok_or(Malformed)?;
        let content = extensions.list16().ok_or(Malformed)?;
        if kind == ENCRYPTED_CLIENT_HELLO || ENCRYPTED_DRAFTS.contains(&kind) {
            is_encrypted = true;
        }
        if kind == SERVER_NAME {
            // A server may read either of two.
            if names != HelloNames::None {
                return Err(Malformed);
            }
            names = HelloNames::One(only_name(content)?);
        }
    }
    match is_encrypted {
        true => Ok(HelloNames::Encrypted),
        false => Ok(names),
    }
}

/// The one name in the extension of server names.
fn only_name(extension: &[u8]) -> Result<&[u8], Malformed> {
    let mut extension = Fields(extension);
    let mut list = Fields(extension.list16().ok_or(Malformed)?);
    let kind = list.u8().ok_or(Malformed)?;
    let name = list.list16().ok_or(Malformed)?;
    if kind != HOST_NAME || name.is_empty() || !list.0.is_empty() || !extension.0.is_empty() {
        return Err(Malformed);
    }
    Ok(name)
}

/// Reads fields from the front of bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .fold(0, |all, byte| all << 8 | usize::from(*byte)),
        )
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)
            .map(|taken| u16::from_be_bytes([taken[0], taken[1]]))
    }

    fn u24(&mut self) -> Option<usize> {
        self.number(3)
    }

    /// Bytes after their number in one byte.
    fn list8(&mut self) -> Option<&'a [u8]> {
        let length = self.number(1)?;
        self.take(length)
    }

    /// Bytes after their number in two bytes.
    fn list16(&mut self) -> Option<&'a [u8]> {
        let length = self.number(2)?;
        self.take(length)
    }
}

#[cfg(test)]
#[path = "hello_tests.rs"]
pub(super) mod tests;
