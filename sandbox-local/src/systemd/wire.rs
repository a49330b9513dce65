//! The D-Bus wire format, limited to what one call to systemd needs: little-endian, without file
//! descriptors.
//!
//! A complete D-Bus library would add twenty crates and an executor to every user of this backend.
//! This module needs one call of fixed shape and its reply.

use std::io;

/// The size limit of a message in bytes. (D-Bus allows 128 MiB.)
const MAX_MESSAGE: usize = 64 * 1024;

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Return,
    Error,
    Signal,
    /// A call, or a type newer than this.
    Other,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: MessageKind,
    /// The serial number of the call that it replies to.
    pub(super) reply_to: Option<u32>,
    /// The name of an error.
    pub(super) error: Option<String>,
    /// The name of a signal.
    pub(super) member: Option<String>,
    pub(super) signature: String,
    body: Vec<u8>,
}

/// A method call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The serial number: not 0, and unique in the connection.
    pub(super) number: u32,
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
    /// The types of the arguments.
    pub(super) signature: &'a str,
}

const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

/// Fields of a header.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

impl Call<'_> {
    /// Encodes the message. The arguments must have the types of the signature.
    pub(super) fn message(&self, arguments: &DbusWriter) -> Vec<u8> {
        let mut message = DbusWriter::default();
        // Little-endian, a call, no flags, version 1.
        message.0.extend([b'l', CALL, 0, 1]);
        message.number(arguments.0.len() as u32);
        message.number(self.number);
        message.array(8, |fields| {
            let texts = [
                (PATH, "o", self.path),
                (INTERFACE, "s", self.interface),
                (MEMBER, "s", self.member),
                (DESTINATION, "s", self.destination),
            ];
            for (field, kind, value) in texts {
                fields.align(8);
                fields.0.push(field);
                fields.signature(kind);
                fields.text(value);
            }
            fields.align(8);
            fields.0.push(SIGNATURE);
            fields.signature("g");
            fields.signature(self.signature);
        });
        message.align(8);
        message.0.extend(&arguments.0);
        message.0
    }
}

/// Encodes values, one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DbusWriter(Vec<u8>);

impl DbusWriter {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    /// `u`.
    pub(super) fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    /// `t`.
    fn long(&mut self, value: u64) {
        self.align(8);
        self.0.extend(value.to_le_bytes());
    }

    /// `s` and `o`.
    pub(super) fn text(&mut self, value: &str) {
        self.number(value.len() as u32);
        self.0.extend(value.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, value: &str) {
        self.0.push(value.len() as u8);
        self.0.extend(value.as_bytes());
        self.0.push(0);
    }

    /// `a`, with elements aligned to `to` bytes.
    pub(super) fn array(&mut self, to: usize, elements: impl FnOnce(&mut Self)) {
        self.number(0);
        let length = self.0.len() - 4;
        self.align(to);
        let first = self.0.len();
        elements(self);
        let bytes = (self.0.len() - first) as u32;
        self.0[length..length + 4].copy_from_slice(&bytes.to_le_bytes());
    }

    /// One `(sv)`.
    pub(super) fn property(&mut self, name: &str, value: Value<'_>) {
        self.align(8);
        self.text(name);
        match value {
            Value::Flag(value) => {
                self.signature("b");
                self.number(value.into());
            }
            Value::Long(value) => {
                self.signature("t");
                self.long(value);
            }
            Value::Text(value) => {
                self.signature("s");
                self.text(value);
            }
            Value::Numbers(values) => {
                self.signature("au");
                self.array(4, |array| {
                    values.iter().for_each(|value| array.number(*value))
                });
            }
        }
    }
}

/// A value with its type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Flag(bool),
    Long(u64),
    Text(&'a str),
    Numbers(&'a [u32]),
}

/// Takes the first message off `bytes`. `None` if more bytes are needed.
///
/// # Errors
///
/// If the bytes are not a valid message, or the message is too long.
pub(super) fn take(bytes: &mut Vec<u8>) -> io::Result<Option<Message>> {
    let mut head = DbusReader { bytes, at: 0 };
    let [Some(order), Some(kind), Some(_), Some(version)] = [(); 4].map(|()| head.byte()) else {
        return Ok(None);
    };
    if order != b'l' || version != 1 {
        return Err(broken("another byte order or version of the protocol"));
    }
    let [Some(body), Some(_), Some(fields)] = [(); 3].map(|()| head.number()) else {
        return Ok(None);
    };
    let fields_begin = head.at;
    let (body, fields) = (body as usize, fields as usize);
    if body > MAX_MESSAGE || fields > MAX_MESSAGE {
        return Err(broken("a message of more than 64 KiB"));
    }
    let fields_end = fields_begin + fields;
    let body_begin = fields_end.next_multiple_of(8);
    let end = body_begin + body;
    if bytes.len() < end {
        return Ok(None);
    }
    let mut message = Message {
        kind: match kind {
            RETURN => MessageKind::Return,
            ERROR => MessageKind::Error,
            SIGNAL => MessageKind::Signal,
            CALL | 0 | 5.. => MessageKind::Other,
        },
        reply_to: None,
        error: None,
        member: None,
        signature: String::new(),
        body: bytes[body_begin..end].to_vec(),
    };
    let mut reader = DbusReader {
        bytes: &bytes[..fields_end],
        at: fields_begin,
    };
    while reader.at < fields_end {
        message
            .read_field(&mut reader)
            .ok_or_else(|| broken("a header that cannot be read"))?;
    }
    bytes.drain(..end);
    Ok(Some(message))
}

impl Message {
    fn read_field(&mut self, reader: &mut DbusReader<'_>) -> Option<()> {
        reader.align(8);
        let field = reader.byte()?;
        let kind = reader.signature()?;
        match (field, kind.as_str()) {
            (REPLY_SERIAL, "u") => self.reply_to = Some(reader.number()?),
            (ERROR_NAME, "s") => self.error = Some(reader.text()?),
            (MEMBER, "s") => self.member = Some(reader.text()?),
            (SIGNATURE, "g") => self.signature = reader.signature()?,
            // Not needed here.
            (_, "s" | "o") => drop(reader.text()?),
            (_, "u") => drop(reader.number()?),
            (_, "g") => drop(reader.signature()?),
            // The specification defines no other types, and the length of this one is unknown.
            _ => return None,
        }
        Some(())
    }

    /// The arguments, to be read in order.
    pub(super) fn arguments(&self) -> DbusReader<'_> {
        DbusReader {
            bytes: &self.body,
            at: 0,
        }
    }
}

/// Decodes one value after the other. `None` past the end and for invalid text.
#[derive(Debug)]
pub(super) struct DbusReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl DbusReader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// `u`.
    pub(super) fn number(&mut self) -> Option<u32> {
        self.align(4);
        let bytes = *self.bytes.get(self.at..)?.first_chunk::<4>()?;
        self.at += 4;
        Some(u32::from_le_bytes(bytes))
    }

    /// `s` and `o`.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        self.ended_text(length)
    }

    fn signature(&mut self) -> Option<String> {
        let length = self.byte()?.into();
        self.ended_text(length)
    }

    fn ended_text(&mut self, length: usize) -> Option<String> {
        let end = self.at.checked_add(length)?;
        let text = std::str::from_utf8(self.bytes.get(self.at..end)?).ok()?;
        if *self.bytes.get(end)? != 0 {
            return None;
        }
        self.at = end + 1;
        Some(text.to_owned())
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message as systemd sends it.
    pub(in super::super) fn answer(
        kind: u8,
        fields: &[(u8, &str, &str)],
        reply_to: Option<u32>,
        body: &DbusWriter,
    ) -> Vec<u8> {
        let mut message = DbusWriter(vec![b'l', kind, 1, 1]);
        message.number(body.0.len() as u32);
        message.number(77);
        message.array(8, |writer| {
            if let Some(reply_to) = reply_to {
                writer.align(8);
                writer.0.push(REPLY_SERIAL);
                writer.signature("u");
                writer.number(reply_to);
            }
            for (field, kind, value) in fields {
                writer.align(8);
                writer.0.push(*field);
                writer.signature(kind);
                match *kind {
                    "g" => writer.signature(value),
                    _ => writer.text(value),
                }
            }
        });
        message.align(8);
        message.0.extend(&body.0);
        message.0
    }

    #[test]
    fn call_is_encoded_as_specified() {
        let mut arguments = DbusWriter::default();
        arguments.text("a");
        let call = Call {
            number: 2,
            destination: "d",
            path: "/p",
            interface: "i",
            member: "m",
            signature: "s",
        };
        let expected = b"l\x01\x00\x01\x06\x00\x00\x00\x02\x00\x00\x00\x47\x00\x00\x00\
            \x01\x01o\x00\x02\x00\x00\x00/p\x00\x00\x00\x00\x00\x00\
            \x02\x01s\x00\x01\x00\x00\x00i\x00\x00\x00\x00\x00\x00\x00\
            \x03\x01s\x00\x01\x00\x00\x00m\x00\x00\x00\x00\x00\x00\x00\
            \x06\x01s\x00\x01\x00\x00\x00d\x00\x00\x00\x00\x00\x00\x00\
            \x08\x01g\x00\x01s\x00\x00\
            \x01\x00\x00\x00a\x00";
        assert_eq!(call.message(&arguments), expected);
    }

    #[test]
    fn properties_have_types_and_alignment() {
        let mut properties = DbusWriter::default();
        properties.array(8, |array| {
            array.property("P", Value::Numbers(&[7]));
            array.property("D", Value::Flag(true));
            array.property("T", Value::Long(u64::MAX));
            array.property("N", Value::Text("x"));
        });
        let expected = b"\x58\x00\x00\x00\x00\x00\x00\x00\
            \x01\x00\x00\x00P\x00\x02au\x00\x00\x00\x04\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\
            \x01\x00\x00\x00D\x00\x01b\x00\x00\x00\x00\x01\x00\x00\x00\
            \x01\x00\x00\x00T\x00\x01t\x00\x00\x00\x00\x00\x00\x00\x00\
            \xff\xff\xff\xff\xff\xff\xff\xff\
            \x01\x00\x00\x00N\x00\x01s\x00\x00\x00\x00\x01\x00\x00\x00x\x00";
        // The length is right for any elements if it is right for these.
        assert_eq!(properties.0.len() - 8, usize::from(properties.0[0]));
        assert_eq!(properties.0[8..], expected[8..]);
    }

    #[test]
    fn split_and_joined_messages_are_decoded() {
        let mut body = DbusWriter::default();
        body.text("/job/1");
        let first = answer(RETURN, &[(SIGNATURE, "g", "o")], Some(1), &body);
        let second = answer(SIGNAL, &[(MEMBER, "s", "JobRemoved")], None, &body);
        let mut bytes = Vec::new();
        for byte in &first[..first.len() - 1] {
            bytes.push(*byte);
            assert_eq!(take(&mut bytes).expect("no error"), None);
        }
        bytes.push(first[first.len() - 1]);
        bytes.extend(&second);
        let message = take(&mut bytes).expect("no error").expect("whole");
        assert_eq!(
            (message.kind, message.reply_to),
            (MessageKind::Return, Some(1))
        );
        assert_eq!(message.signature, "o");
        assert_eq!(message.arguments().text().as_deref(), Some("/job/1"));
        let message = take(&mut bytes).expect("no error").expect("whole");
        assert_eq!(message.member.as_deref(), Some("JobRemoved"));
        assert_eq!(bytes, b"");
    }

    #[test]
    fn invalid_messages_are_refused() {
        let good = answer(RETURN, &[], Some(1), &DbusWriter::default());
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            take(&mut bytes)
        };
        assert!(with(0, b'B').is_err(), "byte order");
        assert!(with(3, 2).is_err(), "version");
        assert!(with(6, 0xff).is_err(), "length of the body");
        assert!(with(14, 0xff).is_err(), "length of the header");
        assert!(with(18, b'?').is_err(), "type of a field");
        // Any other change must not panic.
        for at in 0..good.len() {
            for value in [0, 1, 4, 0x7f, 0xff] {
                let _ = with(at, value);
            }
        }
    }
}
