//! A later client's way into a sandbox that only lets programs be started in it: bytes between standard input and output and
//! the socket of the agent.

use alloc::{vec, vec::Vec};
use core::{ffi::CStr, fmt::Write};

use crate::runtime::{
    Descriptor, Errno, Fd, RawFd, Result, io, net,
    process::{PR_SET_DUMPABLE, set_attribute},
    signal, time,
};

use super::{
    address,
    descriptors::close_all_but,
    ending::EXIT_UNREACHABLE,
    polling::{Moment, POLLERR, POLLIN, POLLOUT, PollSet, after, now},
    privilege,
};
use crate::protocol::MAX_FRAME;

/// How long somebody to listen is waited for, milliseconds: an agent that was just started needs a few.
const PATIENCE: u64 = 5000;

/// The pause between two attempts, microseconds.
const PAUSE: u64 = 5000;

/// Carries bytes until the agent ends the connection, or nobody takes them any more; gives the exit code. With `wait`, an agent that
/// does not listen yet is waited for.
pub(super) fn connect(name: &CStr, wait: bool) -> i32 {
    close_all_but(&mut Vec::from([0, 1, 2]), None);
    // Where it is the code's own user, code could take the stream from it, and read the environment that it was started with.
    let _ = set_attribute(PR_SET_DUMPABLE, 0, 0);
    // It is started with whatever its container was given, and carries bytes.
    let without = privilege::give_up_all();
    let until = after(now(), if wait { PATIENCE } else { 0 });
    match without
        .and_then(|()| reach(name, until))
        .and_then(|socket| carry(&socket))
    {
        Ok(()) => 0,
        Err(errno) => {
            let mut stderr = io::Writer::new(2);
            // Without a place to say it, the code says it.
            let _ = writeln!(
                stderr,
                "sandbox-agent: no connection to {}: {errno}",
                name.to_string_lossy()
            );
            EXIT_UNREACHABLE
        }
    }
}

/// A connection to whoever listens there, now or by a moment to come.
fn reach(name: &CStr, until: Moment) -> Result<Fd> {
    loop {
        match address::connect(name) {
            Err(Errno::ECONNREFUSED | Errno::ENOENT) if now() < until => {
                // A signal only shortens it.
                let _ = time::sleep_microseconds(PAUSE);
            }
            reached => return reached,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Source {
    In,
    Out,
}

fn carry(socket: &Fd) -> Result<()> {
    signal::ignore(signal::SIGPIPE)?;
    for raw in [0, 1, socket.raw()] {
        io::set_nonblocking(raw, true)?;
    }
    let mut inwards = Way::new(0, socket.raw());
    let mut outwards = Way::new(socket.raw(), 1);
    let mut set = PollSet::new();
    let mut half_closed = false;
    while !outwards.is_over() {
        if inwards.is_over() && !half_closed {
            half_closed = true;
            match net::shutdown(socket, SHUTDOWN_WRITING) {
                // The agent has closed its end already, which reading will show.
                Ok(()) | Err(Errno::ENOTCONN) => {}
                Err(errno) => return Err(errno),
            }
        }
        set.clear();
        inwards.wants(&mut set, Source::In);
        outwards.wants(&mut set, Source::Out);
        // Tells when its reader is gone, whatever is waited for.
        set.add(1, 0, Source::Out);
        set.wait(None)?;
        let events: Vec<_> = set.happened().collect();
        for (source, happened) in events {
            match source {
                Source::In => inwards.go_on(),
                Source::Out if happened & POLLERR != 0 => return Ok(()),
                Source::Out => outwards.go_on(),
            }
        }
    }
    Ok(())
}

/// `shutdown`: no more is written.
pub(super) const SHUTDOWN_WRITING: i32 = 1;

/// One direction.
#[derive(Debug)]
struct Way {
    from: RawFd,
    to: RawFd,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Nothing more comes, or nobody takes it.
    ended: bool,
}

impl Way {
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

    fn is_over(&self) -> bool {
        self.ended && self.is_empty()
    }

    fn wants(&self, set: &mut PollSet<Source>, source: Source) {
        if !self.is_empty() {
            set.add(self.to, POLLOUT, source);
        } else if !self.ended {
            set.add(self.from, POLLIN, source);
        }
    }

    fn go_on(&mut self) {
        if self.is_empty() && !self.ended {
            match io::read(self.from, &mut self.bytes) {
                Ok(0) => self.ended = true,
                Ok(count) => (self.start, self.end) = (0, count),
                Err(Errno::EAGAIN) => {}
                // A reset means the same as the end.
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
