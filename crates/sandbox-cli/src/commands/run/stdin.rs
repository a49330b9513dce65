//! Which standard input the program gets.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use sandbox::spi::Source;

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
    /// The command's own unless it is a terminal: a program that waits for one would hang a command that nobody meant to be
    /// interactive.
    pub fn choose(interactive: bool, none: bool) -> Self {
        let is_wanted = interactive || !io::stdin().is_terminal();
        if none || !is_wanted || is_null() {
            Self::Empty
        } else {
            Self::Own
        }
    }

    /// A stream of it. Where a second one is opened, it goes on where the first one stopped.
    pub fn open(self) -> Option<Source> {
        match self {
            Self::Own => Some(Box::new(tokio::io::stdin())),
            Self::Empty => None,
        }
    }
}

/// Reading `/dev/null` would cost a thread.
fn is_null() -> bool {
    let metadata = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stdin| File::from(stdin).metadata());
    metadata.is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE
    })
}
