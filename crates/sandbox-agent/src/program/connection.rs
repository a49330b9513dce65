//! A stream to a host: its descriptors, and the frames on their way.

use alloc::vec::Vec;

use sandbox_freestanding::{Descriptor, Errno, Fd, RawFd, Result, io};

use super::{
    outgoing::Outgoing,
    polling::{POLLIN, POLLOUT, after, now, wait_for},
    region::Region,
};
use crate::protocol::{FrameBuffer, Header, MAX_FRAME, MessageAssembler, ProtocolError};

/// Where the host is, as the command line names it.
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

/// Where reads of all streams go first.
#[derive(Debug)]
pub(super) struct Chunk(Region);

impl Chunk {
    /// Room for a frame; memory is taken as it is written to.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Region::new(MAX_FRAME).map(Self)
    }
}

/// The stream to a host.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` once reading or writing met the end.
    stream: Option<Stream>,
    pub(super) incoming: FrameBuffer,
    pub(super) assembler: MessageAssembler,
    pub(super) outgoing: Outgoing,
}

#[derive(Debug)]
struct Stream {
    input: Fd,
    /// Where it is another one.
    output: Option<Fd>,
}

impl Stream {
    fn output(&self) -> &Fd {
        self.output.as_ref().unwrap_or(&self.input)
    }
}

impl Connection {
    /// Takes over the stream that the agent was started with and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// `EBADF` when a descriptor is not open.
    pub(super) fn new(ends: Ends) -> Result<Self> {
        let input = take_over(ends.input)?;
        let output = if ends.output == ends.input {
            None
        } else {
            Some(take_over(ends.output)?)
        };
        Ok(Self::over(Stream { input, output }))
    }

    /// A socket that is non-blocking already.
    pub(super) fn of_socket(input: Fd) -> Self {
        Self::over(Stream {
            input,
            output: None,
        })
    }

    fn over(stream: Stream) -> Self {
        Self {
            stream: Some(stream),
            incoming: FrameBuffer::new(),
            assembler: MessageAssembler::new(),
            outgoing: Outgoing::default(),
        }
    }

    /// Whether neither reading nor writing has met the end.
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_some()
    }

    /// What is read from, and what is written to where that is another one.
    pub(super) fn ends(&self) -> Option<(RawFd, Option<RawFd>)> {
        let stream = self.stream.as_ref()?;
        Some((stream.input.raw(), stream.output.as_ref().map(Fd::as_raw)))
    }

    /// What is written to.
    pub(super) fn output(&self) -> Option<RawFd> {
        self.stream.as_ref().map(|stream| stream.output().raw())
    }

    /// Closes the stream; what waits to be written, or was read and not understood yet, is forgotten.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.outgoing = Outgoing::default();
        self.incoming = FrameBuffer::new();
        self.assembler = MessageAssembler::new();
    }

    /// Reads once, without waiting.
    pub(super) fn receive(&mut self, chunk: &mut Chunk) -> Arrival {
        let Some(stream) = &self.stream else {
            return Arrival::End;
        };
        let bytes = chunk.0.bytes_mut();
        match io::read(&stream.input, bytes) {
            Ok(0) => Arrival::End,
            Ok(count) => {
                self.incoming.extend(&bytes[..count]);
                Arrival::Bytes
            }
            Err(Errno::EAGAIN) => Arrival::Nothing,
            // A reset is an end too: there is nobody left to tell.
            Err(_) => Arrival::End,
        }
    }

    /// Writes what the stream takes; what cannot be written any more is forgotten.
    pub(super) fn send(&mut self) {
        match &self.stream {
            None => self.outgoing.clear(),
            Some(stream) => {
                if self.outgoing.write_to(stream.output().raw()).is_err() {
                    self.close();
                }
            }
        }
    }

    /// Waits for the next whole message, at most `milliseconds`; `None` is the end of the stream, or of the time.
    ///
    /// # Errors
    ///
    /// When the bytes are not a message.
    pub(super) fn wait_message(
        &mut self,
        chunk: &mut Chunk,
        milliseconds: u64,
    ) -> core::result::Result<Option<(Header, Vec<u8>)>, ProtocolError> {
        let until = after(now(), milliseconds);
        loop {
            while let Some(frame) = self.incoming.next_frame()? {
                let header = frame.header;
                if let Some(message) = self.assembler.push(header, frame.payload)? {
                    return Ok(Some((header, message.to_vec())));
                }
            }
            let Some((input, _)) = self.ends() else {
                return Ok(None);
            };
            let left = until.saturating_sub(now()) / 1000;
            if !wait_for(input, POLLIN, Some(left)) {
                return Ok(None);
            }
            if self.receive(chunk) == Arrival::End {
                self.close();
            }
        }
    }

    /// Writes everything, waiting at most `milliseconds` in one piece for the host to take more.
    pub(super) fn send_all(&mut self, milliseconds: u64) {
        loop {
            self.send();
            match self.output() {
                Some(output) if !self.outgoing.is_empty() => {
                    if !wait_for(output, POLLOUT, Some(milliseconds)) {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

/// Makes a descriptor of the command line the agent's own. Numbers 0 to 2 are left free.
fn take_over(raw: RawFd) -> Result<Fd> {
    io::set_nonblocking(raw, true)?;
    io::set_close_on_exec(raw, true)?;
    let given = Fd::from_raw(raw);
    if raw > 2 {
        return Ok(given);
    }
    io::duplicate_above(&given, 3)
}
