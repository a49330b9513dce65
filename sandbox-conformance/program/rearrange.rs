//! Rearranges folders, as code does that attacks a later use of them.

use core::ffi::CStr;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call::{AT_FDCWD, O_CREAT, O_TRUNC, O_WRONLY, close, now, write_all};
use crate::call_result::{CallResult, Denied, done};
use crate::kernel;

const RENAME_EXCHANGE: usize = 2;

/// The number of swaps between two readings of the clock.
const UNWATCHED: usize = 1024;

/// Runs steps in order and stops at the first that is denied: `rename FROM TO`, `link TARGET PATH`,
/// `folder PATH`, `private-folder PATH`, `file PATH TEXT`, `fifo PATH`.
pub fn rearrange(arguments: &ProbeArguments) -> CallResult {
    // Every user must be able to read the new files, whatever the umask is.
    kernel!(UMASK, 0o022usize)?;
    let mut next = 0;
    let mut word = || {
        next += 1;
        next - 1
    };
    let count = arguments.count();
    loop {
        let step = word();
        if step >= count {
            return done();
        }
        match arguments.text(step) {
            "rename" => {
                let (from, to) = (arguments.path(word()), arguments.path(word()));
                crate::files::rename(from, to)?;
            }
            "link" => {
                let (target, path) = (arguments.path(word()), arguments.path(word()));
                kernel!(SYMLINKAT, target, AT_FDCWD, path)?;
            }
            "folder" => folder(arguments.path(word()), 0o755)?,
            "private-folder" => folder(arguments.path(word()), 0o700)?,
            "file" => {
                let flags = O_WRONLY | O_CREAT | O_TRUNC;
                let path = arguments.path(word());
                let file = kernel!(OPENAT, AT_FDCWD, path, flags, 0o644usize)? as i32;
                write_all(file, arguments.path(word()).to_bytes());
                close(file);
            }
            "fifo" => {
                let path = arguments.path(word());
                kernel!(MKNODAT, AT_FDCWD, path, 0o010_666usize, 0usize)?;
            }
            _ => return Err(Denied::Word("nonsense")),
        }
    }
}

/// Creates a folder. An existing one is fine.
fn folder(path: &CStr, mode: usize) -> Result<(), Errno> {
    match kernel!(MKDIRAT, AT_FDCWD, path, mode) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Swaps two names as fast as possible, up to a number of times and milliseconds. The number is
/// even, so both names end as they began.
pub fn flip(one: &CStr, other: &CStr, count: usize, milliseconds: usize) -> CallResult {
    let end = now() + milliseconds;
    let mut flips = 0;
    while flips < count && now() < end {
        for _ in 0..UNWATCHED {
            exchange(one, other)?;
        }
        flips += UNWATCHED;
    }
    done()
}

fn exchange(one: &CStr, other: &CStr) -> Result<usize, Errno> {
    kernel!(RENAMEAT2, AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)
}
