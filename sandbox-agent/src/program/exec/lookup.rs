//! Resolving a command's name.

use alloc::{ffi::CString, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, fs,
    path::terminated,
    stat::stat_at,
    syscall::{check, nr, syscall3},
};

use crate::protocol::FailStep;

/// The search path if the environment has no `PATH`: the default of root's shells.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The path to execute for `name`: `name` itself if it has a slash, else the first executable file
/// in the folders of `PATH`.
///
/// # Errors
///
/// The failure's step and error number.
pub(super) fn resolve(name: &[u8], environment: &[Vec<u8>]) -> Result<CString, (FailStep, Errno)> {
    if name.contains(&b'/') {
        return terminated(name).map_err(|errno| (FailStep::Request, errno));
    }
    if name.is_empty() {
        return Err((FailStep::NotFound, Errno::ENOENT));
    }
    let path = environment
        .iter()
        .find_map(|entry| entry.strip_prefix(b"PATH="))
        .unwrap_or(DEFAULT_PATH);
    let mut refused = None;
    for folder in path.split(|byte| *byte == b':') {
        let mut candidate = folder.to_vec();
        if !folder.is_empty() {
            candidate.push(b'/');
        }
        candidate.extend_from_slice(name);
        let candidate = terminated(candidate).map_err(|errno| (FailStep::Request, errno))?;
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(Errno::EACCES) => refused = Some(Errno::EACCES),
            // Missing or not accessible: try the next folder.
            Err(_) => {}
        }
    }
    Err(
        refused.map_or((FailStep::NotFound, Errno::ENOENT), |errno| {
            (FailStep::NotExecutable, errno)
        }),
    )
}

fn executable(path: &CStr) -> Result<(), Errno> {
    if !stat_at(fs::AT_FDCWD, path, 0)?.is_file() {
        return Err(Errno::EACCES);
    }
    // `faccessat`, which older seccomp profiles allow. Real and effective identity are the same
    // here.
    let folder = fs::AT_FDCWD as isize as usize;
    // SAFETY: the path is nul-terminated and only read.
    check(unsafe {
        syscall3(
            nr::FACCESSAT,
            folder,
            path.as_ptr() as usize,
            fs::X_OK as usize,
        )
    })
}

/// The failure's step for an error of `execve`, and a hint to append to the path.
pub(super) fn classify(path: &CStr, errno: Errno) -> (FailStep, &'static str) {
    match errno {
        Errno::ENOENT | Errno::ENOTDIR if stat_at(fs::AT_FDCWD, path, 0).is_ok() => {
            (FailStep::NotExecutable, ": interpreter missing")
        }
        Errno::ENOENT | Errno::ENOTDIR => (FailStep::NotFound, ""),
        // `execve` fails with EAGAIN at the limit of processes.
        Errno::EAGAIN => (FailStep::Spawn, ": too many processes of this user"),
        Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE => (FailStep::Spawn, ""),
        Errno::E2BIG => (
            FailStep::Request,
            ": arguments and environment are too large",
        ),
        _ => (FailStep::NotExecutable, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(path: &str) -> Vec<Vec<u8>> {
        alloc::vec![b"A=B".to_vec(), alloc::format!("PATH={path}").into_bytes()]
    }

    #[test]
    fn command_is_resolved_through_path() {
        assert_eq!(resolve(b"sh", &[]).unwrap().to_bytes().last(), Some(&b'h'));
        assert_eq!(resolve(b"./sh", &[]).unwrap().as_c_str(), c"./sh");
        let none = (FailStep::NotFound, Errno::ENOENT);
        assert_eq!(resolve(b"", &[]), Err(none));
        assert_eq!(resolve(b"sh", &environment("/proc:/nowhere")), Err(none));
        assert_eq!(resolve(b"no-such-program", &environment("/bin")), Err(none));
        let refused = (FailStep::NotExecutable, Errno::EACCES);
        assert_eq!(resolve(b"passwd", &environment("/etc")), Err(refused));
        assert_eq!(resolve(b"lib", &environment("/usr")), Err(refused));
        assert_eq!(
            resolve(b"sh", &environment("/nowhere:/bin"))
                .unwrap()
                .as_c_str(),
            c"/bin/sh"
        );
    }
}
