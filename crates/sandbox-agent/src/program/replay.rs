//! Sending the log.

use super::{log::Log, outgoing::Outgoing};
use crate::protocol::{Channel, ExitKind, ExitReport, Kind, MAX_PAYLOAD, ProtocolError, WINDOW};

/// A stream on which the log's last bytes are sent.
#[derive(Debug)]
pub(super) struct Replay {
    position: u64,
    end: u64,
    credit: u64,
    sent: u64,
    /// Newer bytes took the place of some that were to be sent.
    overtaken: bool,
    killed: bool,
}

impl Replay {
    /// Sends the last `tail` bytes of the log as it is now.
    pub(super) fn new(log: &Log, tail: u32) -> Self {
        let end = log.end();
        let position = log.oldest().max(end.saturating_sub(u64::from(tail)));
        let credit = u64::from(WINDOW);
        Self {
            position,
            end,
            credit,
            sent: 0,
            overtaken: false,
            killed: false,
        }
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
                if channel == Channel::Stdout {
                    self.credit = self.credit.saturating_add(u64::from(bytes));
                }
            }
            Kind::Kill => self.killed = true,
            // There is no process that a signal or input could be for.
            _ => return Err(ProtocolError::Unexpected("frame of a log")),
        }
        Ok(())
    }

    /// Sends on; says whether it is over.
    pub(super) fn advance(&mut self, stream: u32, log: &Log, outgoing: &mut Outgoing) -> bool {
        while self.position < self.end && !self.killed {
            if self.position < log.oldest() {
                self.position = log.oldest().min(self.end);
                self.overtaken = true;
                continue;
            }
            let limit = self.credit.min(self.end - self.position);
            let limit = usize::try_from(limit)
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
            self.credit -= sent;
            self.sent += sent;
        }
        let kind = if self.killed {
            ExitKind::Killed
        } else {
            ExitKind::Exited(0)
        };
        let report = ExitReport {
            kind,
            stdout_total: self.sent,
            stderr_total: 0,
            stragglers: 0,
            survivors: 0,
            drain_cut: self.overtaken,
            cpu_us: 0,
            max_rss_kib: 0,
            wall_us: 0,
            refused_programs: 0,
            refused_processes: 0,
        };
        outgoing.message(stream, Kind::Exited, &report.encode());
        true
    }
}
