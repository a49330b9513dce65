//! What the creator of a detached sandbox and its keeper say to each other. The keeper is this program in another mode
//! (`sandbox-agent keep`): a process outside of the sandbox that is the parent of its agent, ends it at its time, and
//! removes what it has on the host.
//!
//! ```text
//! creator                             keeper
//!  | Charge {folder, groups}            |   before the keeper starts: what it removes, whatever comes
//!  | Keep {lifetime, key, record}       |   the sandbox works, and may be written down
//!  |                   Ready | refused  |
//!  | Go                                 |   from now on it is the keeper's alone
//! ```
//!
//! Each message is its length in four bytes, little-endian, and its bytes. When the creator ends, or closes the stream,
//! before it has said [`GO`], the keeper removes everything.

use alloc::vec::Vec;

use super::{Failure, Key, ProtocolError, Reader, Writer, attach::read_key};

/// How large a message may be, in bytes.
pub const MAX_KEEP_MESSAGE: usize = 4 * 1024 * 1024;

/// The creator's last message: an empty one.
pub const GO: [u8; 4] = [0; 4];

/// Names of the files in a detached sandbox's folder.
pub mod files {
    use core::ffi::CStr;

    /// The [`Key`](super::Key) that a client shows the agent: its bytes.
    pub const KEY: &CStr = c"key";
    /// What the sandbox is. It is there as long as the sandbox is.
    pub const RECORD: &CStr = c"sandbox.json";
    /// The record while it is written.
    pub const NEW_RECORD: &CStr = c"sandbox.json.new";
    /// The agent's socket.
    pub const SOCKET: &CStr = c"agent.sock";
    /// Locked (`flock`) by the keeper as long as it lives.
    pub const LOCK: &CStr = c"lock";
    /// How many processes the keeper has killed for memory, in decimal digits and a line's end; missing for none.
    pub const MEMORY_KILLS: &CStr = c"memory_kills";
    /// The folder for the code's own files, where the sandbox has no root of its own.
    pub const PRIVATE: &CStr = c"private";
}

/// What a keeper removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The sandbox's folder, an absolute path of the host.
    pub folder: Vec<u8>,
    /// Its control groups.
    pub groups: Vec<Vec<u8>>,
    /// Whether the agent is the first process of a process namespace, so that its end ends all.
    pub own_processes: bool,
}

/// The sandbox works: what the keeper needs to take it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Milliseconds until the keeper ends it.
    pub lifetime_ms: u64,
    /// Bytes of memory that its processes may have together, looked at ten times a second; 0 for no limit.
    pub sampled_memory: u64,
    /// What a client shows the agent.
    pub key: Key,
    /// The content of the record.
    pub record: Vec<u8>,
}

/// What the keeper says to [`Keep`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is written down.
    Ready,
    /// It could not be: everything is removed once the creator closes the stream.
    Refused(Failure),
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = Writer::new();
    framed.bytes(message);
    framed.finish()
}

/// The first whole message of `bytes` and how many bytes it takes; `None` until more have come.
///
/// # Errors
///
/// [`ProtocolError::TooLarge`].
pub fn next_message(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let Some(length) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_KEEP_MESSAGE {
        return Err(ProtocolError::TooLarge("message to a keeper"));
    }
    Ok(bytes
        .get(4..4 + length)
        .map(|message| (message, 4 + length)))
}

impl Charge {
    /// The message, its length first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message
            .bytes(&self.folder)
            .list(&self.groups, |message, group| {
                message.bytes(group);
            })
            .bool(self.own_processes);
        framed(&message.finish())
    }

    /// Reads the message, without its length.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
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
    /// The message, its length first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Writer::new();
        message
            .u64(self.lifetime_ms)
            .u64(self.sampled_memory)
            .bytes(self.key.as_bytes())
            .bytes(&self.record);
        framed(&message.finish())
    }

    /// Reads the message, without its length.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
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

impl Answer {
    /// The message, its length first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready => framed(&[]),
            Self::Refused(failure) => framed(&failure.encode()),
        }
    }

    /// Reads the message, without its length.
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
            key: Key::new([3; 32]),
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
        let refused = Answer::Refused(Failure {
            step: FailStep::Setup,
            errno: 28,
            detail: "key".into(),
        });
        for answer in [Answer::Ready, refused] {
            let bytes = answer.encode();
            let (message, _) = next_message(&bytes).unwrap().unwrap();
            assert_eq!(Answer::decode(message), Ok(answer));
        }
    }
}
