//! The protocol between the creator of a detached sandbox and its supervisor (`sandbox-agent
//! keep`): a process outside of the sandbox that is its agent's parent, ends the sandbox after its
//! lifetime, and removes its files and control groups.
//!
//! ```text
//! creator                         supervisor
//!  | Charge {folder, groups}        |   sent before the supervisor starts: what to remove
//!  | Keep {lifetime, key, record}   |   the sandbox works; write its record
//!  |               Ready | refused  |
//!  | Go                             |   the supervisor takes over
//! ```
//!
//! Each message is a 32-bit little-endian length and that many bytes. If the creator exits or
//! closes the stream before it has sent [`GO`], the supervisor removes everything.

use alloc::vec::Vec;

use super::{ClientKey, Failure, MessageReader, MessageWriter, ProtocolError, attach::read_key};

/// The maximum size of a message in bytes.
pub const MAX_DETACH_MESSAGE: usize = 4 * 1024 * 1024;

/// The creator's last message: an empty one.
pub const GO: [u8; 4] = [0; 4];

/// Names of the files in a detached sandbox's folder.
pub mod files {
    use core::ffi::CStr;

    /// The [`ClientKey`](super::ClientKey) that clients authenticate with, as raw bytes.
    pub const KEY: &CStr = c"key";
    /// The sandbox's record. It exists as long as the sandbox.
    pub const RECORD: &CStr = c"sandbox.json";
    /// The record while it is written.
    pub const NEW_RECORD: &CStr = c"sandbox.json.new";
    /// The agent's socket.
    pub const SOCKET: &CStr = c"agent.sock";
    /// Locked (`flock`) by the supervisor as long as it lives.
    pub const LOCK: &CStr = c"lock";
    /// How many processes the supervisor has killed for memory: decimal digits and a line feed.
    /// Missing for none.
    pub const MEMORY_KILLS: &CStr = c"memory_kills";
    /// The folder for the code's files, if the sandbox has no root of its own.
    pub const PRIVATE: &CStr = c"private";
}

/// What the supervisor removes at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The sandbox's folder, an absolute path on the host.
    pub folder: Vec<u8>,
    /// The paths of its control groups.
    pub groups: Vec<Vec<u8>>,
    /// Whether the agent is PID 1 of a PID namespace, so that its exit ends all processes.
    pub own_processes: bool,
}

/// The request to take over a working sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// The lifetime in milliseconds, after which the supervisor ends the sandbox.
    pub lifetime_ms: u64,
    /// Memory limit for all processes together in bytes, sampled every 100 ms; 0 for none.
    pub sampled_memory: u64,
    /// The key that clients authenticate with.
    pub key: ClientKey,
    /// The content of the record.
    pub record: Vec<u8>,
}

/// The supervisor's answer to [`Keep`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisorAnswer {
    /// The record is written.
    Ready,
    /// The record could not be written. The supervisor removes everything once the creator closes
    /// the stream.
    Refused(Failure),
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = MessageWriter::new();
    framed.bytes(message);
    framed.finish()
}

/// The first complete message in `bytes` and the number of bytes it takes; `None` until more bytes
/// have come.
///
/// # Errors
///
/// [`ProtocolError::TooLarge`].
pub fn next_message(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let Some(length) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_DETACH_MESSAGE {
        return Err(ProtocolError::TooLarge("message to a supervisor"));
    }
    Ok(bytes
        .get(4..4 + length)
        .map(|message| (message, 4 + length)))
}

impl Charge {
    /// Encodes the message, with its length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message
            .bytes(&self.folder)
            .list(&self.groups, |message, group| {
                message.bytes(group);
            })
            .bool(self.own_processes);
        framed(&message.finish())
    }

    /// Decodes a message without its length.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let charge = Self {
            folder: reader.bytes()?.to_vec(),
            groups: super::exec::byte_list(&mut reader)?,
            own_processes: reader.bool()?,
        };
        reader.end()?;
        Ok(charge)
    }
}

impl Keep {
    /// Encodes the message, with its length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message
            .u64(self.lifetime_ms)
            .u64(self.sampled_memory)
            .bytes(self.key.as_bytes())
            .bytes(&self.record);
        framed(&message.finish())
    }

    /// Decodes a message without its length.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let keep = Self {
            lifetime_ms: reader.u64()?,
            sampled_memory: reader.u64()?,
            key: read_key(&mut reader)?,
            record: reader.bytes()?.to_vec(),
        };
        reader.end()?;
        Ok(keep)
    }
}

impl SupervisorAnswer {
    /// Encodes the message, with its length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready => framed(&[]),
            Self::Refused(failure) => framed(&failure.encode()),
        }
    }

    /// Decodes a message without its length.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        if message.is_empty() {
            return Ok(Self::Ready);
        }
        Failure::decode(message).map(Self::Refused)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::protocol::FailStep;

    #[test]
    fn messages_round_trip_and_are_framed() {
        let charge = Charge {
            folder: b"/run/sandbox/sandboxes/x".to_vec(),
            groups: vec![b"/a".to_vec(), b"/b".to_vec()],
            own_processes: true,
        };
        let keep = Keep {
            lifetime_ms: 5,
            sampled_memory: 7,
            key: ClientKey::new([3; 32]),
            record: b"{}".to_vec(),
        };
        let mut bytes = charge.encode();
        bytes.extend(keep.encode());
        let (message, length) = next_message(&bytes).unwrap().unwrap();
        assert_eq!(Charge::decode(message), Ok(charge));
        let rest = &bytes[length..];
        let (message, length) = next_message(rest).unwrap().unwrap();
        assert_eq!((Keep::decode(message), length), (Ok(keep), rest.len()));
        for cut in 0..rest.len() {
            assert_eq!(next_message(&rest[..cut]), Ok(None));
        }
        assert!(next_message(&[0xff; 4]).is_err());
        assert_eq!(next_message(&GO), Ok(Some((&[][..], 4))));
    }

    #[test]
    fn answers_round_trip() {
        let refused = SupervisorAnswer::Refused(Failure {
            step: FailStep::Setup,
            errno: 28,
            detail: "key".into(),
        });
        for answer in [SupervisorAnswer::Ready, refused] {
            let bytes = answer.encode();
            let (message, _) = next_message(&bytes).unwrap().unwrap();
            assert_eq!(SupervisorAnswer::decode(message), Ok(answer));
        }
    }
}
