//! The channel to a driver, in the form that its language can speak.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::CellRequest;
use super::frame::{self, Frame, Frames};
use super::message::{self, RunMessage};
use super::shell::{Item, ShellChannel};

/// The form of a channel.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// Frames, on standard input and output.
    Frames,
    /// The code's own output, with this mark at the end of each cell and, if the driver sends
    /// messages, before each piece of them.
    Shell { mark: String, has_messages: bool },
}

#[derive(Debug)]
pub(super) enum Channel {
    Frames(Frames),
    Shell(Box<ShellChannel>),
}

impl Channel {
    pub(super) fn new(form: &Form) -> Self {
        match form {
            Form::Frames => Self::Frames(Frames::default()),
            Form::Shell { mark, has_messages } => {
                Self::Shell(Box::new(ShellChannel::new(mark, *has_messages)))
            }
        }
    }

    /// Begins a cell. Returns the request for it.
    pub(super) fn begin(&mut self, cell: u64, request: &CellRequest, limits: [u64; 2]) -> Vec<u8> {
        match self {
            Self::Frames(_) => {
                let message = RunMessage {
                    cell,
                    name: format!("<cell {cell}>"),
                    code: &request.code,
                    stdin: STANDARD.encode(&request.stdin),
                    limits,
                    fork: request.forked,
                };
                let message = serde_json::to_vec(&message).expect("texts and numbers");
                frame::encode(b'r', &message)
            }
            Self::Shell(shell) => shell.begin(cell, request, limits),
        }
    }

    /// The request to interrupt the cell. A signal of the host could come when the next one runs.
    pub(super) fn interrupt(&self) -> Vec<u8> {
        match self {
            Self::Frames(_) => frame::encode(b'i', b""),
            Self::Shell(_) => b"i\n".to_vec(),
        }
    }

    /// The request to kill what the code started.
    pub(super) fn kill_children(&self) -> Vec<u8> {
        match self {
            Self::Frames(_) => frame::encode(b'k', b""),
            Self::Shell(_) => b"k\n".to_vec(),
        }
    }

    /// The request to copy the interpreter for another session. Python only.
    pub(super) fn branch() -> Vec<u8> {
        frame::encode(b'b', b"")
    }

    /// Takes standard output; an error says how it is wrong.
    pub(super) fn push_stdout(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Frames(frames) => {
                frames.push(bytes);
                Ok(())
            }
            Self::Shell(shell) => shell.push(0, bytes),
        }
    }

    /// Takes standard error. Returns whether the interpreter itself wrote it, and not the code.
    pub(super) fn push_stderr(&mut self, bytes: &[u8]) -> Result<bool, String> {
        match self {
            Self::Frames(_) => Ok(true),
            Self::Shell(shell) => {
                let is_starting = shell.is_starting();
                shell.push(1, bytes)?;
                Ok(is_starting)
            }
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) {
        if let Self::Shell(shell) = self {
            shell.finish();
        }
    }

    /// The next thing; an error says how it is wrong.
    pub(super) fn next(&mut self) -> Result<Option<Item>, String> {
        match self {
            Self::Shell(shell) => Ok(shell.next()),
            Self::Frames(frames) => Ok(match frames.next()? {
                None => None,
                Some(Frame::Stdout(bytes)) => Some(Item::Stdout(bytes)),
                Some(Frame::Stderr(bytes)) => Some(Item::Stderr(bytes)),
                Some(Frame::Message(bytes)) => Some(Item::Message(message::parse(&bytes)?)),
            }),
        }
    }
}
