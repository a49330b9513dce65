//! One TCP connection, whose bytes a stream carries to the host and back.

use alloc::collections::VecDeque;

use crate::runtime::{Errno, Fd, io, net, socket};

use super::dial::dial_ipv6;
use crate::{
    program::{
        outgoing_frames::{OutgoingFrames, write_some},
        poll_set::{POLLIN, POLLOUT, PollSet},
    },
    protocol::{CONNECTION_WINDOW, Channel, ClosedReport, FrameKind, MAX_PAYLOAD, ProtocolError},
};

/// Credit is granted again in units of this many bytes.
const GRANT: u32 = CONNECTION_WINDOW / 4;

/// How many frames to read from one socket before other events are handled.
const MAX_FRAMES_PER_READ: usize = 4;

/// The most memory that an idle connection keeps, in bytes.
const MAX_IDLE_CAPACITY: usize = 4096;

/// `shutdown`: ends the sending direction.
const SHUT_WR: i32 = 1;

/// Whether the connection is established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// To `127.0.0.1`, with `::1` left to try at this port.
    ConnectingIpv4(u16),
    /// To `::1`, after `127.0.0.1` gave this error.
    ConnectingIpv6(Errno),
    Open,
}

/// A connection. Without a clean end, dropping it resets the peer's side.
#[derive(Debug)]
pub(in crate::program) struct TcpStream {
    socket: Fd,
    phase: Phase,
    /// The host's bytes that the socket has not accepted yet. At most [`CONNECTION_WINDOW`].
    waiting: VecDeque<u8>,
    /// How many more bytes the host may send.
    allowed: u32,
    /// How many of its bytes were written and not granted again.
    consumed: u32,
    /// Whether the host has ended its direction.
    input_ended: bool,
    /// Whether the socket's sending direction is shut down.
    sending_ended: bool,
    /// How many more bytes the host accepts.
    credit: u64,
    /// Whether the peer's direction has ended.
    receiving_ended: bool,
    /// Why the connection failed.
    error: Option<Errno>,
}

impl TcpStream {
    /// A connection that [`super::dial`] has started.
    pub(in crate::program) fn dialed(socket: Fd, port: u16) -> Self {
        Self::over(socket, Phase::ConnectingIpv4(port))
    }

    /// A connection that was accepted.
    pub(in crate::program) fn accepted(socket: Fd) -> Self {
        Self::over(socket, Phase::Open)
    }

    fn over(socket: Fd, phase: Phase) -> Self {
        // Only costs latency if it fails.
        let _ = socket::set_no_delay(&socket);
        Self {
            socket,
            phase,
            waiting: VecDeque::new(),
            allowed: CONNECTION_WINDOW,
            consumed: 0,
            input_ended: false,
            sending_ended: false,
            credit: u64::from(CONNECTION_WINDOW),
            receiving_ended: false,
            error: None,
        }
    }

    /// How it ended; `None` while it is open.
    pub(in crate::program) fn end(&self) -> Option<ClosedReport> {
        match self.error {
            Some(error) => Some(ClosedReport { errno: error.0 }),
            None if self.sending_ended && self.receiving_ended => Some(ClosedReport { errno: 0 }),
            None => None,
        }
    }

    /// Adds its socket to the poll set, if there is anything to wait for. A socket whose both
    /// directions wait for the host would otherwise report its hang-up again and again.
    pub(in crate::program) fn register<T: Copy>(
        &self,
        may_read: bool,
        set: &mut PollSet<T>,
        token: T,
    ) {
        let mut events = 0;
        if self.phase != Phase::Open || !self.waiting.is_empty() {
            events |= POLLOUT;
        }
        if self.phase == Phase::Open && may_read && self.credit > 0 && !self.receiving_ended {
            events |= POLLIN;
        }
        if events != 0 && self.end().is_none() {
            set.add(self.socket.as_raw(), events, token);
        }
    }

    /// Its socket is ready.
    pub(in crate::program) fn ready(&mut self, stream: u32, outgoing: &mut OutgoingFrames) {
        if self.phase != Phase::Open && !self.finish_connecting() {
            return;
        }
        self.write_waiting(stream, outgoing);
        self.read(stream, outgoing);
    }

    /// Handles a frame of the host for this stream.
    ///
    /// # Errors
    ///
    /// When the frame violates the protocol.
    pub(in crate::program) fn frame(
        &mut self,
        stream: u32,
        kind: FrameKind,
        message: &[u8],
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        match kind {
            FrameKind::Stdin => self.receive(stream, message, outgoing)?,
            FrameKind::StdinEnd if message.is_empty() => {
                self.input_ended = true;
                self.end_sending_if_done();
            }
            FrameKind::Kill if message.is_empty() => self.fail(Errno::ECONNRESET),
            FrameKind::Credit => match Channel::read_credit(message)? {
                (Channel::Stdout, bytes) => {
                    self.credit = self.credit.saturating_add(u64::from(bytes));
                }
                _ => return Err(ProtocolError::Unexpected("credit")),
            },
            FrameKind::StdinEnd | FrameKind::Kill => return Err(ProtocolError::TrailingBytes),
            _ => return Err(ProtocolError::Unexpected("frame of a connection")),
        }
        Ok(())
    }

    fn fail(&mut self, error: Errno) {
        self.error.get_or_insert(error);
    }

    /// Whether the connection is established now. Tries the other family after a refusal.
    fn finish_connecting(&mut self) -> bool {
        let error = match socket::take_error(&self.socket) {
            Ok(None) => {
                self.phase = Phase::Open;
                self.end_sending_if_done();
                return true;
            }
            Ok(Some(error)) | Err(error) => error,
        };
        match self.phase {
            Phase::ConnectingIpv4(port) => match dial_ipv6(port) {
                Ok(socket) => {
                    let _ = socket::set_no_delay(&socket);
                    self.socket = socket;
                    self.phase = Phase::ConnectingIpv6(error);
                }
                // The sandbox has no IPv6, which is not the reason to report.
                Err(_) => self.fail(error),
            },
            Phase::ConnectingIpv6(first) => self.fail(first),
            Phase::Open => self.fail(error),
        }
        false
    }

    fn receive(
        &mut self,
        stream: u32,
        bytes: &[u8],
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        if self.input_ended {
            return Err(ProtocolError::Unexpected("bytes after their end"));
        }
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.allowed = self
            .allowed
            .checked_sub(length)
            .ok_or(ProtocolError::CreditExceeded)?;
        let mut rest = bytes;
        if self.phase == Phase::Open && self.waiting.is_empty() {
            let written = self.write(bytes);
            self.consume(stream, written, outgoing);
            rest = &rest[written..];
        }
        self.waiting.extend(rest);
        Ok(())
    }

    fn write_waiting(&mut self, stream: u32, outgoing: &mut OutgoingFrames) {
        while !self.waiting.is_empty() && self.error.is_none() {
            let (head, _) = self.waiting.as_slices();
            let length = head.len();
            let written = match write_some(&self.socket, head) {
                Ok(written) => written,
                Err(error) => return self.fail(error),
            };
            self.waiting.drain(..written);
            self.consume(stream, written, outgoing);
            if written < length {
                return;
            }
        }
        // The memory of a full window is not kept for an idle connection.
        self.waiting.shrink_to(MAX_IDLE_CAPACITY);
        self.end_sending_if_done();
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        match write_some(&self.socket, bytes) {
            Ok(written) => written,
            Err(error) => {
                self.fail(error);
                0
            }
        }
    }

    fn consume(&mut self, stream: u32, count: usize, outgoing: &mut OutgoingFrames) {
        self.consumed += u32::try_from(count).unwrap_or(CONNECTION_WINDOW);
        if self.consumed >= GRANT && !self.input_ended {
            let credit = Channel::Stdin.credit(self.consumed);
            outgoing.message(stream, FrameKind::Credit, &credit);
            self.allowed = self.allowed.saturating_add(self.consumed);
            self.consumed = 0;
        }
    }

    fn end_sending_if_done(&mut self) {
        let done = self.input_ended && self.waiting.is_empty() && self.phase == Phase::Open;
        if done && !self.sending_ended {
            self.sending_ended = true;
            match net::shutdown(&self.socket, SHUT_WR) {
                // The peer has closed it already, which reading shows.
                Ok(()) | Err(Errno::ENOTCONN) => {}
                Err(error) => self.fail(error),
            }
        }
    }

    fn read(&mut self, stream: u32, outgoing: &mut OutgoingFrames) {
        for _ in 0..MAX_FRAMES_PER_READ {
            let limit = usize::try_from(self.credit)
                .unwrap_or(MAX_PAYLOAD)
                .min(MAX_PAYLOAD);
            let open = self.error.is_none() && !self.receiving_ended;
            if !open || limit == 0 || !outgoing.has_room() {
                return;
            }
            let socket = &self.socket;
            let read = outgoing.data(stream, FrameKind::Stdout, limit, |buffer| {
                io::read(socket, buffer)
            });
            match read {
                Ok([]) => {
                    self.receiving_ended = true;
                    outgoing.message(stream, FrameKind::StdoutEnd, b"");
                }
                Ok(bytes) => {
                    let count = bytes.len();
                    self.credit -= count as u64;
                    if count < limit {
                        return;
                    }
                }
                Err(Errno::EAGAIN) => return,
                Err(error) => self.fail(error),
            }
        }
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if self.end().is_none_or(|end| end.errno != 0) {
            // Otherwise cut data would look complete. Fails only for what is no socket.
            let _ = socket::reset_on_close(&self.socket);
        }
    }
}
