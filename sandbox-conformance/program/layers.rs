//! What the kernel says of this process' own confinement.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::Errno;

use crate::Arguments;
use crate::kernel;
use crate::processes::parent;
use crate::said::{Denied, Said, give_up};

/// The first of several folders whose mount can be written.
pub fn writable_mount(arguments: &Arguments) -> Said {
    const FLAGS: usize = 10;
    const READ_ONLY: u64 = 1;
    let mut folders = 0;
    for folder in arguments.texts() {
        let path = CString::new(folder).map_err(|_| Errno::EINVAL)?;
        // `struct statfs` of a machine of 64 bits, spare words included.
        let mut status = [0u64; 15];
        match kernel!(STATFS, &*path, status.as_mut_slice()) {
            // Another root may lack it.
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

/// Whether a program may gain privileges when it is executed.
pub fn may_gain_privileges() -> Said {
    const PR_GET_NO_NEW_PRIVS: usize = 39;
    match kernel!(PRCTL, PR_GET_NO_NEW_PRIVS, 0usize, 0usize, 0usize, 0usize)? {
        0 => Ok(String::from("no_new_privs is not set")),
        _ => Err(Denied::Word("no_new_privs")),
    }
}

/// Which of the capability sets that the arguments name (`CapEff`) hold something.
pub fn capability_sets(arguments: &Arguments) -> Said {
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

/// How many filters of system calls there are, where they are fewer than `least`.
pub fn filters(least: usize) -> Said {
    let status = status(c"/proc/self/status")?;
    if field(&status, "Seccomp") != Some("2") {
        return Ok("0".to_string());
    }
    // Since Linux 5.9; before that, that there is any is all that is told.
    let count = field(&status, "Seccomp_filters").and_then(|count| count.parse::<usize>().ok());
    match count {
        Some(count) if count < least => Ok(format!("{count}")),
        _ => Err(Denied::Word("filtered")),
    }
}

/// A resource's hard limit, where it is more than `most`.
pub fn resource_limit(resource: usize, most: usize) -> Said {
    let mut limits = [0usize; 2];
    kernel!(PRLIMIT64, 0usize, resource, 0usize, limits.as_mut_slice())?;
    match limits[1] {
        limit if limit > most => Ok(format!("{limit}")),
        _ => Err(Denied::Word("bounded")),
    }
}

/// How many Landlock domains this process can still enter: every one that it is in takes one of a fixed number.
pub fn landlock_room() -> Said {
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

/// Whether the process that started this one is of the same user.
pub fn parents_user() -> Said {
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

fn status(path: &CStr) -> Result<String, Errno> {
    let bytes = crate::files::content(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line's value.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}
