//! Removes the agent's own executable from a foreign container. The process keeps running.

use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::{Errno, fs, fs::AT_FDCWD, path::terminated};

/// The executable's name in its folder.
const PROGRAM: &[u8] = b"/agent";

/// Removes the executable and its folder. Returns the exit code: 71 if either is left.
pub(super) fn remove_agent(folder: &CStr) -> i32 {
    match remove_folder(folder) {
        Ok(()) => 0,
        Err(_) => 71,
    }
}

fn remove_folder(folder: &CStr) -> Result<(), Errno> {
    let mut program = Vec::from(folder.to_bytes());
    program.extend_from_slice(PROGRAM);
    for (path, flags) in [
        (terminated(&program[..])?, 0),
        (terminated(folder.to_bytes())?, fs::AT_REMOVEDIR),
    ] {
        match fs::unlink(AT_FDCWD, &path, flags) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn only_the_agent_and_its_folder_are_removed() {
        let temp_dir = tempfile::tempdir().unwrap();
        let folder = temp_dir.path().join("folder");
        let name = CString::new(folder.as_os_str().as_bytes()).unwrap();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("agent"), "").unwrap();
        assert_eq!(remove_agent(&name), 0);
        assert!(!folder.exists());
        assert_eq!(remove_agent(&name), 0, "gone already");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("other"), "").unwrap();
        assert_eq!(remove_agent(&name), 71);
        assert!(folder.join("other").exists());
    }
}
