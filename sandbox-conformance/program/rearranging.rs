//! Rearranges folders that the code can write to, as code does that has a later look at them in mind.

use core::ffi::CStr;

use crate::runtime::{Errno, Result};

use crate::Arguments;
use crate::call::{AT_FDCWD, O_CREAT, O_TRUNC, O_WRONLY, close, now, write_all};
use crate::kernel;
use crate::said::{Denied, Said, done};

const RENAME_EXCHANGE: usize = 2;

/// Flips between two looks at the clock.
const UNWATCHED: usize = 1024;

/// Takes steps one after the other, and stops at the first that is denied: `rename FROM TO`, `link TARGET PATH`, `folder PATH`,
/// `private-folder PATH`, `file PATH TEXT`, `fifo PATH`.
pub fn rearrange(arguments: &Arguments) -> Said {
    // So that others can read what is made, whatever this process was started with.
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

/// Makes a folder. One that is there already will do.
fn folder(path: &CStr, mode: usize) -> Result<()> {
    match kernel!(MKDIRAT, AT_FDCWD, path, mode) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Exchanges two names at full speed, so many times and for so many milliseconds at most. An even number of times: where it ends by
/// itself, everything is as it was.
pub fn flip(one: &CStr, other: &CStr, count: usize, milliseconds: usize) -> Said {
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

fn exchange(one: &CStr, other: &CStr) -> Result<usize> {
    kernel!(RENAMEAT2, AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)
}
