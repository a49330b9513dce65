//! Questions to the sandbox's name server, and its answers. No question leaves the sandbox.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The largest question in bytes. Real ones have fewer than 512.
pub(super) const MAX_QUESTION: usize = 2048;

const TYPE_A: u16 = 1;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
const CLASS_IN: u16 = 1;

/// How long an answer may be kept, in seconds.
const TTL: u32 = 60;

/// The size of a datagram that this server takes, in bytes.
const UDP_SIZE: u16 = 1232;

/// Records that are looked through for the client's options.
const MAX_RECORDS: u16 = 8;

/// The most bytes and the longest label of a name.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// What the server knows about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It has these addresses.
    Addresses(Ipv4Addr, Option<Ipv6Addr>),
    /// No rule allows it.
    Denied,
    /// It cannot get an address.
    Failed,
}

/// Who answers: addresses of names, and names of addresses.
pub(super) trait Directory {
    /// The addresses of a name in lower case.
    fn look_up(&mut self, name: &[u8]) -> Lookup;
    /// The name of an address.
    fn name_of(&self, address: IpAddr) -> Option<Vec<u8>>;
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Success = 0,
    FormatError = 1,
    ServerFailure = 2,
    NameError = 3,
    NotImplemented = 4,
    Refused = 5,
}

struct Question<'a> {
    /// The question as it came, to be repeated.
    bytes: &'a [u8],
    /// The name in lower case; `None` for a name that no host has.
    name: Option<Vec<u8>>,
    kind: u16,
    class: u16,
}

/// Answers a message. `None` for what needs no answer.
pub(super) fn answer(message: &[u8], directory: &mut impl Directory) -> Option<Vec<u8>> {
    let header = message.first_chunk::<12>()?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let flags = field(2);
    // An answer: two servers must not talk with each other.
    if flags & 0x8000 != 0 {
        return None;
    }
    if flags >> 11 & 0xf != 0 {
        return Some(reply(header, Code::NotImplemented, &[], &[], 0));
    }
    let counts = [field(6), field(8), field(10)];
    let parsed = match field(4) {
        1 => question(&message[12..]),
        _ => None,
    };
    let options = parsed
        .as_ref()
        .and_then(|question| has_options(&message[12 + question.bytes.len()..], counts));
    let (Some(question), Some(options)) = (parsed, options) else {
        return Some(reply(header, Code::FormatError, &[], &[], 0));
    };
    let mut code = Code::Success;
    let mut record = Vec::new();
    let mut blocked = false;
    if question.class != CLASS_IN {
        code = Code::Refused;
    } else if let Some(name) = &question.name {
        if let Some(address) = reversed(name) {
            match (directory.name_of(address), question.kind) {
                (Some(name), TYPE_PTR) => record = resource(TYPE_PTR, &encoded(&name)),
                (Some(_), _) => {}
                (None, _) => code = Code::NameError,
            }
        } else {
            match (directory.look_up(name), question.kind) {
                (Lookup::Addresses(address, _), TYPE_A) => {
                    record = resource(TYPE_A, &address.octets());
                }
                (Lookup::Addresses(_, Some(address)), TYPE_AAAA) => {
                    record = resource(TYPE_AAAA, &address.octets());
                }
                // Never "no such name": a lookup of both families would fail as a whole.
                (Lookup::Addresses(..), _) => {}
                (Lookup::Denied, _) => (code, blocked) = (Code::NameError, true),
                (Lookup::Failed, _) => code = Code::ServerFailure,
            }
        }
    } else {
        (code, blocked) = (Code::NameError, true);
    }
    let additional = if options {
        extended(blocked)
    } else {
        Vec::new()
    };
    let answers = [question.bytes, &record].concat();
    let count = u16::from(!record.is_empty());
    Some(reply(header, code, &answers, &additional, count))
}

fn reply(header: &[u8; 12], code: Code, body: &[u8], additional: &[u8], answers: u16) -> Vec<u8> {
    // An answer, with the client's wish for recursion; recursion is available.
    let flags = [0x80 | header[2] & 0x79, 0x80 | code as u8];
    let count = |present: bool| u16::from(present).to_be_bytes();
    let mut message = Vec::with_capacity(12 + body.len() + additional.len());
    message.extend_from_slice(&header[..2]);
    message.extend_from_slice(&flags);
    message.extend_from_slice(&count(!body.is_empty()));
    message.extend_from_slice(&answers.to_be_bytes());
    message.extend_from_slice(&[0, 0]);
    message.extend_from_slice(&count(!additional.is_empty()));
    message.extend_from_slice(body);
    message.extend_from_slice(additional);
    message
}

/// A record of the question's name.
fn resource(kind: u16, data: &[u8]) -> Vec<u8> {
    // A pointer to the question.
    let mut record = Vec::from([0xc0, 12]);
    record.extend_from_slice(&kind.to_be_bytes());
    record.extend_from_slice(&CLASS_IN.to_be_bytes());
    record.extend_from_slice(&TTL.to_be_bytes());
    record.extend_from_slice(&(data.len() as u16).to_be_bytes());
    record.extend_from_slice(data);
    record
}

/// The server's options, with an extended error (RFC 8914) for a name that is blocked.
fn extended(blocked: bool) -> Vec<u8> {
    const EXTENDED_ERROR: u16 = 15;
    const BLOCKED: u16 = 15;
    const TEXT: &[u8] = b"no egress rule of this sandbox allows the name";
    let mut data = Vec::new();
    if blocked {
        data.extend_from_slice(&EXTENDED_ERROR.to_be_bytes());
        data.extend_from_slice(&(2 + TEXT.len() as u16).to_be_bytes());
        data.extend_from_slice(&BLOCKED.to_be_bytes());
        data.extend_from_slice(TEXT);
    }
    let mut record = Vec::from([0]);
    record.extend_from_slice(&TYPE_OPT.to_be_bytes());
    record.extend_from_slice(&UDP_SIZE.to_be_bytes());
    record.extend_from_slice(&[0; 4]);
    record.extend_from_slice(&(data.len() as u16).to_be_bytes());
    record.extend_from_slice(&data);
    record
}

fn question(bytes: &[u8]) -> Option<Question<'_>> {
    let mut name = Vec::new();
    let mut at = 0;
    let mut is_host = true;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // A question has nothing that a pointer could lead to.
        if length > MAX_LABEL {
            return None;
        }
        let label = bytes.get(at..at + length)?;
        at += length;
        if !name.is_empty() {
            name.push(b'.');
        }
        if name.len() + length > MAX_NAME {
            return None;
        }
        let host = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        is_host &= label.iter().all(host);
        name.extend(label.iter().map(u8::to_ascii_lowercase));
    }
    let fields = bytes.get(at..at + 4)?;
    Some(Question {
        bytes: &bytes[..at + 4],
        name: (is_host && !name.is_empty()).then_some(name),
        kind: u16::from_be_bytes([fields[0], fields[1]]),
        class: u16::from_be_bytes([fields[2], fields[3]]),
    })
}

/// Whether the client has options. `None` for records that cannot be read.
fn has_options(mut rest: &[u8], counts: [u16; 3]) -> Option<bool> {
    let mut records = 0u16;
    for count in counts {
        records = records.checked_add(count)?;
    }
    if records > MAX_RECORDS {
        return None;
    }
    let mut found = false;
    for _ in 0..records {
        loop {
            let length = usize::from(*rest.first()?);
            let pointer = length >= 0xc0;
            rest = rest.get(if pointer { 2 } else { 1 + length }..)?;
            if length == 0 || pointer {
                break;
            }
        }
        let fields = rest.first_chunk::<10>()?;
        found |= u16::from_be_bytes([fields[0], fields[1]]) == TYPE_OPT;
        let length = usize::from(u16::from_be_bytes([fields[8], fields[9]]));
        rest = rest.get(10 + length..)?;
    }
    Some(found)
}

/// The address of a name below `in-addr.arpa` or `ip6.arpa`.
fn reversed(name: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(name).ok()?;
    if let Some(labels) = text.strip_suffix(".in-addr.arpa") {
        let mut octets = [0; 4];
        let mut parts = labels.split('.');
        for octet in octets.iter_mut().rev() {
            *octet = parts.next()?.parse().ok()?;
        }
        return parts
            .next()
            .is_none()
            .then(|| Ipv4Addr::from(octets).into());
    }
    let labels = text.strip_suffix(".ip6.arpa")?;
    let mut bits = 0u128;
    let mut count = 0;
    for label in labels.split('.') {
        let nibble = u128::from(u8::from_str_radix(label, 16).ok().filter(|n| *n < 16)?);
        bits |= nibble.checked_shl(4 * count)?;
        count += 1;
    }
    (count == 32).then(|| Ipv6Addr::from_bits(bits).into())
}

/// A name as labels.
fn encoded(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split(|byte| *byte == b'.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label);
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
