//! Standard input: bytes of the client on their way into a pipe.

use alloc::{collections::VecDeque, vec::Vec};

use crate::runtime::{Fd, RawFd, io, terminal};

use crate::{
    program::outgoing_frames::{OutgoingFrames, write_some},
    protocol::{Channel, FrameKind, ProtocolError, WINDOW},
};

/// Credit is granted again in units of this many bytes.
const GRANT: u32 = WINDOW / 4;

/// The agent's end of a program's standard input.
#[derive(Debug)]
pub(super) struct Stdin {
    pipe: Option<Fd>,
    /// Gets a byte when the whole input is in the pipe.
    complete: Option<Fd>,
    waiting: VecDeque<u8>,
    /// Set for a terminal.
    line: Option<LineState>,
    /// Whether the client has ended the input.
    ended: bool,
    /// How many more bytes the client may send.
    allowed: u32,
    /// How many bytes were consumed and not yet granted again.
    consumed: u32,
}

/// What a terminal's line editor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// An empty line: one end-of-file character ends the input.
    Empty,
    /// The start of a line: an end-of-file character gives it to the reader, another one ends the
    /// input.
    Begun,
}

impl Stdin {
    pub(super) fn new(pipe: Option<Fd>, complete: Option<Fd>) -> Self {
        Self {
            pipe,
            complete,
            waiting: VecDeque::new(),
            line: None,
            ended: false,
            allowed: WINDOW,
            consumed: 0,
        }
    }

    /// The input of a terminal, through its master.
    pub(super) fn of_terminal(master: Option<Fd>) -> Self {
        Self {
            line: Some(LineState::Empty),
            ..Self::new(master, None)
        }
    }

    /// The descriptor to poll, while bytes wait.
    pub(super) fn poll_descriptor(&self) -> Option<RawFd> {
        if self.waiting.is_empty() {
            None
        } else {
            self.pipe.as_ref().map(Fd::as_raw)
        }
    }

    /// Handles bytes from the client.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::CreditExceeded`].
    pub(super) fn receive(
        &mut self,
        stream: u32,
        bytes: &[u8],
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.allowed = self
            .allowed
            .checked_sub(length)
            .ok_or(ProtocolError::CreditExceeded)?;
        if self.ended {
            return Err(ProtocolError::Unexpected("standard input after its end"));
        }
        if let (Some(line), Some(last)) = (&mut self.line, bytes.last()) {
            *line = match last {
                b'\n' | b'\r' => LineState::Empty,
                _ => LineState::Begun,
            };
        }
        let mut rest = bytes;
        if self.waiting.is_empty() && self.pipe.is_some() {
            let written = self.write(rest, stream, outgoing);
            rest = &rest[written..];
            self.consume(stream, written, outgoing);
        }
        if self.pipe.is_some() {
            self.waiting.extend(rest);
        } else {
            // Without a reader, bytes that were already sent are dropped.
            self.consume(stream, rest.len(), outgoing);
        }
        Ok(())
    }

    /// The client has ended the input. A terminal has no end of its own: its reader gets the
    /// end-of-file character.
    pub(super) fn end(&mut self) {
        self.ended = true;
        if let (Some(line), Some(master)) = (self.line, &self.pipe) {
            let byte = terminal::end_of_file(master);
            let count = if line == LineState::Empty { 1 } else { 2 };
            self.waiting.extend(core::iter::repeat_n(byte, count));
        }
        self.close_if_done();
    }

    /// Writes waiting bytes after the pipe has become writable or lost its reader.
    pub(super) fn write_waiting(&mut self, stream: u32, outgoing: &mut OutgoingFrames) {
        while !self.waiting.is_empty() && self.pipe.is_some() {
            let (head, _) = self.waiting.as_slices();
            let head = Vec::from(&head[..head.len().min(65_536)]);
            let written = self.write(&head, stream, outgoing);
            self.waiting.drain(..written);
            self.consume(stream, written, outgoing);
            if written < head.len() {
                break;
            }
        }
        if self.pipe.is_none() {
            let dropped = self.waiting.len();
            self.waiting.clear();
            self.consume(stream, dropped, outgoing);
        }
        self.close_if_done();
    }

    /// Closes the pipe early: the reader can tell that the input is incomplete.
    pub(super) fn abandon(&mut self) {
        self.waiting.clear();
        self.pipe = None;
        self.complete = None;
    }

    fn write(&mut self, bytes: &[u8], stream: u32, outgoing: &mut OutgoingFrames) -> usize {
        match self.pipe.as_ref().map(|pipe| write_some(pipe, bytes)) {
            Some(Ok(written)) => written,
            None => 0,
            // EPIPE: the program does not read any more. Zero credit tells the client to stop
            // sending.
            Some(Err(_)) => {
                self.pipe = None;
                if !self.ended {
                    outgoing.message(stream, FrameKind::Credit, &Channel::Stdin.credit(0));
                }
                0
            }
        }
    }

    fn close_if_done(&mut self) {
        if self.ended && self.waiting.is_empty() {
            if let Some(complete) = self.complete.take() {
                // An error means that the reader is gone.
                let _ = io::write(&complete, &[1]);
            }
            self.pipe = None;
        }
    }

    fn consume(&mut self, stream: u32, count: usize, outgoing: &mut OutgoingFrames) {
        self.consumed += u32::try_from(count).unwrap_or(WINDOW);
        if self.consumed >= GRANT && !self.ended {
            outgoing.message(
                stream,
                FrameKind::Credit,
                &Channel::Stdin.credit(self.consumed),
            );
            self.allowed = self.allowed.saturating_add(self.consumed);
            self.consumed = 0;
        }
    }
}
