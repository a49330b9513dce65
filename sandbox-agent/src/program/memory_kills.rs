//! Out-of-memory kills during an execution. The kernel counts them for the whole sandbox, so an
//! execution's number is the difference since its start.

use alloc::{rc::Rc, vec::Vec};

use crate::runtime::{Errno, Fd, fs, io, path::terminated};

use crate::protocol::memory_kills;

/// The kernel's file with the count. It stays open, so that reading it takes one system call.
#[derive(Debug, Clone)]
pub(super) struct KillCount(Rc<Fd>);

impl KillCount {
    /// Opens the first file that has a count now. Without one, executions report an unknown number.
    pub(super) fn open(paths: &[Vec<u8>]) -> Option<Self> {
        paths.iter().find_map(|path| {
            let count = Self(Rc::new(open(path).ok()?));
            count.now().map(|_| count)
        })
    }

    /// The count; `None` if the file has none any more.
    fn now(&self) -> Option<u64> {
        let mut text = [0; 512];
        let length = io::read_at(&*self.0, &mut text, 0).ok()?;
        memory_kills(&text[..length])
    }

    /// Starts counting for an execution.
    pub(super) fn begin(&self) -> Option<KillsSince> {
        let before = self.now()?;
        Some(KillsSince {
            count: self.clone(),
            before,
        })
    }
}

fn open(path: &[u8]) -> Result<Fd, Errno> {
    // The name may lead to a FIFO: do not block.
    let flags = fs::O_RDONLY | fs::O_NONBLOCK | fs::O_CLOEXEC;
    fs::open(&terminated(path)?, flags, 0)
}

/// The count at the start of an execution.
#[derive(Debug)]
pub(super) struct KillsSince {
    count: KillCount,
    before: u64,
}

impl KillsSince {
    /// How many processes were killed since then.
    pub(super) fn until_now(&self) -> Option<u64> {
        self.count.now()?.checked_sub(self.before)
    }
}
