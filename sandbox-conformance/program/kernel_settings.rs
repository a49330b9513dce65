//! Calls on kernel settings, keys and limits.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::runtime::directory::{Directory, EntryKind};
use crate::runtime::fs::AT_FDCWD;
use crate::runtime::stat::stat_at;

use crate::ProbeArguments;
use crate::call::{O_NONBLOCK, O_RDONLY, O_WRONLY, close, open};
use crate::call_result::{CallResult, Denied, done, give_up};
use crate::files::content;
use crate::kernel;

const FOLDERS: [&str; 4] = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"];
const FILES: [&str; 1] = ["/proc/sysrq-trigger"];

/// The first kernel setting that can be opened for writing.
pub fn open_any() -> CallResult {
    let mut errors = Vec::new();
    let mut folders: Vec<String> = FOLDERS.map(String::from).into();
    let mut files: Vec<String> = FILES.map(String::from).into();
    loop {
        while let Some(file) = files.pop() {
            let path = CString::new(file.as_bytes()).map_err(|_| Errno::EINVAL)?;
            match open(&path, O_WRONLY | O_NONBLOCK) {
                Ok(_) => return Ok(file),
                Err(error) => remember(&mut errors, error),
            }
        }
        let Some(folder) = folders.pop() else {
            return Err(Denied::Errors(errors));
        };
        // An unreadable folder is skipped.
        if let Err(error) = list(&folder, &mut folders, &mut files) {
            remember(&mut errors, error);
        }
    }
}

fn remember(errors: &mut Vec<Errno>, error: Errno) {
    if !errors.contains(&error) {
        errors.push(error);
    }
}

fn list(folder: &str, folders: &mut Vec<String>, files: &mut Vec<String>) -> Result<(), Errno> {
    let path = CString::new(folder).map_err(|_| Errno::EINVAL)?;
    let descriptor = open(&path, O_RDONLY | O_NONBLOCK)?;
    let mut entries = Directory::new(descriptor);
    let listed = loop {
        match entries.next_entry() {
            Ok(Some(entry)) => {
                let path = format!("{folder}/{}", entry.name.to_string_lossy());
                match entry.kind {
                    EntryKind::Directory => folders.push(path),
                    EntryKind::File => files.push(path),
                    _ => {}
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    close(descriptor);
    listed
}

/// Adds a key with this description to the user's keyring for a minute.
pub fn add_key(description: &CStr) -> CallResult {
    const USER_KEYRING: i32 = -4;
    const SET_TIMEOUT: usize = 15;
    const SECONDS: usize = 60;
    let content = b"x".as_slice();
    let key = kernel!(ADD_KEY, c"user", description, content, 1usize, USER_KEYRING)?;
    kernel!(KEYCTL, SET_TIMEOUT, key, SECONDS)?;
    done()
}

/// Whether a path below `/proc` is procfs's own, and not what is mounted over it.
pub fn unmasked(path: &CStr) -> CallResult {
    let device = |path| stat_at(AT_FDCWD, path, 0).map(|found| found.device);
    match device(path)? == device(c"/proc")? {
        true => done(),
        false => Err(Denied::Word("masked")),
    }
}

/// Those of these files from which this process can read a byte.
pub fn readable(arguments: &ProbeArguments) -> CallResult {
    let mut found = Vec::new();
    for index in 0..arguments.count() {
        let file = open(arguments.path(index), O_RDONLY | O_NONBLOCK);
        let Ok(file) = file else { continue };
        let mut byte = [0u8];
        let read = kernel!(READ, file, byte.as_mut_slice(), 1usize);
        close(file);
        if matches!(read, Ok(1..)) {
            found.push(arguments.text(index));
        }
    }
    match found.is_empty() {
        true => Err(Denied::Word("absent")),
        false => Ok(found.join(",")),
    }
}

/// Whether /proc/keys lists a key with this description.
pub fn key_shown(description: &str) -> CallResult {
    let list = content(c"/proc/keys")?;
    let shown = list
        .windows(description.len())
        .any(|window| window == description.as_bytes());
    match shown {
        true => done(),
        false => Err(Denied::Word("absent")),
    }
}

/// The first limit of this user namespace that is above the number behind its name.
pub fn user_limit(arguments: &ProbeArguments) -> CallResult {
    for index in (0..arguments.count()).step_by(2) {
        let name = arguments.text(index);
        let path = CString::new(format!("/proc/sys/user/{name}")).map_err(|_| Errno::EINVAL)?;
        let text = content(&path)?;
        let number = core::str::from_utf8(&text).map(str::trim);
        match number.map(str::parse::<usize>) {
            Ok(Ok(limit)) if limit > arguments.number(index + 1) => {
                return Ok(format!("{name}={limit}"));
            }
            Ok(Ok(_)) => {}
            _ => give_up("no_number_told"),
        }
    }
    Err(Denied::Word("bounded"))
}

/// Makes the kernel start its crash helper. A core file limit of 1 byte prevents that if the helper
/// reads from a pipe.
pub fn crash_helper() -> CallResult {
    const RLIMIT_CORE: usize = 4;
    const NO_HELPER: usize = 1;
    let mut limits = [0usize; 2];
    kernel!(
        PRLIMIT64,
        0usize,
        RLIMIT_CORE,
        0usize,
        limits.as_mut_slice()
    )?;
    if limits[0] != NO_HELPER {
        return Ok(format!("limit {}", limits[0]));
    }
    let none = [0usize; 2];
    kernel!(PRLIMIT64, 0usize, RLIMIT_CORE, none.as_slice(), 0usize)?;
    Ok(String::from("changed"))
}

/// Sets the size of a pipe's buffer.
pub fn pipe_size(bytes: usize) -> CallResult {
    const F_SETPIPE_SZ: usize = 1031;
    let mut ends = [0i32; 2];
    kernel!(PIPE2, ends.as_mut_slice(), 0usize)?;
    kernel!(FCNTL, ends[0], F_SETPIPE_SZ, bytes)?;
    done()
}
