//! A client's connection: its descriptors, and buffered frames.

use alloc::vec::Vec;

use crate::runtime::{Descriptor, Errno, Fd, RawFd, io};

use super::{
    agent_link::AgentLink,
    outgoing_frames::{OutgoingFrames, READ_LIMIT},
    poll_set::{MonotonicMicros, POLLIN, POLLOUT, after, now, wait_for},
    private_memory::PrivateMemory,
};
use crate::protocol::{
    ClientKey, FrameBuffer, Header, LinkEnd, MAX_FRAME, MessageAssembler, ProtocolError,
};

/// Descriptors of a stream, as the command line names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamFds {
    /// Read from.
    pub(super) input: RawFd,
    /// Written to; the same as `input` for a socket.
    pub(super) output: RawFd,
}

/// The result of reading the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Bytes were added to the buffer.
    Bytes,
    /// No bytes are available now.
    Nothing,
    /// End of stream, or an error that means the same.
    End,
    /// The bytes violate the link's protocol.
    Broken(ProtocolError),
}

/// A buffer that all streams are read into first.
#[derive(Debug)]
pub(super) struct ReadBuffer(PrivateMemory);

impl ReadBuffer {
    /// A buffer for one frame. Its pages are allocated when they are first written.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self, Errno> {
        PrivateMemory::new(MAX_FRAME).map(Self)
    }
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` once the stream has ended.
    stream: Option<OwnedStream>,
    /// With a link, the connection survives the end of its stream.
    link: Option<AgentLink>,
    pub(super) incoming: FrameBuffer,
    pub(super) assembler: MessageAssembler,
    pub(super) outgoing: OutgoingFrames,
}

#[derive(Debug)]
struct OwnedStream {
    input: Fd,
    /// `None` if it is the same as `input`.
    output: Option<Fd>,
}

impl OwnedStream {
    fn output(&self) -> &Fd {
        self.output.as_ref().unwrap_or(&self.input)
    }
}

impl Connection {
    /// Takes ownership of the stream that the agent was started with and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// `EBADF` when a descriptor is not open.
    pub(super) fn new(descriptors: StreamFds) -> Result<Self, Errno> {
        let input = take_over(descriptors.input)?;
        let output = if descriptors.output == descriptors.input {
            None
        } else {
            Some(take_over(descriptors.output)?)
        };
        Ok(Self::with_stream(OwnedStream { input, output }))
    }

    /// A connection over a socket that is already non-blocking.
    pub(super) fn from_socket(input: Fd) -> Self {
        Self::with_stream(OwnedStream {
            input,
            output: None,
        })
    }

    fn with_stream(stream: OwnedStream) -> Self {
        Self {
            stream: Some(stream),
            link: None,
            incoming: FrameBuffer::new(),
            assembler: MessageAssembler::new(),
            outgoing: OutgoingFrames::default(),
        }
    }

    /// Carries the frames over a link.
    pub(super) fn with_link(mut self, link: Option<AgentLink>) -> Self {
        self.link = link;
        self
    }

    /// Begins a link: all further bytes are packets.
    ///
    /// # Errors
    ///
    /// When the buffered bytes are not packets.
    pub(super) fn begin_link(&mut self, secret: ClientKey) -> Result<(), ProtocolError> {
        let rest = self.incoming.take_rest();
        let link = self.link.insert(AgentLink::new(secret, LinkEnd::new()));
        link.receive(&rest, &mut self.incoming, &mut self.outgoing)
    }

    /// Whether the connection is open. Its stream may be disconnected for a while.
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_some() || self.link.is_some()
    }

    /// Whether it has a stream now.
    pub(super) fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// When its stream was lost, for a link.
    pub(super) fn disconnected_since(&self) -> Option<MonotonicMicros> {
        self.link.as_ref()?.disconnected_since()
    }

    /// Whether the client has closed the link.
    pub(super) fn is_closed(&self) -> bool {
        self.link.as_ref().is_some_and(AgentLink::is_closed)
    }

    /// Whether this is its link's secret.
    pub(super) fn has_secret(&self, secret: &ClientKey) -> bool {
        self.link
            .as_ref()
            .is_some_and(|link| link.has_secret(secret))
    }

    /// Resumes the link over a non-blocking socket, for a client that has received this many bytes.
    ///
    /// # Errors
    ///
    /// When the client cannot have received that many.
    pub(super) fn resume(&mut self, socket: Fd, received: u64) -> Result<(), (Fd, ProtocolError)> {
        let resumed = match &mut self.link {
            Some(link) => link.resume(received, &mut self.outgoing),
            None => Err(ProtocolError::Unexpected("return to no link")),
        };
        match resumed {
            Ok(()) => {
                self.stream = Some(OwnedStream {
                    input: socket,
                    output: None,
                });
                Ok(())
            }
            Err(error) => Err((socket, error)),
        }
    }

    /// Handles the end of the stream. Without a link, it ends the connection. Returns whether the
    /// connection survives.
    pub(super) fn lose_stream(&mut self) -> bool {
        match &mut self.link {
            Some(link) if !link.is_closed() => {
                self.stream = None;
                link.lose_stream();
                true
            }
            _ => {
                self.close();
                false
            }
        }
    }

    /// Marks the pending output as the last.
    pub(super) fn finish(&mut self) {
        if let Some(link) = &mut self.link {
            link.end();
        }
    }

    /// Whether output is pending and a stream is there.
    pub(super) fn has_to_write(&self) -> bool {
        self.has_stream()
            && match &self.link {
                None => !self.outgoing.is_empty(),
                Some(link) => link.has_to_write(&self.outgoing),
            }
    }

    /// Whether to read from it. A client that floods requests has to read their answers first.
    pub(super) fn wants_input(&self) -> bool {
        // A link's acknowledgements arrive by reading.
        self.link.is_some() || self.outgoing.len() < READ_LIMIT
    }

    /// The descriptor to read from, and the one to write to where it differs.
    pub(super) fn descriptors(&self) -> Option<(RawFd, Option<RawFd>)> {
        let stream = self.stream.as_ref()?;
        Some((stream.input.raw(), stream.output.as_ref().map(Fd::as_raw)))
    }

    /// The descriptor to write to.
    pub(super) fn output(&self) -> Option<RawFd> {
        self.stream.as_ref().map(|stream| stream.output().raw())
    }

    /// Closes the connection and drops all buffered input and output.
    pub(super) fn close(&mut self) {
        if self.link.is_some() {
            self.finish();
            // Only if the stream accepts it at once. Otherwise the client reconnects and gets a
            // refusal.
            let _ = self.write();
        }
        self.stream = None;
        self.link = None;
        self.outgoing = OutgoingFrames::default();
        self.incoming = FrameBuffer::new();
        self.assembler = MessageAssembler::new();
    }

    /// Reads once without blocking.
    pub(super) fn receive(&mut self, read_buffer: &mut ReadBuffer) -> ReadOutcome {
        let Some(stream) = &self.stream else {
            return ReadOutcome::End;
        };
        let bytes = read_buffer.0.bytes_mut();
        match io::read(&stream.input, bytes) {
            Ok(0) => ReadOutcome::End,
            Ok(count) => {
                let bytes = &bytes[..count];
                let Some(link) = &mut self.link else {
                    self.incoming.extend(bytes);
                    return ReadOutcome::Bytes;
                };
                match link.receive(bytes, &mut self.incoming, &mut self.outgoing) {
                    Ok(()) if self.outgoing.len() < READ_LIMIT => ReadOutcome::Bytes,
                    Ok(()) => ReadOutcome::Broken(ProtocolError::TooLarge("queue of answers")),
                    Err(error) => ReadOutcome::Broken(error),
                }
            }
            Err(Errno::EAGAIN) => ReadOutcome::Nothing,
            // A connection reset is an end too: the peer cannot be reached.
            Err(_) => ReadOutcome::End,
        }
    }

    /// Writes what the stream accepts without blocking. Drops output that can never be written.
    pub(super) fn send(&mut self) {
        if !self.is_alive() {
            self.outgoing.clear();
        } else if self.write().is_err() {
            self.lose_stream();
        }
    }

    fn write(&mut self) -> Result<(), Errno> {
        match (&self.stream, &mut self.link) {
            (None, _) => Ok(()),
            (Some(stream), None) => self.outgoing.write_to(stream.output().raw()),
            (Some(stream), Some(link)) => link.write(&self.outgoing, stream.output().raw()),
        }
    }

    /// Waits for the next complete message for at most `milliseconds`; `None` at the end of the
    /// stream, or after the timeout.
    ///
    /// # Errors
    ///
    /// When the bytes violate the protocol.
    pub(super) fn wait_message(
        &mut self,
        read_buffer: &mut ReadBuffer,
        milliseconds: u64,
    ) -> Result<Option<(Header, Vec<u8>)>, ProtocolError> {
        let until = after(now(), milliseconds);
        loop {
            while let Some(frame) = self.incoming.next_frame()? {
                let header = frame.header;
                if let Some(message) = self.assembler.push(header, frame.payload)? {
                    return Ok(Some((header, message.to_vec())));
                }
            }
            let Some((input, _)) = self.descriptors() else {
                return Ok(None);
            };
            let remaining = until.saturating_sub(now()) / 1000;
            if !wait_for(input, POLLIN, Some(remaining)) {
                return Ok(None);
            }
            match self.receive(read_buffer) {
                ReadOutcome::End => self.close(),
                ReadOutcome::Broken(error) => return Err(error),
                ReadOutcome::Bytes | ReadOutcome::Nothing => {}
            }
        }
    }

    /// Writes all pending output. Waits at most `milliseconds` each time until the stream accepts
    /// more.
    pub(super) fn send_all(&mut self, milliseconds: u64) {
        loop {
            self.send();
            match self.output() {
                Some(output) if self.has_to_write() => {
                    if !wait_for(output, POLLOUT, Some(milliseconds)) {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

/// Takes ownership of a descriptor of the command line. Moves it away from the numbers 0 to 2.
fn take_over(raw: RawFd) -> Result<Fd, Errno> {
    io::set_nonblocking(raw, true)?;
    io::set_close_on_exec(raw, true)?;
    let descriptor = Fd::from_raw(raw);
    if raw > 2 {
        return Ok(descriptor);
    }
    io::duplicate_above(&descriptor, 3)
}
