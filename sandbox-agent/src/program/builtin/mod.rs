//! Routines of the agent that run like a program: in a process of their own, with the identity, the limits and the
//! confinement of the code, their data on standard input and output.

mod get;
mod list;
mod put;
mod remove;
mod walk;

pub(super) use remove::remove_tree;

use alloc::string::String;

use crate::runtime::{Errno, RawFd, fs, path::terminated, signal, stat::stat_at};

use super::{
    failing::{failure, text},
    make_dirs::make_path,
};
use crate::protocol::{Builtin, FailStep, Failure};

/// The exit code of a routine that found its input abandoned, because its execution is being killed.
pub(super) const ABANDONED: u8 = 3;

/// A file too large: the signal whose default would end the routine instead of failing its write.
const SIGXFSZ: i32 = 25;

/// What kept a routine from its end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trouble {
    /// A system call failed on this path.
    File(Errno, String),
    /// Standard output: nobody reads any more.
    Output(Errno),
    /// The host took its input back.
    Abandoned,
}

/// The trouble of a system call on `path`.
fn trouble(path: &[u8]) -> impl Fn(Errno) -> Trouble + '_ {
    move |errno| Trouble::File(errno, text(path))
}

/// Runs a routine; gives its exit code. `complete` has a byte to read once standard input was complete.
///
/// # Errors
///
/// The failure to report.
pub(super) fn run(routine: &Builtin, complete: Option<RawFd>) -> Result<i32, Failure> {
    for number in [SIGXFSZ, signal::SIGPIPE] {
        signal::ignore(number)
            .map_err(|errno| failure(FailStep::File, errno, "signals of the routine"))?;
    }
    let done = match routine {
        Builtin::Put { path, mode } => put::put(path, *mode, complete),
        Builtin::Get { path } => get::get(path),
        Builtin::List { path, depth } => list::list(path, *depth),
        Builtin::MakeDir { path, mode } => make_folder(path, *mode),
        Builtin::Remove { path } => remove::remove(path),
    };
    match done {
        Ok(()) => Ok(0),
        Err(Trouble::Abandoned) => Ok(i32::from(ABANDONED)),
        Err(Trouble::File(errno, path)) => Err(failure(FailStep::File, errno, path)),
        Err(Trouble::Output(errno)) => Err(failure(FailStep::File, errno, "standard output")),
    }
}

fn make_folder(path: &[u8], mode: u32) -> Result<(), Trouble> {
    fs::set_umask(0);
    make_path(path, mode & 0o7777, None).map_err(trouble(path))?;
    // An empty path makes nothing, and is no folder.
    let path_text = terminated(path).map_err(trouble(path))?;
    stat_at(fs::AT_FDCWD, &path_text, 0)
        .map(drop)
        .map_err(trouble(path))
}
