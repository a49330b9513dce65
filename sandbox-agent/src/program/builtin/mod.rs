//! Builtins of the agent that run like a program: in their own process, with the identity, limits
//! and confinement of the code, with data on standard input and output.

mod get;
mod list;
mod put;
mod remove;
mod walk;

pub(super) use remove::remove_tree;

use alloc::string::String;

use crate::runtime::{Errno, RawFd, fs, path::terminated, signal, stat::stat_at};

use super::{
    failures::{failure, text},
    make_dirs::make_path,
};
use crate::protocol::{Builtin, FailStep, Failure};

/// Exit code of a builtin whose input was cut off because its execution is being killed.
pub(super) const ABANDONED: u8 = 3;

/// The signal for a file above the size limit. Ignored, so that the write fails instead.
const SIGXFSZ: i32 = 25;

/// Why a builtin failed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BuiltinError {
    /// A system call failed on this path.
    File(Errno, String),
    /// Standard output has no reader.
    Output(Errno),
    /// The input was cut off.
    Abandoned,
}

/// The error of a system call on `path`.
fn file_error(path: &[u8]) -> impl Fn(Errno) -> BuiltinError + '_ {
    move |errno| BuiltinError::File(errno, text(path))
}

/// Runs a builtin and returns its exit code. `complete` becomes readable once the whole standard
/// input has been written.
///
/// # Errors
///
/// The failure to report.
pub(super) fn run(builtin: &Builtin, complete: Option<RawFd>) -> Result<i32, Failure> {
    for number in [SIGXFSZ, signal::SIGPIPE] {
        signal::ignore(number)
            .map_err(|errno| failure(FailStep::File, errno, "signals of the builtin"))?;
    }
    let result = match builtin {
        Builtin::Put { path, mode } => put::put(path, *mode, complete),
        Builtin::Get { path } => get::get(path),
        Builtin::List { path, depth } => list::list(path, *depth),
        Builtin::MakeDir { path, mode } => make_folder(path, *mode),
        Builtin::Remove { path } => remove::remove(path),
    };
    match result {
        Ok(()) => Ok(0),
        Err(BuiltinError::Abandoned) => Ok(i32::from(ABANDONED)),
        Err(BuiltinError::File(errno, path)) => Err(failure(FailStep::File, errno, path)),
        Err(BuiltinError::Output(errno)) => Err(failure(FailStep::File, errno, "standard output")),
    }
}

fn make_folder(path: &[u8], mode: u32) -> Result<(), BuiltinError> {
    fs::set_umask(0);
    make_path(path, mode & 0o7777, None).map_err(file_error(path))?;
    // An empty path makes nothing, and is not a folder.
    let path_text = terminated(path).map_err(file_error(path))?;
    stat_at(fs::AT_FDCWD, &path_text, 0)
        .map(drop)
        .map_err(file_error(path))
}
