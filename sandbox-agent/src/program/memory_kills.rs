//! Kills for memory during an execution. The kernel counts them for the sandbox as a whole; what the count was when an execution began is
//! what tells them apart.

use alloc::{rc::Rc, vec::Vec};

use crate::runtime::{Fd, Result, fs, io, path::terminated};

use crate::protocol::memory_kills;

/// The file in which the kernel counts them. It stays open, so that a look costs one system call.
#[derive(Debug, Clone)]
pub(super) struct KillCount(Rc<Fd>);

impl KillCount {
    /// Opens the first of these files that has a count now. Without one, what was killed is not known, and is reported so.
    pub(super) fn open(paths: &[Vec<u8>]) -> Option<Self> {
        paths.iter().find_map(|path| {
            let count = Self(Rc::new(open(path).ok()?));
            count.now().map(|_| count)
        })
    }

    /// The count; `None` where the file does not say any more.
    fn now(&self) -> Option<u64> {
        let mut text = [0; 512];
        let length = io::read_at(&*self.0, &mut text, 0).ok()?;
        memory_kills(&text[..length])
    }

    /// Counts from now on.
    pub(super) fn begin(&self) -> Option<KillsSince> {
        let before = self.now()?;
        Some(KillsSince {
            count: self.clone(),
            before,
        })
    }
}

fn open(path: &[u8]) -> Result<Fd> {
    // Whatever has the name: nothing is waited for.
    let flags = fs::O_RDONLY | fs::O_NONBLOCK | fs::O_CLOEXEC;
    fs::open(&terminated(path)?, flags, 0)
}

/// What the count was when an execution began.
#[derive(Debug)]
pub(super) struct KillsSince {
    count: KillCount,
    before: u64,
}

impl KillsSince {
    /// How many processes were killed since.
    pub(super) fn until_now(&self) -> Option<u64> {
        self.count.now()?.checked_sub(self.before)
    }
}
