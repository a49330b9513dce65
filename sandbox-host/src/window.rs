//! Flow control of what an agent sends, as the receiver keeps it.

use sandbox_agent::protocol::{ProtocolError, WINDOW};

/// Output that was taken is granted anew in pieces of at least this many bytes: whoever sends single bytes does not make the
/// host's queue grow by an answer to each.
pub(crate) const GRANT: u64 = WINDOW as u64 / 4;

/// What the agent may send on a channel.
#[derive(Debug)]
pub(crate) struct Window {
    /// Bytes it may still send.
    pub(crate) credit: u64,
    /// Bytes that were taken, and are not granted anew yet.
    pub(crate) owed: u64,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Self {
            credit: WINDOW as u64,
            owed: 0,
        }
    }

    pub(crate) fn receive(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        self.credit = self
            .credit
            .checked_sub(bytes)
            .ok_or(ProtocolError::CreditExceeded)?;
        Ok(())
    }

    /// Notes that bytes were taken; gives what is to be granted, if it is worth a frame.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u32> {
        self.owed += bytes;
        (self.owed >= GRANT).then(|| self.grant_all())
    }

    pub(crate) fn grant_all(&mut self) -> u32 {
        let granted = std::mem::take(&mut self.owed);
        self.credit += granted;
        // Never more than the window.
        u32::try_from(granted).unwrap_or(WINDOW)
    }
}
