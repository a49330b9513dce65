//! Flow control for the agent's output, on the receiving side.

use sandbox_agent::protocol::{ProtocolError, WINDOW};

/// The smallest grant of a window of the usual size.
#[cfg(test)]
pub(crate) const GRANT: u64 = WINDOW as u64 / 4;

/// What the agent may send on one channel.
#[derive(Debug)]
pub(crate) struct Window {
    /// Bytes that the agent may still send.
    pub(crate) credit: u64,
    /// Bytes that were consumed but not granted again yet.
    pub(crate) owed: u64,
    /// Bytes that arrived in all.
    pub(crate) received: u64,
    /// Credit is granted in pieces of at least this many bytes. So an agent that sends single bytes
    /// does not fill the host's queue with grants.
    smallest_grant: u64,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Self::with_size(WINDOW)
    }

    /// A window of another size.
    pub(crate) const fn with_size(window: u32) -> Self {
        Self {
            credit: window as u64,
            owed: 0,
            received: 0,
            smallest_grant: window as u64 / 4,
        }
    }

    pub(crate) fn receive(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        self.credit = self
            .credit
            .checked_sub(bytes)
            .ok_or(ProtocolError::CreditExceeded)?;
        self.received += bytes;
        Ok(())
    }

    /// Records consumed bytes; returns the credit to grant, if it is worth a frame.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u32> {
        self.owed += bytes;
        (self.owed >= self.smallest_grant).then(|| self.grant_all())
    }

    pub(crate) fn grant_all(&mut self) -> u32 {
        let granted = std::mem::take(&mut self.owed);
        self.credit += granted;
        // At most the window.
        u32::try_from(granted).unwrap_or(WINDOW)
    }
}
