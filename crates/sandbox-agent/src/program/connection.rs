//! The stream to the host: its descriptors, and the frames on their way.

use alloc::{vec, vec::Vec};

use sandbox_freestanding::{Errno, RawFd, Result, io};

use super::{
    outgoing::Outgoing,
    polling::{POLLIN, POLLOUT, wait_for},
};
use crate::protocol::{FrameBuffer, Header, MAX_FRAME, MessageAssembler, ProtocolError};

/// Where the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Read from.
    pub(super) input: RawFd,
    /// Written to; the same as `input` for a socket.
    pub(super) output: RawFd,
}

/// What a read of the stream gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Bytes, now in the buffer.
    Bytes,
    /// Nothing at the moment.
    Nothing,
    /// The end of the stream, or an error that means the same.
    End,
}

/// The stream to the host.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: Ends,
    pub(super) incoming: FrameBuffer,
    pub(super) assembler: MessageAssembler,
    pub(super) outgoing: Outgoing,
    /// False once reading or writing met the end.
    pub(super) alive: bool,
    chunk: Vec<u8>,
}

impl Connection {
    /// Takes the stream over and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// `EBADF` when a descriptor is not open.
    pub(super) fn new(ends: Ends) -> Result<Self> {
        io::set_nonblocking(ends.input, true)?;
        io::set_nonblocking(ends.output, true)?;
        io::set_close_on_exec(ends.input, true)?;
        io::set_close_on_exec(ends.output, true)?;
        Ok(Self {
            ends,
            incoming: FrameBuffer::new(),
            assembler: MessageAssembler::new(),
            outgoing: Outgoing::default(),
            alive: true,
            chunk: vec![0; MAX_FRAME],
        })
    }

    /// Reads once, without waiting.
    pub(super) fn receive(&mut self) -> Arrival {
        match io::read(self.ends.input, &mut self.chunk) {
            Ok(0) => Arrival::End,
            Ok(count) => {
                self.incoming.extend(&self.chunk[..count]);
                Arrival::Bytes
            }
            Err(Errno::EAGAIN) => Arrival::Nothing,
            // A reset is an end too: there is nobody left to tell.
            Err(_) => Arrival::End,
        }
    }

    /// Writes what the stream takes; what cannot be written any more is forgotten.
    pub(super) fn send(&mut self) {
        if self.alive && self.outgoing.write_to(self.ends.output).is_err() {
            self.alive = false;
        }
        if !self.alive {
            self.outgoing.clear();
        }
    }

    /// Waits for the next whole message; `None` is the end of the stream.
    ///
    /// # Errors
    ///
    /// When the bytes are not a message.
    pub(super) fn wait_message(
        &mut self,
    ) -> core::result::Result<Option<(Header, Vec<u8>)>, ProtocolError> {
        loop {
            while let Some(frame) = self.incoming.next_frame()? {
                let header = frame.header;
                if let Some(message) = self.assembler.push(header, frame.payload)? {
                    return Ok(Some((header, message.to_vec())));
                }
            }
            wait_for(self.ends.input, POLLIN, None);
            if self.receive() == Arrival::End {
                self.alive = false;
                return Ok(None);
            }
        }
    }

    /// Writes everything, waiting at most `milliseconds` in one piece for the host to take more.
    pub(super) fn send_all(&mut self, milliseconds: u64) {
        loop {
            self.send();
            if self.outgoing.is_empty() || !wait_for(self.ends.output, POLLOUT, Some(milliseconds))
            {
                return;
            }
        }
    }
}
