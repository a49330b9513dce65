//! Reading folders.

use core::ffi::CStr;

use crate::runtime::descriptor::{Descriptor, RawFd, word};
use crate::runtime::errno::Errno;
use crate::runtime::syscall::{nr, result, syscall3};

/// An entry's kind, if the file system returns it without `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Unknown: use `stat`.
    Unknown,
    /// A fifo.
    Fifo,
    /// A character device.
    CharacterDevice,
    /// A folder.
    Directory,
    /// A block device.
    BlockDevice,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A socket.
    Socket,
}

impl EntryKind {
    fn from_code(code: u8) -> EntryKind {
        match code {
            1 => EntryKind::Fifo,
            2 => EntryKind::CharacterDevice,
            4 => EntryKind::Directory,
            6 => EntryKind::BlockDevice,
            8 => EntryKind::File,
            10 => EntryKind::Symlink,
            12 => EntryKind::Socket,
            _ => EntryKind::Unknown,
        }
    }
}

/// A folder's entry: `struct linux_dirent64`.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// Inode number.
    pub inode: u64,
    /// Its kind.
    pub kind: EntryKind,
    /// Its name, without the folder's path.
    pub name: &'a CStr,
}

/// Reads a folder entry by entry, without `.` and `..`, into a buffer on the stack.
#[derive(Debug)]
pub struct Directory {
    descriptor: RawFd,
    buffer: Buffer,
    filled: usize,
    position: usize,
}

/// The kernel aligns records to 8 bytes relative to the start.
#[repr(C, align(8))]
#[derive(Debug)]
struct Buffer([u8; 4096]);

/// Offset of the name in a record: inode 8, offset 8, length 2, kind 1.
const NAME: usize = 19;

impl Directory {
    /// Reads an open folder from its current position. The folder must stay open as long as the
    /// reader lives.
    pub fn new(descriptor: impl Descriptor) -> Directory {
        Directory {
            descriptor: descriptor.raw(),
            buffer: Buffer([0; 4096]),
            filled: 0,
            position: 0,
        }
    }

    /// The next entry, or `None` at the end. It borrows from the buffer, so this is not an
    /// `Iterator`.
    ///
    /// # Errors
    /// What `getdents64` reports; `EIO` for a malformed record.
    pub fn next_entry(&mut self) -> Result<Option<DirectoryEntry<'_>>, Errno> {
        let (start, length) = loop {
            if self.position >= self.filled {
                // SAFETY: the kernel writes at most 4096 bytes into the buffer.
                self.filled = result(unsafe {
                    syscall3(
                        nr::GETDENTS64,
                        word(self.descriptor),
                        self.buffer.0.as_mut_ptr() as usize,
                        self.buffer.0.len(),
                    )
                })?;
                self.position = 0;
                if self.filled == 0 {
                    return Ok(None);
                }
            }
            let rest = &self.buffer.0[self.position..self.filled];
            if rest.len() <= NAME {
                return Err(Errno::EIO);
            }
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            if length <= NAME || length > rest.len() {
                return Err(Errno::EIO);
            }
            let start = self.position;
            self.position += length;
            if !matches!(&rest[NAME..length], [b'.', 0, ..] | [b'.', b'.', 0, ..]) {
                break (start, length);
            }
        };
        let record = &self.buffer.0[start..start + length];
        let mut inode = [0; 8];
        inode.copy_from_slice(&record[..8]);
        Ok(Some(DirectoryEntry {
            inode: u64::from_ne_bytes(inode),
            kind: EntryKind::from_code(record[18]),
            name: CStr::from_bytes_until_nul(&record[NAME..]).map_err(|_| Errno::EIO)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::fs::{O_CLOEXEC, O_DIRECTORY, O_RDONLY, open};
    use std::collections::BTreeSet;
    use std::os::unix::ffi::OsStrExt;
    use std::string::{String, ToString};

    #[test]
    fn directory_listing_spans_several_buffers() {
        let temp_dir = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::new();
        for number in 0..300 {
            let name = std::format!("a-rather-long-name-for-a-file-{number}");
            std::fs::write(temp_dir.path().join(&name), "").unwrap();
            expected.insert(name);
        }
        std::fs::create_dir(temp_dir.path().join("sub")).unwrap();
        let path =
            crate::runtime::path::terminated(temp_dir.path().as_os_str().as_bytes()).unwrap();
        let folder = open(&path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0).unwrap();
        let mut reader = Directory::new(&folder);
        let mut found: BTreeSet<String> = BTreeSet::new();
        let mut folders = 0;
        while let Some(entry) = reader.next_entry().unwrap() {
            if entry.kind == EntryKind::Directory {
                folders += 1;
                assert_eq!(entry.name, c"sub");
            } else {
                assert!(found.insert(entry.name.to_str().unwrap().to_string()));
            }
        }
        assert_eq!(found, expected);
        assert_eq!(folders, 1);
        let file = open(c"/etc/passwd", O_RDONLY, 0).unwrap();
        assert_eq!(
            Directory::new(&file).next_entry().unwrap_err(),
            Errno::ENOTDIR
        );
    }
}
