//! The kinds of frames, and joining a message's frames.

use alloc::vec::Vec;

use super::{Header, MAX_MESSAGE, MessageReader, MessageWriter, ProtocolError};

/// What a frame carries. Kinds below 0x80 are sent by the host, the others by the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum FrameKind {
    /// Host, stream 0, the first message of a local sandbox: [`super::Setup`].
    Setup = 0x01,
    /// Host, stream 0: the ID maps that [`FrameKind::NeedMaps`] asked for are written.
    Mapped = 0x02,
    /// Host, stream 0: [`super::AgentSettings`].
    Hello = 0x03,
    /// Host, stream 0: any bytes, which [`FrameKind::Pong`] returns; extends the lease.
    Ping = 0x04,
    /// Host, stream 0: send SIGTERM to every execution, SIGKILL after the grace period (`u32`
    /// milliseconds), then answer [`FrameKind::Stopped`] and exit.
    Stop = 0x05,
    /// Host, stream 0, the first message of a later client: [`super::Attach`].
    Attach = 0x06,
    /// Host, stream 0, the first frame of a stream with a link: [`super::BeginLink`].
    Link = 0x07,
    /// Host, stream 0, the first frame of a stream that resumes a link: [`super::Resume`].
    Resume = 0x08,
    /// Host, stream 0: the rules for connections from now on, [`super::EgressTable`]. The agent
    /// answers [`FrameKind::EgressSet`].
    Egress = 0x09,
    /// Host, a new stream: [`super::ExecRequest`].
    Exec = 0x10,
    /// Host: bytes for standard input.
    Stdin = 0x11,
    /// Host: the end of standard input.
    StdinEnd = 0x12,
    /// Host: send this signal (`u32`) to the main process only. Ignored if it has ended.
    Signal = 0x13,
    /// Host: kill the process tree of this execution.
    Kill = 0x14,
    /// Host, a new stream: send the log as [`super::LogRequest`] says, as [`FrameKind::Stdout`], then
    /// [`FrameKind::Exited`]. If bytes were overwritten before they were sent, a line on
    /// [`FrameKind::Stderr`] says how many.
    Logs = 0x15,
    /// Both: grants this many more bytes (`u32`) on a channel ([`Channel`], one byte). From the
    /// agent, 0 bytes for standard input mean that it is not read any more.
    Credit = 0x16,
    /// Host, a new stream: connect to a port inside ([`super::DialRequest`]). The stream carries the
    /// connection: the host's bytes as [`FrameKind::Stdin`] up to [`FrameKind::StdinEnd`], the
    /// agent's as [`FrameKind::Stdout`] up to [`FrameKind::StdoutEnd`], each with credit. A
    /// [`FrameKind::Kill`] resets it.
    Dial = 0x17,
    /// Host: the new size of the execution's terminal: [`super::TerminalSize`].
    Resize = 0x1a,
    /// Agent, stream 0: the agent is in its user namespace and waits for [`FrameKind::Mapped`].
    NeedMaps = 0x81,
    /// Agent, stream 0: [`super::Welcome`].
    Welcome = 0x82,
    /// Agent, stream 0: the payload of a [`FrameKind::Ping`].
    Pong = 0x83,
    /// Agent, stream 0: every execution has ended, and the agent exits.
    Stopped = 0x84,
    /// Agent, stream 0, the first frame after a [`FrameKind::Link`] or [`FrameKind::Resume`]:
    /// [`super::Resumed`].
    Resumed = 0x85,
    /// Agent, stream 0: the rules of the last [`FrameKind::Egress`] are in force.
    EgressSet = 0x86,
    /// Agent: the program runs; its PID inside the sandbox (`u32`).
    Started = 0x90,
    /// Agent: bytes of standard output.
    Stdout = 0x91,
    /// Agent: bytes of standard error.
    Stderr = 0x92,
    /// Agent, last frame of its stream: [`super::ExitReport`].
    Exited = 0x93,
    /// Agent, last frame of its stream, or of the connection on stream 0: [`super::Failure`].
    Failed = 0x94,
    /// Agent: the end of a connection's bytes towards the host.
    StdoutEnd = 0x95,
    /// Agent, last frame of a connection's stream: [`super::ClosedReport`].
    Closed = 0x96,
    /// Agent, a new stream of its own: code has connected ([`super::ConnectRequest`]). The stream
    /// carries the connection as that of a [`FrameKind::Dial`]; a [`FrameKind::Kill`] refuses it.
    Connect = 0x97,
}

impl FrameKind {
    /// Decodes a kind.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::UnknownKind`].
    pub fn from_byte(byte: u8) -> Result<Self, ProtocolError> {
        const ALL: [FrameKind; 32] = [
            FrameKind::Setup,
            FrameKind::Mapped,
            FrameKind::Hello,
            FrameKind::Ping,
            FrameKind::Stop,
            FrameKind::Attach,
            FrameKind::Link,
            FrameKind::Resume,
            FrameKind::Egress,
            FrameKind::Exec,
            FrameKind::Stdin,
            FrameKind::StdinEnd,
            FrameKind::Signal,
            FrameKind::Kill,
            FrameKind::Logs,
            FrameKind::Credit,
            FrameKind::Dial,
            FrameKind::Resize,
            FrameKind::NeedMaps,
            FrameKind::Welcome,
            FrameKind::Pong,
            FrameKind::Stopped,
            FrameKind::Resumed,
            FrameKind::EgressSet,
            FrameKind::Started,
            FrameKind::Stdout,
            FrameKind::Stderr,
            FrameKind::Exited,
            FrameKind::Failed,
            FrameKind::StdoutEnd,
            FrameKind::Closed,
            FrameKind::Connect,
        ];
        ALL.into_iter()
            .find(|kind| *kind as u8 == byte)
            .ok_or(ProtocolError::UnknownKind(byte))
    }
}

/// A flow-controlled channel of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Channel {
    /// Host to program.
    Stdin = 0,
    /// Program to host.
    Stdout = 1,
    /// Program to host.
    Stderr = 2,
}

impl Channel {
    /// Encodes a [`FrameKind::Credit`] message for this channel.
    #[must_use]
    pub fn credit(self, bytes: u32) -> Vec<u8> {
        let mut message = MessageWriter::new();
        message.u8(self as u8).u32(bytes);
        message.finish()
    }

    /// Decodes a [`FrameKind::Credit`] message.
    ///
    /// # Errors
    ///
    /// If the channel is unknown or the message has another length.
    pub fn read_credit(message: &[u8]) -> Result<(Self, u32), ProtocolError> {
        let mut reader = MessageReader::new(message);
        let channel = match reader.u8()? {
            0 => Self::Stdin,
            1 => Self::Stdout,
            2 => Self::Stderr,
            _ => return Err(ProtocolError::BadValue("channel")),
        };
        let bytes = reader.u32()?;
        reader.end()?;
        Ok((channel, bytes))
    }
}

/// Joins the frames of a message. The frames of a message are contiguous: senders do not interleave
/// them with others.
#[derive(Debug, Default)]
pub struct MessageAssembler {
    partial: Vec<u8>,
    open: Option<(u32, FrameKind)>,
}

impl MessageAssembler {
    /// Creates an empty assembler.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a frame; returns the message after its last frame.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Unexpected`] if another message starts in the middle of one, and
    /// [`ProtocolError::TooLarge`] above [`MAX_MESSAGE`].
    pub fn push<'a>(
        &'a mut self,
        header: Header,
        payload: &'a [u8],
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        match self.open {
            None if !header.more => return Ok(Some(payload)),
            None => {
                self.partial.clear();
                self.open = Some((header.stream, header.kind));
            }
            Some(open) if open != (header.stream, header.kind) => {
                return Err(ProtocolError::Unexpected(
                    "frame in the middle of a message",
                ));
            }
            Some(_) => {}
        }
        if self.partial.len() + payload.len() > MAX_MESSAGE {
            return Err(ProtocolError::TooLarge("message"));
        }
        self.partial.extend_from_slice(payload);
        if header.more {
            return Ok(None);
        }
        self.open = None;
        Ok(Some(&self.partial))
    }
}
