//! Files of a sandbox, as a list shows them.

use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;

/// What a path in a sandbox is. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
    /// The code may not read it.
    Unreadable,
}

/// A file or folder in a sandbox. Code in the sandbox decides all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileEntry {
    /// The absolute path in the sandbox.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes; 0 for what is unreadable.
    pub size: u64,
    /// When the content was last modified; `None` for a time before 1970.
    pub modified: Option<SystemTime>,
}

impl FileEntry {
    /// An entry without permission bits, size and time.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, kind: FileKind) -> Self {
        Self {
            path: path.into(),
            kind,
            mode: 0,
            size: 0,
            modified: None,
        }
    }

    /// Whether it is a folder.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Folder
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }
}
