//! What the kernel reports about this process's confinement.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call_result::{CallResult, Denied, give_up};
use crate::kernel;
use crate::processes::parent;

/// The first of these folders whose mount is writable.
pub fn writable_mount(arguments: &ProbeArguments) -> CallResult {
    const FLAGS: usize = 10;
    const READ_ONLY: u64 = 1;
    let mut folders = 0;
    for folder in arguments.texts() {
        let path = CString::new(folder).map_err(|_| Errno::EINVAL)?;
        // `struct statfs` on 64-bit machines, with spare words.
        let mut status = [0u64; 15];
        match kernel!(STATFS, &*path, status.as_mut_slice()) {
            // The folder may be missing in another root.
            Err(Errno::ENOENT) => continue,
            other => other?,
        };
        if status[FLAGS] & READ_ONLY == 0 {
            return Ok(String::from(folder));
        }
        folders += 1;
    }
    match folders {
        0 => Err(Errno::ENOENT.into()),
        _ => Err(Denied::Word("read_only")),
    }
}

/// Whether a program can gain privileges when it is executed.
pub fn may_gain_privileges() -> CallResult {
    const PR_GET_NO_NEW_PRIVS: usize = 39;
    match kernel!(PRCTL, PR_GET_NO_NEW_PRIVS, 0usize, 0usize, 0usize, 0usize)? {
        0 => Ok(String::from("no_new_privs is not set")),
        _ => Err(Denied::Word("no_new_privs")),
    }
}

/// The named capability sets (`CapEff`) that are not empty.
pub fn capability_sets(arguments: &ProbeArguments) -> CallResult {
    let status = status(c"/proc/self/status")?;
    let mut filled = Vec::new();
    for name in arguments.texts() {
        let Some(value) = field(&status, name) else {
            give_up("no_such_set");
        };
        if value.bytes().any(|digit| digit != b'0') {
            filled.push(name);
        }
    }
    match filled.is_empty() {
        true => Err(Denied::Word("no_capabilities")),
        false => Ok(filled.join(",")),
    }
}

/// The number of seccomp filters, if it is below `least`.
pub fn filters(least: usize) -> CallResult {
    let status = status(c"/proc/self/status")?;
    if field(&status, "Seccomp") != Some("2") {
        return Ok("0".to_string());
    }
    // The field exists since Linux 5.9. Before that, only the mode shows that there is a filter.
    let count = field(&status, "Seccomp_filters").and_then(|count| count.parse::<usize>().ok());
    match count {
        Some(count) if count < least => Ok(format!("{count}")),
        _ => Err(Denied::Word("filtered")),
    }
}

/// The hard limit of a resource, if it is above `most`.
pub fn resource_limit(resource: usize, most: usize) -> CallResult {
    let mut limits = [0usize; 2];
    kernel!(PRLIMIT64, 0usize, resource, 0usize, limits.as_mut_slice())?;
    match limits[1] {
        limit if limit > most => Ok(format!("{limit}")),
        _ => Err(Denied::Word("bounded")),
    }
}

/// How many Landlock domains this process can still enter. Each domain that it is in takes one of a
/// fixed number.
pub fn landlock_room() -> CallResult {
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    const MAKE_SYM: u64 = 1 << 12;
    const MOST: usize = 64;
    kernel!(PRCTL, PR_SET_NO_NEW_PRIVS, 1usize, 0usize, 0usize, 0usize)?;
    let attributes = [MAKE_SYM];
    let rules = kernel!(
        LANDLOCK_CREATE_RULESET,
        attributes.as_slice(),
        8usize,
        0usize
    )?;
    for entered in 0..MOST {
        match kernel!(LANDLOCK_RESTRICT_SELF, rules, 0usize) {
            Ok(_) => {}
            Err(Errno::E2BIG) => return Ok(format!("{entered}")),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Denied::Word("no_end"))
}

/// Whether the parent process has the same user.
pub fn parents_user() -> CallResult {
    let path = CString::new(format!("/proc/{}/status", parent())).map_err(|_| Errno::EINVAL)?;
    let (own, parents) = (status(c"/proc/self/status")?, status(&path)?);
    let (Some(own), Some(parents)) = (field(&own, "Uid"), field(&parents, "Uid")) else {
        give_up("no_user_told");
    };
    match own == parents {
        true => Ok(String::from("its parent's user")),
        false => Err(Denied::Word("own_user")),
    }
}

/// This process's users, as numbers.
pub fn user() -> CallResult {
    match field(&status(c"/proc/self/status")?, "Uid") {
        Some(users) => Ok(users.replace('\t', " ")),
        None => give_up("no_user_told"),
    }
}

fn status(path: &CStr) -> Result<String, Errno> {
    let bytes = crate::files::content(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of a line.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}
