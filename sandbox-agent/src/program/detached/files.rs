//! The files in a detached sandbox's folder.

use alloc::format;
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, fs,
    fs::{O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_WRONLY},
    io,
    path::terminated,
};

use crate::protocol::keep::files;

/// The sandbox's folder, which only its owner can enter.
#[derive(Debug)]
pub(super) struct DetachedFiles(Fd);

/// The file with the count of out-of-memory kills, created with the first.
#[derive(Debug)]
pub(super) struct MemoryKillsFile {
    folder: Fd,
    count: u64,
}

impl DetachedFiles {
    pub(super) fn open(folder: &[u8]) -> Result<Self, Errno> {
        let flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        fs::open(&terminated(folder)?, flags, 0).map(Self)
    }

    /// Writes the key, then the record, which appears atomically.
    pub(super) fn write(&self, key: &[u8], record: &[u8]) -> Result<(), Errno> {
        self.file(files::KEY, key)?;
        self.file(files::NEW_RECORD, record)?;
        fs::rename(&self.0, files::NEW_RECORD, &self.0, files::RECORD, 0)
    }

    fn file(&self, name: &CStr, content: &[u8]) -> Result<(), Errno> {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        let file = fs::open_at(&self.0, name, flags, 0o600)?;
        io::write_all(&file, content)?;
        file.close()
    }

    pub(super) fn memory_kills(&self) -> Result<MemoryKillsFile, Errno> {
        Ok(MemoryKillsFile {
            folder: io::duplicate(&self.0)?,
            count: 0,
        })
    }
}

impl MemoryKillsFile {
    /// Increments the count.
    pub(super) fn add(&mut self) -> Result<(), Errno> {
        self.count += 1;
        let flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
        let file = fs::open_at(&self.folder, files::MEMORY_KILLS, flags, 0o600)?;
        // A single write that is never shorter than the last: readers see a complete number.
        io::write_at(&file, format!("{}\n", self.count).as_bytes(), 0).map(drop)
    }
}
