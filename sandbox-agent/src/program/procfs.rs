//! A procfs of the agent's own process namespace.

use crate::runtime::{
    Descriptor, Errno, Fd, RawFd, fs, process,
    stat::{PROC_SUPER_MAGIC, file_system_of},
};

/// An open procfs. It may be mounted nowhere, so that the agent has it even if the sandbox shows
/// none.
#[derive(Debug)]
pub(super) struct Procfs(Fd);

impl Procfs {
    /// Wraps an open folder that is the root of a procfs.
    ///
    /// # Errors
    ///
    /// `EXDEV` if it is not a procfs, or belongs to another PID namespace: its numbers would name
    /// other processes.
    pub(super) fn new(folder: Fd) -> Result<Self, Errno> {
        if file_system_of(&folder)?.magic != PROC_SUPER_MAGIC {
            return Err(Errno::EXDEV);
        }
        let mut buffer = [0; 20];
        let itself = fs::read_link(&folder, c"self", &mut buffer)?;
        let mut digits = [0; 20];
        let number = u64::from(process::current().0.unsigned_abs());
        if itself != crate::runtime::path::decimal(number, &mut digits) {
            return Err(Errno::EXDEV);
        }
        Ok(Self(folder))
    }

    /// Opens the procfs on `/proc`.
    ///
    /// # Errors
    ///
    /// As [`Procfs::new`], and what `open` reports.
    pub(super) fn open() -> Result<Self, Errno> {
        Self::new(fs::open(
            c"/proc",
            fs::O_RDONLY | fs::O_DIRECTORY | fs::O_CLOEXEC,
            0,
        )?)
    }
}

impl Descriptor for Procfs {
    fn raw(&self) -> RawFd {
        self.0.as_raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_file_systems_are_refused() {
        Procfs::open().unwrap();
        let other = fs::open(c"/", fs::O_RDONLY | fs::O_DIRECTORY | fs::O_CLOEXEC, 0).unwrap();
        assert_eq!(Procfs::new(other).unwrap_err(), Errno::EXDEV);
    }
}
