//! Makes the out-of-memory killer prefer programs to their agent.

use alloc::vec::Vec;

use crate::runtime::{Errno, Fd, Pid, fs, io};

/// The agent's `oom_score_adj`, open for writing.
///
/// A child inherits the value and cannot write its own: the files of a process that is not dumpable
/// belong to root of the initial user namespace. So the agent raises its own value while it forks.
/// Any process may lower its value again to what a privileged process set last.
#[derive(Debug)]
pub(super) struct OomScore {
    file: Fd,
    initial: Vec<u8>,
}

impl OomScore {
    /// Opens the file. The process must still be dumpable and have its initial identity.
    ///
    /// # Errors
    ///
    /// What `open` and `read` report, such as `ENOENT` without a procfs.
    pub(super) fn open() -> Result<Self, Errno> {
        let file = fs::open(c"/proc/self/oom_score_adj", fs::O_RDWR | fs::O_CLOEXEC, 0)?;
        let mut text = [0; 16];
        let count = io::read(&file, &mut text)?;
        Ok(Self {
            file,
            initial: text[..count].trim_ascii().to_vec(),
        })
    }

    /// Whether the value can be raised and lowered again. The process must not have
    /// `CAP_SYS_RESOURCE`: with it, the raised value would become the new minimum.
    pub(super) fn can_be_raised(&self) -> bool {
        self.set(b"1000")
            .and_then(|()| self.set(&self.initial))
            .is_ok()
    }

    /// Forks with the highest value, which the child keeps.
    pub(super) fn fork_raised(
        &self,
        fork: impl FnOnce() -> Result<Option<Pid>, Errno>,
    ) -> Result<Option<Pid>, Errno> {
        // Both writes were tried at startup. If one fails later, the agent is as likely a victim as
        // its children, and clients see its end.
        let _ = self.set(b"1000");
        let forked = fork();
        if forked != Ok(None) {
            let _ = self.set(&self.initial);
        }
        forked
    }

    fn set(&self, value: &[u8]) -> Result<(), Errno> {
        io::write_at(&self.file, value, 0).map(drop)
    }
}
