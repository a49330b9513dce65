//! Which standard input the program gets.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::spi::Source;

use crate::say;

/// The device number of `/dev/null`: 1 and 3, the same on every Linux.
const NULL_DEVICE: u64 = (1 << 8) | 3;

/// Which standard input the program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// The command's own.
    Own,
    /// None: it is at its end at once.
    Empty,
}

impl Stdin {
    /// The command's own where that is asked for, as `docker run` does: a command in a loop over the lines of a file would
    /// otherwise take the lines of the rounds to come.
    pub fn choose(interactive: bool) -> Self {
        if interactive && !own().is_ok_and(|own| is_null(&own)) {
            Self::Own
        } else {
            Self::Empty
        }
    }

    /// Whether the program gets the command's own.
    pub fn is_passed(self) -> bool {
        self == Self::Own
    }

    /// A stream of it. Where a second one is opened, it goes on where the first one stopped.
    pub fn open(self) -> Option<Source> {
        match self {
            Self::Own => Some(Box::new(tokio::io::stdin())),
            Self::Empty => None,
        }
    }
}

/// Says how standard input is passed on, where a pipe or a file with data waits that is not.
pub fn hint_at_stdin() {
    // A hint that cannot be given is not missed.
    if own().and_then(has_data).unwrap_or(false) {
        say("the program does not get standard input: -i passes it on, -n hides this hint");
    }
}

/// The command's standard input, without taking anything from it.
fn own() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Whether it is a pipe or a file, and something can be read from it now.
fn has_data(mut stdin: File) -> io::Result<bool> {
    let found = stdin.metadata()?;
    if found.is_file() {
        return Ok(stdin.stream_position()? < found.len());
    }
    if !found.file_type().is_fifo() {
        return Ok(false);
    }
    // The end of the other side alone is no data.
    let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut waits, Some(&Timespec::default()))?;
    Ok(waits[0].revents().contains(PollFlags::IN))
}

/// Reading `/dev/null` would cost a thread.
fn is_null(stdin: &File) -> bool {
    stdin.metadata().is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE
    })
}
