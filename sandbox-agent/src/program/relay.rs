//! The mode `connect`: relays bytes between standard input and output and the agent's control
//! socket, for clients that can only start a program in the sandbox.

use alloc::{vec, vec::Vec};
use core::{ffi::CStr, fmt::Write};

use crate::runtime::{
    Descriptor, Errno, Fd, FdWriter, RawFd, io, net,
    process::{PR_SET_DUMPABLE, set_attribute},
    signal, time,
};

use super::{
    address,
    descriptors::close_all_but,
    exit_reason::EXIT_UNREACHABLE,
    poll_set::{MonotonicMicros, POLLERR, POLLIN, POLLOUT, PollSet, after, now},
    privilege,
};
use crate::protocol::MAX_FRAME;

/// How long to wait for a listening agent, in milliseconds.
const WAIT_TIMEOUT_MS: u64 = 5000;

/// The pause between two attempts, in microseconds.
const RETRY_INTERVAL_US: u64 = 5000;

/// Relays bytes until the agent closes the connection or the reader of standard output is gone, and
/// returns the exit code. With `wait`, waits for an agent that does not listen yet.
pub(super) fn connect(name: &CStr, wait: bool) -> i32 {
    close_all_but(&mut Vec::from([0, 1, 2]), None);
    // Under the code's own user, code could otherwise take over the stream and read the
    // environment.
    let _ = set_attribute(PR_SET_DUMPABLE, 0, 0);
    // It starts with the container's capabilities and needs none.
    let dropped = privilege::drop_all();
    let until = after(now(), if wait { WAIT_TIMEOUT_MS } else { 0 });
    match dropped
        .and_then(|()| connect_until(name, until))
        .and_then(|socket| relay(&socket))
    {
        Ok(()) => 0,
        Err(errno) => {
            let mut stderr = FdWriter::new(2);
            // A failure to write is visible in the exit code alone.
            let _ = writeln!(
                stderr,
                "sandbox-agent: no connection to {}: {errno}",
                name.to_string_lossy()
            );
            EXIT_UNREACHABLE
        }
    }
}

/// Connects to a listening socket, retrying until `until`.
fn connect_until(name: &CStr, until: MonotonicMicros) -> Result<Fd, Errno> {
    loop {
        match address::connect(name) {
            Err(Errno::ECONNREFUSED | Errno::ENOENT) if now() < until => {
                // A signal only shortens the pause.
                let _ = time::sleep_microseconds(RETRY_INTERVAL_US);
            }
            result => return result,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum RelayDirection {
    ToAgent,
    FromAgent,
}

fn relay(socket: &Fd) -> Result<(), Errno> {
    signal::ignore(signal::SIGPIPE)?;
    for raw in [0, 1, socket.raw()] {
        io::set_nonblocking(raw, true)?;
    }
    let mut to_agent = ByteRelay::new(0, socket.raw());
    let mut from_agent = ByteRelay::new(socket.raw(), 1);
    let mut set = PollSet::new();
    let mut half_closed = false;
    while !from_agent.is_finished() {
        if to_agent.is_finished() && !half_closed {
            half_closed = true;
            match net::shutdown(socket, SHUTDOWN_WRITING) {
                // The agent has closed its end, which reading will show.
                Ok(()) | Err(Errno::ENOTCONN) => {}
                Err(errno) => return Err(errno),
            }
        }
        set.clear();
        to_agent.register(&mut set, RelayDirection::ToAgent);
        from_agent.register(&mut set, RelayDirection::FromAgent);
        // Reports POLLERR when the reader of standard output is gone.
        set.add(1, 0, RelayDirection::FromAgent);
        set.wait(None)?;
        let ready: Vec<_> = set.ready().collect();
        for (source, events) in ready {
            match source {
                RelayDirection::ToAgent => to_agent.advance(),
                RelayDirection::FromAgent if events & POLLERR != 0 => return Ok(()),
                RelayDirection::FromAgent => from_agent.advance(),
            }
        }
    }
    Ok(())
}

/// `SHUT_WR`: no more output follows.
pub(super) const SHUTDOWN_WRITING: i32 = 1;

/// One direction of the relay.
#[derive(Debug)]
struct ByteRelay {
    from: RawFd,
    to: RawFd,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The source has ended, or the target does not accept bytes any more.
    ended: bool,
}

impl ByteRelay {
    fn new(from: RawFd, to: RawFd) -> Self {
        Self {
            from,
            to,
            bytes: vec![0; MAX_FRAME],
            start: 0,
            end: 0,
            ended: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn is_finished(&self) -> bool {
        self.ended && self.is_empty()
    }

    fn register(&self, set: &mut PollSet<RelayDirection>, source: RelayDirection) {
        if !self.is_empty() {
            set.add(self.to, POLLOUT, source);
        } else if !self.ended {
            set.add(self.from, POLLIN, source);
        }
    }

    fn advance(&mut self) {
        if self.is_empty() && !self.ended {
            match io::read(self.from, &mut self.bytes) {
                Ok(0) => self.ended = true,
                Ok(count) => (self.start, self.end) = (0, count),
                Err(Errno::EAGAIN) => {}
                // A connection reset means the same as the end.
                Err(_) => self.ended = true,
            }
        }
        while !self.is_empty() {
            match io::write(self.to, &self.bytes[self.start..self.end]) {
                Ok(count) => self.start += count,
                Err(Errno::EAGAIN) => return,
                Err(_) => {
                    (self.start, self.end) = (0, 0);
                    self.ended = true;
                }
            }
        }
    }
}
