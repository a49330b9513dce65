//! Listing files of the sandbox.

use alloc::vec::Vec;
use core::ffi::CStr;

use crate::runtime::{
    Errno, fs, io,
    path::terminated,
    stat::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK, Stat, stat_at},
};

use super::{Trouble, trouble, walk::Walk};
use crate::protocol::Writer;

/// Records are written in pieces of about this size.
const CHUNK: usize = 64 * 1024;

/// Writes a record for `path` and for what is below it, down to `depth`.
///
/// A folder below that cannot be read does not end the listing: a record says so, and the rest follows.
pub(super) fn list(path: &[u8], depth: u32) -> Result<(), Trouble> {
    let start = terminated(path).map_err(trouble(path))?;
    let facts = stat_at(fs::AT_FDCWD, &start, fs::AT_SYMLINK_NOFOLLOW).map_err(trouble(path))?;
    let mut listing = Listing {
        records: Vec::new(),
        path: path.to_vec(),
    };
    if facts.is_directory() && depth > 0 {
        listing.record(letter(&facts), &facts)?;
        let walk = Walk::new(fs::AT_FDCWD, &start).map_err(trouble(path))?;
        listing.walk(walk, depth as usize)?;
    } else {
        listing.record(letter_at_the_end(&facts), &facts)?;
    }
    listing.flush()
}

struct Listing {
    records: Vec<u8>,
    /// The path of the entry at hand.
    path: Vec<u8>,
}

impl Listing {
    fn walk(&mut self, mut walk: Walk, depth: usize) -> Result<(), Trouble> {
        loop {
            let Some(name) = walk.next_name() else {
                match walk.ascend().map_err(trouble(&self.path))? {
                    Some(name) => self.leave(&name),
                    None => return Ok(()),
                }
                continue;
            };
            self.enter(&name);
            match stat_at(walk.folder(), &name, fs::AT_SYMLINK_NOFOLLOW) {
                Ok(facts) if facts.is_directory() && walk.depth() + 1 < depth => {
                    self.record(letter(&facts), &facts)?;
                    match walk.descend(name.clone()) {
                        Ok(()) => continue,
                        Err(errno) => self.unreadable(errno)?,
                    }
                }
                Ok(facts) => self.record(letter_at_the_end(&facts), &facts)?,
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
        // The slash too, but for the root's.
        self.path
            .truncate(if length > 1 { length - 1 } else { length });
    }

    /// Says that the entry cannot be read; one that is gone by now is none.
    fn unreadable(&mut self, errno: Errno) -> Result<(), Trouble> {
        if errno == Errno::ENOENT {
            return Ok(());
        }
        let mut record = Writer::new();
        record
            .u8(b'!')
            .u32(0)
            .u64(u64::from(errno.0.unsigned_abs()));
        record.u64(0).u64(0).bytes(&self.path);
        self.records.extend_from_slice(&record.finish());
        Ok(())
    }

    fn record(&mut self, letter: u8, facts: &Stat) -> Result<(), Trouble> {
        let mut record = Writer::new();
        record.u8(letter).u32(facts.mode & 0o7777);
        record
            .u64(facts.size.cast_unsigned())
            .u64(facts.blocks.cast_unsigned() * 512);
        let seconds = facts.modification_seconds.saturating_mul(1_000_000_000);
        let time = seconds.saturating_add(facts.modification_nanoseconds);
        record.u64(time.cast_unsigned()).bytes(&self.path);
        self.records.extend_from_slice(&record.finish());
        if self.records.len() >= CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        let written = io::write_all(1, &self.records).map_err(Trouble::Output);
        self.records.clear();
        written
    }
}

/// The letter of an entry below which nothing is listed.
fn letter_at_the_end(facts: &Stat) -> u8 {
    match letter(facts) {
        b'd' => b'>',
        other => other,
    }
}

fn letter(facts: &Stat) -> u8 {
    match facts.kind() {
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
