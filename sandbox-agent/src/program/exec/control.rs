//! Messages between the agent and an execution's supervisor, one in each packet.

use alloc::vec::Vec;

use crate::runtime::process::Wait;

use crate::{
    program::{exec_once::RefusedCounts, poll_set::MonotonicMicros},
    protocol::{MessageReader, MessageWriter, ProtocolError},
};

/// The largest packet in bytes.
pub(super) const MAX_PACKET: usize = 64;

/// A command of the agent to a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) enum SupervisorCommand {
    /// Send this signal to the main process.
    Signal(u8),
    /// Send SIGTERM to the process group of the main process.
    Terminate,
    /// Kill the whole tree.
    Kill,
}

impl SupervisorCommand {
    /// Encodes the packet.
    pub(super) fn encode(self) -> [u8; 2] {
        match self {
            Self::Signal(signal) => [0, signal],
            Self::Terminate => [1, 0],
            Self::Kill => [2, 0],
        }
    }

    /// Decodes the packet.
    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        match packet {
            [0, signal] => Some(Self::Signal(*signal)),
            [1, 0] => Some(Self::Terminate),
            [2, 0] => Some(Self::Kill),
            _ => None,
        }
    }
}

/// A supervisor's report to the agent, sent once after the tree has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) struct SupervisorReport {
    /// How the main process ended; `None` if it survived the kill.
    pub(in crate::program) end: Option<Wait>,
    /// Whether the main process was alive when the agent ordered the kill.
    pub(in crate::program) killed: bool,
    /// Processes that outlived the main process, or the kill, and were killed.
    pub(in crate::program) stragglers: u32,
    /// Processes that were still alive after the timeout.
    pub(in crate::program) survivors: u32,
    /// Processor time of the main process, in microseconds.
    pub(in crate::program) cpu_us: u64,
    /// Largest resident memory of a process, in KiB.
    pub(in crate::program) max_rss_kib: u64,
    /// Bytes that the main process read from block devices, and wrote to them.
    pub(in crate::program) disk: [u64; 2],
    /// When the main process ended, if it did.
    pub(in crate::program) ended: MonotonicMicros,
    /// Refused attempts to start another program or process.
    pub(in crate::program) refused: RefusedCounts,
}

impl SupervisorReport {
    /// Encodes the packet.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut packet = MessageWriter::new();
        let (kind, code) = match self.end {
            Some(Wait::Exited(code)) => (0, code),
            Some(Wait::Signaled(signal)) => (1, signal),
            None => (2, 0),
        };
        packet
            .u8(kind)
            .u8(code)
            .bool(self.killed)
            .u32(self.stragglers)
            .u32(self.survivors);
        packet
            .u64(self.cpu_us)
            .u64(self.max_rss_kib)
            .u64(self.disk[0])
            .u64(self.disk[1])
            .u64(self.ended)
            .u32(self.refused.programs)
            .u32(self.refused.processes);
        packet.finish()
    }

    /// Decodes the packet.
    ///
    /// # Errors
    ///
    /// When the packet is malformed.
    pub(super) fn decode(packet: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(packet);
        let report = Self {
            end: match (reader.u8()?, reader.u8()?) {
                (0, code) => Some(Wait::Exited(code)),
                (1, signal) => Some(Wait::Signaled(signal)),
                (2, 0) => None,
                _ => return Err(ProtocolError::BadValue("end of the main process")),
            },
            killed: reader.bool()?,
            stragglers: reader.u32()?,
            survivors: reader.u32()?,
            cpu_us: reader.u64()?,
            max_rss_kib: reader.u64()?,
            disk: [reader.u64()?, reader.u64()?],
            ended: reader.u64()?,
            refused: RefusedCounts {
                programs: reader.u32()?,
                processes: reader.u32()?,
            },
        };
        reader.end()?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_round_trip() {
        for order in [
            SupervisorCommand::Signal(15),
            SupervisorCommand::Terminate,
            SupervisorCommand::Kill,
        ] {
            assert_eq!(SupervisorCommand::decode(&order.encode()), Some(order));
        }
        assert_eq!(SupervisorCommand::decode(&[]), None);
        assert_eq!(SupervisorCommand::decode(&[9, 0]), None);
        for end in [None, Some(Wait::Exited(255)), Some(Wait::Signaled(9))] {
            check(end);
        }
    }

    fn check(end: Option<Wait>) {
        let report = SupervisorReport {
            end,
            killed: true,
            stragglers: 1,
            survivors: 2,
            cpu_us: u64::MAX,
            max_rss_kib: 4,
            disk: [8, u64::MAX],
            ended: 5,
            refused: RefusedCounts {
                programs: u32::MAX,
                processes: 7,
            },
        };
        let packet = report.encode();
        assert!(packet.len() <= MAX_PACKET);
        assert_eq!(SupervisorReport::decode(&packet), Ok(report));
        assert!(SupervisorReport::decode(&packet[1..]).is_err());
    }
}
