//! Sending the log to a client.

use alloc::format;

use super::{outgoing_frames::OutgoingFrames, output_log::OutputLog};
use crate::protocol::{
    Channel, ExitKind, ExitReport, FrameKind, LogRequest, MAX_PAYLOAD, ProtocolError, WINDOW,
};

/// A stream that sends the last lines of the log.
#[derive(Debug)]
pub(super) struct Replay {
    position: u64,
    /// The position to stop at; `None` for a stream that follows the log.
    end: Option<u64>,
    stdout: ChannelCredit,
    stderr: ChannelCredit,
    /// Whether bytes were overwritten before they were sent.
    overtaken: bool,
    killed: bool,
}

/// The credit of a channel, and the bytes sent on it.
#[derive(Debug)]
struct ChannelCredit {
    credit: u64,
    sent: u64,
}

impl ChannelCredit {
    const fn new() -> Self {
        Self {
            credit: WINDOW as u64,
            sent: 0,
        }
    }

    fn take(&mut self, count: u64) {
        self.credit -= count;
        self.sent += count;
    }
}

impl Replay {
    /// Sends the last lines of the log and, if the request says so, all that follow.
    pub(super) fn new(log: &OutputLog, request: LogRequest) -> Self {
        let end = log.end();
        Self {
            position: log.tail(request.tail),
            end: (!request.follow).then_some(end),
            stdout: ChannelCredit::new(),
            stderr: ChannelCredit::new(),
            overtaken: false,
            killed: false,
        }
    }

    /// The log ends at this position.
    pub(super) fn end_at(&mut self, end: u64) {
        self.end.get_or_insert(end);
    }

    /// Handles a frame of the client for this stream.
    ///
    /// # Errors
    ///
    /// When the frame violates the protocol.
    pub(super) fn frame(&mut self, kind: FrameKind, message: &[u8]) -> Result<(), ProtocolError> {
        match kind {
            FrameKind::Credit => {
                let (channel, bytes) = Channel::read_credit(message)?;
                let window = match channel {
                    Channel::Stdout => &mut self.stdout,
                    Channel::Stderr => &mut self.stderr,
                    Channel::Stdin => return Err(ProtocolError::Unexpected("credit")),
                };
                window.credit = window.credit.saturating_add(u64::from(bytes));
            }
            FrameKind::Kill => self.killed = true,
            // A replay has no process that could take a signal or input.
            _ => return Err(ProtocolError::Unexpected("frame of a log")),
        }
        Ok(())
    }

    /// Sends what credit and queue allow; returns whether the replay is finished.
    pub(super) fn advance(
        &mut self,
        stream: u32,
        log: &OutputLog,
        outgoing: &mut OutgoingFrames,
    ) -> bool {
        while !self.killed && self.position < self.end.unwrap_or(log.end()) {
            if self.position < log.oldest() && !self.skip(stream, log, outgoing) {
                return false;
            }
            let remaining = self.end.unwrap_or(log.end()).saturating_sub(self.position);
            if remaining == 0 {
                break;
            }
            let limit = usize::try_from(self.stdout.credit.min(remaining))
                .unwrap_or(MAX_PAYLOAD)
                .min(MAX_PAYLOAD);
            if limit == 0 || !outgoing.has_room() {
                return false;
            }
            let position = self.position;
            let sent = outgoing
                .data(stream, FrameKind::Stdout, limit, |buffer| {
                    Ok(log.read(position, buffer))
                })
                .map_or(0, <[u8]>::len) as u64;
            self.position += sent;
            self.stdout.take(sent);
        }
        if self.end.is_none() && !self.killed {
            return false;
        }
        outgoing.message(stream, FrameKind::Exited, &self.report().encode());
        true
    }

    /// Continues at the oldest byte that is left and reports the gap. Returns false without credit
    /// for the report.
    fn skip(&mut self, stream: u32, log: &OutputLog, outgoing: &mut OutgoingFrames) -> bool {
        let next = self.end.unwrap_or(u64::MAX).min(log.oldest());
        let lost = next - self.position;
        let notice = format!("[{lost} bytes of the log were overwritten before they were read]\n");
        if self.stderr.credit < notice.len() as u64 || !outgoing.has_room() {
            return false;
        }
        outgoing.message(stream, FrameKind::Stderr, notice.as_bytes());
        self.stderr.take(notice.len() as u64);
        self.position = next;
        self.overtaken = true;
        true
    }

    fn report(&self) -> ExitReport {
        let kind = if self.killed {
            ExitKind::Killed
        } else {
            ExitKind::Exited(0)
        };
        ExitReport {
            stdout_total: self.stdout.sent,
            stderr_total: self.stderr.sent,
            drain_cut: self.overtaken,
            ..ExitReport::of(kind)
        }
    }
}
