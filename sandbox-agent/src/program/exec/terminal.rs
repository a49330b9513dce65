//! The terminal of an execution: a pty of the devpts that the sandbox sees.

use crate::runtime::{
    Errno, Fd,
    fs::{self, O_CLOEXEC, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDWR},
    io,
    path::{PathBuffer, decimal},
    stat::{S_IFCHR, stat_of},
    terminal,
};

use crate::{
    program::failures::{failure, refusal},
    protocol::{FailStep, Failure, TerminalSize},
};

/// The file that opens a new pty.
const MULTIPLEXER: &core::ffi::CStr = c"/dev/ptmx";

/// Device number of [`MULTIPLEXER`].
const MULTIPLEXER_DEVICE: u64 = fs::device(5, 2);

/// Major device number of slaves.
const SLAVE_MAJOR: u32 = 136;

/// Both ends of a new pty.
#[derive(Debug)]
pub(super) struct Pty {
    /// The agent's end, non-blocking.
    pub(super) master: Fd,
    /// The program's end.
    pub(super) slave: Fd,
}

/// Opens a new pty of this size.
///
/// # Errors
///
/// When the sandbox has no terminals, or too many.
pub(super) fn open(size: TerminalSize) -> Result<Pty, Failure> {
    let at = |what: &'static str| move |errno| failed(errno, what);
    // Code of an image's root user may have replaced the file, so it may be anything.
    let flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    let master = fs::open(MULTIPLEXER, flags, 0).map_err(at("/dev/ptmx"))?;
    let metadata = stat_of(&master).map_err(at("/dev/ptmx"))?;
    if metadata.kind() != S_IFCHR || metadata.special_device != MULTIPLEXER_DEVICE {
        let detail = "no terminals in this sandbox: its /dev/ptmx is another file";
        return Err(refusal(FailStep::Terminal, detail));
    }
    terminal::unlock(&master).map_err(at("TIOCSPTLCK"))?;
    let slave = open_slave(&master).map_err(at("its end in /dev/pts"))?;
    terminal::set_size(&master, size.rows, size.columns).map_err(at("TIOCSWINSZ"))?;
    // Only the erase key of the line editor differs without it.
    let _ = terminal::set_utf8(&slave);
    Ok(Pty { master, slave })
}

fn open_slave(master: &Fd) -> Result<Fd, Errno> {
    match terminal::open_slave(master, O_RDWR | O_NOCTTY | O_CLOEXEC) {
        // Before Linux 4.13, and on gVisor.
        Err(Errno::ENOTTY | Errno::EINVAL) => {}
        opened => return opened,
    }
    let number = terminal::slave_number(master)?;
    let mut digits = [0; 20];
    let path = PathBuffer::concat(&[b"/dev/pts/", decimal(number.into(), &mut digits)])?;
    let flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    let slave = fs::open(&path, flags, 0)?;
    let metadata = stat_of(&slave)?;
    if metadata.kind() != S_IFCHR || metadata.special_device != fs::device(SLAVE_MAJOR, number) {
        return Err(Errno::ENXIO);
    }
    io::set_nonblocking(&slave, false)?;
    Ok(slave)
}

fn failed(errno: Errno, what: &str) -> Failure {
    match errno {
        Errno::ENOSPC => failure(
            FailStep::Spawn,
            errno,
            "the sandbox has too many terminals open",
        ),
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM => failure(FailStep::Spawn, errno, what),
        errno => failure(
            FailStep::Terminal,
            errno,
            alloc::format!("no terminals in this sandbox: {what}"),
        ),
    }
}
