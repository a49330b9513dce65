//! Standard output and error: a program's bytes on their way to the client.

use crate::runtime::{
    Errno, Fd, RawFd,
    io::{self, FIONREAD},
};

use crate::{
    program::{
        outgoing_frames::OutgoingFrames,
        output_log::OutputLog,
        poll_set::{POLLHUP, poll_events},
    },
    protocol::{FrameKind, MAX_PAYLOAD, WINDOW},
};

/// How many frames to read from one pipe before other events are handled.
const MAX_FRAMES_PER_READ: usize = 4;

/// The agent's end of one of a program's outputs.
#[derive(Debug)]
pub(super) struct OutputPipe {
    kind: FrameKind,
    pipe: Option<Fd>,
    /// How many more bytes the client accepts.
    credit: u64,
    /// Number of bytes read.
    total: u64,
    /// After the drain timeout: how many bytes of the pipe still count.
    remaining: Option<u64>,
}

impl OutputPipe {
    /// The output of a pipe, or of the master of a pty. Without either, it has ended.
    pub(super) fn new(kind: FrameKind, pipe: Option<Fd>) -> Self {
        Self {
            kind,
            pipe,
            credit: u64::from(WINDOW),
            total: 0,
            remaining: None,
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The pipe, until its end.
    pub(super) fn pipe(&self) -> Option<&Fd> {
        self.pipe.as_ref()
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Closes the pipe.
    pub(super) fn close(&mut self) {
        self.pipe = None;
    }

    pub(super) fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(u64::from(bytes));
    }

    /// The descriptor to poll, while the client accepts bytes.
    pub(super) fn poll_descriptor(&self) -> Option<RawFd> {
        if self.credit == 0 {
            None
        } else {
            self.pipe.as_ref().map(Fd::as_raw)
        }
    }

    /// Reads the available bytes, as far as credit and queue allow.
    pub(super) fn read(
        &mut self,
        stream: u32,
        outgoing: &mut OutgoingFrames,
        mut log: Option<&mut OutputLog>,
    ) {
        for _ in 0..MAX_FRAMES_PER_READ {
            let Some(pipe) = &self.pipe else { return };
            let limit = self.credit.min(self.remaining.unwrap_or(u64::MAX));
            let limit = usize::try_from(limit)
                .unwrap_or(MAX_PAYLOAD)
                .min(MAX_PAYLOAD);
            if limit == 0 || !outgoing.has_room() {
                break;
            }
            let read = outgoing.data(stream, self.kind, limit, |buffer| io::read(pipe, buffer));
            match read {
                Ok([]) => {
                    self.pipe = None;
                    return;
                }
                Ok(bytes) => {
                    let count = bytes.len();
                    if let Some(log) = log.as_deref_mut() {
                        log.append(bytes);
                    }
                    self.total += count as u64;
                    self.credit -= count as u64;
                    if let Some(remaining) = &mut self.remaining {
                        *remaining -= count as u64;
                    }
                    if count < limit {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => break,
                // A pipe has no other error. A pty has `EIO` after its last writer is gone.
                Err(_) => {
                    self.pipe = None;
                    return;
                }
            }
        }
        if self.remaining == Some(0) {
            self.pipe = None;
        }
    }

    /// Closes the pipe if it has ended. This works without credit too.
    pub(super) fn close_if_ended(&mut self) {
        if let Some(pipe) = &self.pipe
            && poll_events(pipe.as_raw(), 0, Some(0)) & POLLHUP != 0
            && waiting(pipe) == 0
        {
            self.pipe = None;
        }
    }

    /// Stops waiting for writers outside of the tree: only bytes that are in the pipe now still
    /// count. Returns whether there was such a writer.
    pub(super) fn cut(&mut self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        if self.remaining.is_some() || poll_events(pipe.as_raw(), 0, Some(0)) & POLLHUP != 0 {
            return false;
        }
        let waiting = waiting(pipe);
        self.remaining = Some(waiting);
        if waiting == 0 {
            self.pipe = None;
        }
        true
    }
}

/// Number of bytes in a pipe. Of a pty, it may be a part, but is 0 only without any: `poll` has just
/// moved waiting bytes to where this counts them.
fn waiting(pipe: &Fd) -> u64 {
    let mut count = 0i32;
    // SAFETY: the request writes one `int`.
    match unsafe { io::ioctl(pipe, FIONREAD, &raw mut count as usize) } {
        Ok(_) => u64::from(count.max(0).cast_unsigned()),
        // Every pipe and pty supports the request.
        Err(_) => 0,
    }
}
