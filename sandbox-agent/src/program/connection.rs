//! A stream to a host: its descriptors, and the frames on their way.

use alloc::vec::Vec;

use crate::runtime::{Descriptor, Errno, Fd, RawFd, Result, io};

use super::{
    agent_link::AgentLink,
    outgoing_frames::{OutgoingFrames, READ_LIMIT},
    poll_set::{MonotonicMicros, POLLIN, POLLOUT, after, now, wait_for},
    private_memory::PrivateMemory,
};
use crate::protocol::{
    FrameBuffer, Header, Key, LinkEnd, MAX_FRAME, MessageAssembler, ProtocolError,
};

/// Where the host is, as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamFds {
    /// Read from.
    pub(super) input: RawFd,
    /// Written to; the same as `input` for a socket.
    pub(super) output: RawFd,
}

/// What a read of the stream gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Bytes, now in the buffer.
    Bytes,
    /// Nothing at the moment.
    Nothing,
    /// The end of the stream, or an error that means the same.
    End,
    /// What is no packet of a link.
    Broken(ProtocolError),
}

/// Where reads of all streams go first.
#[derive(Debug)]
pub(super) struct ReadBuffer(PrivateMemory);

impl ReadBuffer {
    /// Room for a frame; memory is taken as it is written to.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        PrivateMemory::new(MAX_FRAME).map(Self)
    }
}

/// The stream to a host.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` once reading or writing met the end.
    stream: Option<OwnedStream>,
    /// Where a stream that ends is waited for; `None` where its end is the connection's.
    link: Option<AgentLink>,
    pub(super) incoming: FrameBuffer,
    pub(super) assembler: MessageAssembler,
    pub(super) outgoing: OutgoingFrames,
}

#[derive(Debug)]
struct OwnedStream {
    input: Fd,
    /// Where it is another one.
    output: Option<Fd>,
}

impl OwnedStream {
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
    pub(super) fn new(descriptors: StreamFds) -> Result<Self> {
        let input = take_over(descriptors.input)?;
        let output = if descriptors.output == descriptors.input {
            None
        } else {
            Some(take_over(descriptors.output)?)
        };
        Ok(Self::with_stream(OwnedStream { input, output }))
    }

    /// A socket that is non-blocking already.
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

    /// The same, whose bytes cross a link.
    pub(super) fn with_link(mut self, link: Option<AgentLink>) -> Self {
        self.link = link;
        self
    }

    /// What follows on the stream is packets of a link.
    ///
    /// # Errors
    ///
    /// When what is here already is none.
    pub(super) fn begin_link(&mut self, secret: Key) -> core::result::Result<(), ProtocolError> {
        let rest = self.incoming.take_rest();
        let link = self.link.insert(AgentLink::new(secret, LinkEnd::new()));
        link.receive(&rest, &mut self.incoming, &mut self.outgoing)
    }

    /// Whether it has not ended; its stream may be away for a while.
    pub(super) fn is_alive(&self) -> bool {
        self.stream.is_some() || self.link.is_some()
    }

    /// Whether there is a stream now.
    pub(super) fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Since when its stream is away.
    pub(super) fn disconnected_since(&self) -> Option<MonotonicMicros> {
        self.link.as_ref()?.disconnected_since()
    }

    /// Whether the host has said that nothing more comes.
    pub(super) fn is_closed(&self) -> bool {
        self.link.as_ref().is_some_and(AgentLink::is_closed)
    }

    /// Whether this is the secret of its link.
    pub(super) fn has_secret(&self, secret: &Key) -> bool {
        self.link
            .as_ref()
            .is_some_and(|link| link.has_secret(secret))
    }

    /// Goes on over another socket, which is non-blocking already, to a host that has received this many bytes.
    ///
    /// # Errors
    ///
    /// When it cannot have.
    pub(super) fn resume(
        &mut self,
        socket: Fd,
        received: u64,
    ) -> core::result::Result<(), (Fd, ProtocolError)> {
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

    /// The stream has ended. Without a link, so has the connection; says whether it goes on.
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

    /// Nothing follows what waits to be written.
    pub(super) fn finish(&mut self) {
        if let Some(link) = &mut self.link {
            link.end();
        }
    }

    /// Whether there is something to write, and somebody to take it.
    pub(super) fn has_to_write(&self) -> bool {
        self.has_stream()
            && match &self.link {
                None => !self.outgoing.is_empty(),
                Some(link) => link.has_to_write(&self.outgoing),
            }
    }

    /// Whether it is read from: a client that floods requests has to take their answers first.
    pub(super) fn wants_input(&self) -> bool {
        // With a link, only what is read says what was taken.
        self.link.is_some() || self.outgoing.len() < READ_LIMIT
    }

    /// What is read from, and what is written to where that is another one.
    pub(super) fn descriptors(&self) -> Option<(RawFd, Option<RawFd>)> {
        let stream = self.stream.as_ref()?;
        Some((stream.input.raw(), stream.output.as_ref().map(Fd::as_raw)))
    }

    /// What is written to.
    pub(super) fn output(&self) -> Option<RawFd> {
        self.stream.as_ref().map(|stream| stream.output().raw())
    }

    /// Closes the stream; what waits to be written, or was read and not understood yet, is forgotten.
    pub(super) fn close(&mut self) {
        if self.link.is_some() {
            self.finish();
            // The last packet, if it is taken at once; without it, the host comes back and learns the same.
            let _ = self.write();
        }
        self.stream = None;
        self.link = None;
        self.outgoing = OutgoingFrames::default();
        self.incoming = FrameBuffer::new();
        self.assembler = MessageAssembler::new();
    }

    /// Reads once, without waiting.
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
            // A reset is an end too: there is nobody left to tell.
            Err(_) => ReadOutcome::End,
        }
    }

    /// Writes what the stream takes; what cannot be written any more is forgotten, but where a link keeps it.
    pub(super) fn send(&mut self) {
        if !self.is_alive() {
            self.outgoing.clear();
        } else if self.write().is_err() {
            self.lose_stream();
        }
    }

    fn write(&mut self) -> Result<()> {
        match (&self.stream, &mut self.link) {
            (None, _) => Ok(()),
            (Some(stream), None) => self.outgoing.write_to(stream.output().raw()),
            (Some(stream), Some(link)) => link.write(&self.outgoing, stream.output().raw()),
        }
    }

    /// Waits for the next whole message, at most `milliseconds`; `None` is the end of the stream, or of the time.
    ///
    /// # Errors
    ///
    /// When the bytes are not a message.
    pub(super) fn wait_message(
        &mut self,
        read_buffer: &mut ReadBuffer,
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

    /// Writes everything, waiting at most `milliseconds` in one piece for the host to take more.
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

/// Makes a descriptor of the command line the agent's own. Numbers 0 to 2 are left free.
fn take_over(raw: RawFd) -> Result<Fd> {
    io::set_nonblocking(raw, true)?;
    io::set_close_on_exec(raw, true)?;
    let descriptor = Fd::from_raw(raw);
    if raw > 2 {
        return Ok(descriptor);
    }
    io::duplicate_above(&descriptor, 3)
}
