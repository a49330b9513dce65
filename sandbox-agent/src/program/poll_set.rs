//! Polling of descriptors, and the clock.

use alloc::vec::Vec;

use crate::runtime::{Errno, RawFd, poll, time::monotonic_microseconds};

pub(super) use crate::runtime::poll::{POLLERR, POLLHUP, POLLIN, POLLOUT};

/// A time of the monotonic clock, in microseconds.
pub(super) type MonotonicMicros = u64;

/// The current time.
pub(super) fn now() -> MonotonicMicros {
    monotonic_microseconds()
}

/// The time `milliseconds` after `start`, saturating: [`MonotonicMicros::MAX`] never comes.
pub(super) fn after(start: MonotonicMicros, milliseconds: u64) -> MonotonicMicros {
    start.saturating_add(milliseconds.saturating_mul(1000))
}

/// Waits for at most `milliseconds` until a descriptor has one of `events` or an error; returns
/// whether it has.
pub(super) fn wait_for(descriptor: RawFd, events: i16, milliseconds: Option<u64>) -> bool {
    let end = milliseconds.map(|milliseconds| after(now(), milliseconds));
    loop {
        if poll_events(descriptor, events, end.map(|end| end.saturating_sub(now()))) != 0 {
            return true;
        }
        if end.is_some_and(|end| now() >= end) {
            return false;
        }
    }
}

/// The events of one descriptor, waited for at most `timeout` microseconds.
pub(super) fn poll_events(descriptor: RawFd, events: i16, timeout: Option<u64>) -> i16 {
    let mut entries = [poll::PollFd::new(descriptor, events)];
    match poll::poll(&mut entries, timeout) {
        Ok(_) => entries[0].revents,
        // The kernel is out of memory, the only error for one descriptor: the caller waits again.
        Err(_) => 0,
    }
}

/// Descriptors to poll together, each with a token.
#[derive(Debug)]
pub(super) struct PollSet<T> {
    entries: Vec<poll::PollFd>,
    tokens: Vec<T>,
}

impl<T: Copy> PollSet<T> {
    /// An empty set.
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Removes all descriptors and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.tokens.clear();
    }

    /// Adds a descriptor. Errors and hang-ups are reported whatever `events` says.
    pub(super) fn add(&mut self, descriptor: RawFd, events: i16, token: T) {
        self.entries.push(poll::PollFd::new(descriptor, events));
        self.tokens.push(token);
    }

    /// Whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Waits for an event until `until` at most.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `EINVAL` for more descriptors than the process may open.
    pub(super) fn wait(&mut self, until: Option<MonotonicMicros>) -> Result<(), Errno> {
        let timeout = until.map(|until| until.saturating_sub(now()));
        poll::poll(&mut self.entries, timeout).map(drop)
    }

    /// The tokens of the ready descriptors, with their events.
    pub(super) fn ready(&self) -> impl Iterator<Item = (T, i16)> + '_ {
        self.entries
            .iter()
            .zip(&self.tokens)
            .filter(|(entry, _)| entry.revents != 0)
            .map(|(entry, token)| (*token, entry.revents))
    }
}
