//! The agent's program as a memory file: created once per process, sealed, and executed from there.
//! Nothing has to be installed on the host or visible in the sandbox.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sandbox_host::lock;

/// The descriptor of the program. It stays open until the process ends.
pub(super) fn descriptor() -> io::Result<BorrowedFd<'static>> {
    static MADE: Mutex<Option<&'static OwnedFd>> = Mutex::new(None);
    let mut made = lock(&MADE);
    let file = match *made {
        Some(file) => file,
        None => {
            let file: &'static OwnedFd = Box::leak(Box::new(make(sandbox_agent::program())?));
            *made = Some(file);
            file
        }
    };
    Ok(file.as_fd())
}

fn make(program: &[u8]) -> io::Result<OwnedFd> {
    if program.is_empty() {
        return Err(io::Error::other(
            "this build has no agent: it was made for documentation only",
        ));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Since Linux 6.3 a system may require the flag for executable memory files; older kernels
    // reject it.
    let file = memfd_create(c"sandbox-agent", flags | MemfdFlags::EXEC)
        .or_else(|_| memfd_create(c"sandbox-agent", flags))?;
    let mut rest = program;
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, rest))?;
        rest = &rest[written..];
    }
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_file_is_sealed() {
        let file = make(b"program").expect("made");
        let error = rustix::io::pwrite(&file, b"x", 0).expect_err("sealed");
        assert_eq!(error, rustix::io::Errno::PERM);
        let mut text = [0; 16];
        let count = rustix::io::pread(&file, &mut text, 0).expect("readable");
        assert_eq!(&text[..count], b"program");
        assert!(make(b"").is_err());
    }
}
