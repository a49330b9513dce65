//! The standard input of the program.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::Stdin;

use crate::print_status;

/// The device number of `/dev/null`: 1 and 3, the same on every Linux.
const NULL_DEVICE: u64 = (1 << 8) | 3;

/// The standard input of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinChoice {
    /// The command's standard input.
    Inherited,
    /// An empty input.
    Empty,
}

impl StdinChoice {
    /// Passes standard input only with `--interactive`, as `docker run` does. Otherwise a command
    /// in a shell loop over the lines of a file would consume the lines of later iterations.
    pub fn choose(interactive: bool) -> Self {
        if interactive && !command_stdin().is_ok_and(|stdin| is_null(&stdin)) {
            Self::Inherited
        } else {
            Self::Empty
        }
    }

    /// Whether the program gets the command's standard input.
    pub fn is_passed(self) -> bool {
        self == Self::Inherited
    }

    /// Opens it. A second stream continues where the first one stopped.
    pub fn open(self) -> Stdin {
        match self {
            Self::Inherited => Stdin::from_reader(tokio::io::stdin()),
            Self::Empty => Stdin::Null,
        }
    }
}

/// Prints a hint if standard input has data that the program does not get.
pub fn warn_unread_stdin() {
    // Without the hint, the run is the same.
    if command_stdin().and_then(has_data).unwrap_or(false) {
        print_status(
            "the program does not get standard input: -i passes it on, -n hides this hint",
        );
    }
}

/// The command's standard input, without taking anything from it.
fn command_stdin() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Whether it is a pipe or a file that has data now.
fn has_data(mut stdin: File) -> io::Result<bool> {
    let metadata = stdin.metadata()?;
    if metadata.is_file() {
        return Ok(stdin.stream_position()? < metadata.len());
    }
    if !metadata.file_type().is_fifo() {
        return Ok(false);
    }
    // A closed pipe without data does not count.
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
