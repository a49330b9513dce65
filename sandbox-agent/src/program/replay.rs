//! Sending the log.

use alloc::format;

use super::{outgoing_frames::OutgoingFrames, output_log::OutputLog};
use crate::protocol::{
    Channel, ExitKind, ExitReport, Kind, LogRequest, MAX_PAYLOAD, ProtocolError, WINDOW,
};

/// A stream on which the log's last lines are sent.
#[derive(Debug)]
pub(super) struct Replay {
    position: u64,
    /// Where it ends; `None` for one that follows the log.
    end: Option<u64>,
    stdout: ChannelCredit,
    stderr: ChannelCredit,
    /// Whether newer bytes took the place of some that were to be sent.
    overtaken: bool,
    killed: bool,
}

/// What may be sent on a channel, and what was.
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
    /// Sends the last lines of the log as it is now and, if that is asked for, what comes.
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

    /// Nothing more will come behind this position.
    pub(super) fn end_at(&mut self, end: u64) {
        self.end.get_or_insert(end);
    }

    /// A frame of the host for this stream.
    ///
    /// # Errors
    ///
    /// When the frame breaks the protocol.
    pub(super) fn frame(&mut self, kind: Kind, message: &[u8]) -> Result<(), ProtocolError> {
        match kind {
            Kind::Credit => {
                let (channel, bytes) = Channel::read_credit(message)?;
                let window = match channel {
                    Channel::Stdout => &mut self.stdout,
                    Channel::Stderr => &mut self.stderr,
                    Channel::Stdin => return Err(ProtocolError::Unexpected("credit")),
                };
                window.credit = window.credit.saturating_add(u64::from(bytes));
            }
            Kind::Kill => self.killed = true,
            // There is no process that a signal or input could be for.
            _ => return Err(ProtocolError::Unexpected("frame of a log")),
        }
        Ok(())
    }

    /// Sends on; says whether it is over.
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
            let left = self.end.unwrap_or(log.end()).saturating_sub(self.position);
            if left == 0 {
                break;
            }
            let limit = usize::try_from(self.stdout.credit.min(left))
                .unwrap_or(MAX_PAYLOAD)
                .min(MAX_PAYLOAD);
            if limit == 0 || !outgoing.has_room() {
                return false;
            }
            let position = self.position;
            let sent = outgoing
                .data(stream, Kind::Stdout, limit, |buffer| {
                    Ok(log.read(position, buffer))
                })
                .map_or(0, <[u8]>::len) as u64;
            self.position += sent;
            self.stdout.take(sent);
        }
        if self.end.is_none() && !self.killed {
            return false;
        }
        outgoing.message(stream, Kind::Exited, &self.report().encode());
        true
    }

    /// Goes on where the log begins now, and says so; false when there is no credit to say it.
    fn skip(&mut self, stream: u32, log: &OutputLog, outgoing: &mut OutgoingFrames) -> bool {
        let next = self.end.unwrap_or(u64::MAX).min(log.oldest());
        let lost = next - self.position;
        let word = format!("[{lost} bytes of the log were overwritten before they were read]\n");
        if self.stderr.credit < word.len() as u64 || !outgoing.has_room() {
            return false;
        }
        outgoing.message(stream, Kind::Stderr, word.as_bytes());
        self.stderr.take(word.len() as u64);
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
