//! Waiting for descriptors, and time.

use alloc::vec::Vec;

use crate::runtime::{Errno, RawFd, poll, time::monotonic_microseconds};

pub(super) use crate::runtime::poll::{POLLERR, POLLHUP, POLLIN, POLLOUT};

/// A moment, in microseconds of the monotonic clock.
pub(super) type MonotonicMicros = u64;

/// Now.
pub(super) fn now() -> MonotonicMicros {
    monotonic_microseconds()
}

/// The moment `milliseconds` after `start`; one beyond all time never comes.
pub(super) fn after(start: MonotonicMicros, milliseconds: u64) -> MonotonicMicros {
    start.saturating_add(milliseconds.saturating_mul(1000))
}

/// Waits until one descriptor has one of `events` (or an error), at most `milliseconds`; says whether it has.
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

/// What has happened to one descriptor now, waited for at most `timeout` microseconds.
pub(super) fn poll_events(descriptor: RawFd, events: i16, timeout: Option<u64>) -> i16 {
    let mut entries = [poll::PollFd::new(descriptor, events)];
    match poll::poll(&mut entries, timeout) {
        Ok(_) => entries[0].revents,
        // One descriptor is below every limit, so this is a kernel out of memory: wait again.
        Err(_) => 0,
    }
}

/// Descriptors that are waited for together, each with what it means.
#[derive(Debug)]
pub(super) struct PollSet<T> {
    entries: Vec<poll::PollFd>,
    tokens: Vec<T>,
}

impl<T: Copy> PollSet<T> {
    /// Nothing to wait for.
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Starts anew, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.tokens.clear();
    }

    /// Adds a descriptor. Errors and hang-ups are reported whatever `events` says.
    pub(super) fn add(&mut self, descriptor: RawFd, events: i16, token: T) {
        self.entries.push(poll::PollFd::new(descriptor, events));
        self.tokens.push(token);
    }

    /// Whether there is nothing to wait for.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Waits until `until` at most.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `EINVAL` for more descriptors than the process may open.
    pub(super) fn wait(&mut self, until: Option<MonotonicMicros>) -> Result<(), Errno> {
        let timeout = until.map(|until| until.saturating_sub(now()));
        poll::poll(&mut self.entries, timeout).map(drop)
    }

    /// What has happened, and to what.
    pub(super) fn ready(&self) -> impl Iterator<Item = (T, i16)> + '_ {
        self.entries
            .iter()
            .zip(&self.tokens)
            .filter(|(entry, _)| entry.revents != 0)
            .map(|(entry, token)| (*token, entry.revents))
    }
}
