//! Listing files of the sandbox.

use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::{
    Errno, fs, io,
    path::terminated,
    stat::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK, Stat, stat_at},
};

use super::{BuiltinError, file_error, walk::TreeWalk};
use crate::protocol::MessageWriter;

/// Records are written in chunks of about this size, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writes a record for `path` and all entries below it, down to `depth`.
///
/// A folder that cannot be read does not end the listing: it gets an error record.
pub(super) fn list(path: &[u8], depth: u32) -> Result<(), BuiltinError> {
    let start = terminated(path).map_err(file_error(path))?;
    let metadata =
        stat_at(fs::AT_FDCWD, &start, fs::AT_SYMLINK_NOFOLLOW).map_err(file_error(path))?;
    let mut listing = Listing {
        records: Vec::new(),
        path: path.to_vec(),
    };
    if metadata.is_directory() && depth > 0 {
        listing.record(letter(&metadata), &metadata)?;
        let walk = TreeWalk::new(fs::AT_FDCWD, &start).map_err(file_error(path))?;
        listing.walk(walk, depth as usize)?;
    } else {
        listing.record(letter_at_the_end(&metadata), &metadata)?;
    }
    listing.flush()
}

struct Listing {
    records: Vec<u8>,
    /// The current entry's path.
    path: Vec<u8>,
}

impl Listing {
    fn walk(&mut self, mut walk: TreeWalk, depth: usize) -> Result<(), BuiltinError> {
        loop {
            let Some(name) = walk.next_name() else {
                match walk.ascend().map_err(file_error(&self.path))? {
                    Some(name) => self.leave(&name),
                    None => return Ok(()),
                }
                continue;
            };
            self.enter(&name);
            match stat_at(walk.folder(), &name, fs::AT_SYMLINK_NOFOLLOW) {
                Ok(metadata) if metadata.is_directory() && walk.depth() + 1 < depth => {
                    self.record(letter(&metadata), &metadata)?;
                    match walk.descend(name.clone()) {
                        Ok(()) => continue,
                        Err(errno) => self.unreadable(errno)?,
                    }
                }
                Ok(metadata) => self.record(letter_at_the_end(&metadata), &metadata)?,
                Err(errno) => self.unreadable(errno)?,
            }
            self.leave(&name);
        }
    }

    fn enter(&mut self, name: &CStr) {
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
    }

    fn leave(&mut self, name: &CStr) {
        let length = self.path.len() - name.to_bytes().len();
        // Removes the slash too, except the root's.
        self.path
            .truncate(if length > 1 { length - 1 } else { length });
    }

    /// Writes an error record for the entry. An entry that has been removed meanwhile gets none.
    fn unreadable(&mut self, errno: Errno) -> Result<(), BuiltinError> {
        if errno == Errno::ENOENT {
            return Ok(());
        }
        let mut record = MessageWriter::new();
        record
            .u8(b'!')
            .u32(0)
            .u64(u64::from(errno.0.unsigned_abs()));
        record.u64(0).u64(0).bytes(&self.path);
        self.records.extend_from_slice(&record.finish());
        Ok(())
    }

    fn record(&mut self, letter: u8, metadata: &Stat) -> Result<(), BuiltinError> {
        let mut record = MessageWriter::new();
        record.u8(letter).u32(metadata.mode & 0o7777);
        record
            .u64(metadata.size.cast_unsigned())
            .u64(metadata.blocks.cast_unsigned() * 512);
        let seconds = metadata.modification_seconds.saturating_mul(1_000_000_000);
        let time = seconds.saturating_add(metadata.modification_nanoseconds);
        record.u64(time.cast_unsigned()).bytes(&self.path);
        self.records.extend_from_slice(&record.finish());
        if self.records.len() >= CHUNK_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), BuiltinError> {
        let written = io::write_all(1, &self.records).map_err(BuiltinError::Output);
        self.records.clear();
        written
    }
}

/// The type letter of an entry below which nothing is listed.
fn letter_at_the_end(metadata: &Stat) -> u8 {
    match letter(metadata) {
        b'd' => b'>',
        other => other,
    }
}

fn letter(metadata: &Stat) -> u8 {
    match metadata.kind() {
        S_IFREG => b'f',
        S_IFDIR => b'd',
        S_IFLNK => b'l',
        S_IFIFO => b'p',
        S_IFSOCK => b's',
        S_IFBLK => b'b',
        S_IFCHR => b'c',
        _ => b'?',
    }
}
