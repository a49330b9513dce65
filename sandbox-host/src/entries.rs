//! Parses the agent's list of a folder in a sandbox. The sandbox controls the list, so its size is
//! bounded and each record is checked.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sandbox_agent::protocol::{Builtin, MessageReader, ProtocolError};
use sandbox_core::spi::{Flow, OutputSink, OutputStream};
use sandbox_core::{Error, ErrorKind, FileEntry, FileKind, Result, SkipReason};

use crate::instance::AgentInstance;

/// The largest list, in bytes: enough for 100,000 entries with long names.
const LIST_LIMIT: usize = 16 * 1024 * 1024;

/// The maximum depth of a list.
pub(crate) const DEPTH: u32 = 64;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryType {
    File,
    Folder,
    Symlink,
    Other,
    /// A folder below the maximum depth.
    TooDeep,
    /// An entry that cannot be read.
    Unreadable,
}

impl EntryType {
    /// Whether entries below it may be missing from the list.
    pub(crate) fn may_hide_entries(self) -> bool {
        matches!(self, Self::Folder | Self::TooDeep | Self::Unreadable)
    }
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) entry_type: EntryType,
    /// Permission bits.
    pub(crate) mode: u32,
    /// The size in bytes; for an unreadable entry, the error number.
    pub(crate) size: u64,
    /// The modification time reported by the agent, in nanoseconds since 1970.
    pub(crate) modified: u64,
    pub(crate) path: Vec<u8>,
}

impl Entry {
    /// Why the entry is not copied; `None` for files and folders.
    pub(crate) fn skipped(&self) -> Option<SkipReason> {
        match self.entry_type {
            EntryType::File | EntryType::Folder => None,
            EntryType::Symlink => Some(SkipReason::Symlink),
            EntryType::Other => Some(SkipReason::SpecialFile),
            EntryType::TooDeep => Some(SkipReason::TooDeep),
            EntryType::Unreadable => Some(SkipReason::Unreadable {
                detail: self.unreadable_reason(),
            }),
        }
    }

    /// Why an unreadable entry cannot be read. The sandbox controls the number.
    fn unreadable_reason(&self) -> String {
        match i32::try_from(self.size) {
            Ok(errno) => crate::failure::reason(errno),
            Err(_) => format!("an error without a number ({})", self.size),
        }
    }
}

impl Entry {
    /// The entry for users of a sandbox.
    pub(crate) fn into_file(self) -> FileEntry {
        let kind = match self.entry_type {
            EntryType::File => FileKind::File,
            EntryType::Folder | EntryType::TooDeep => FileKind::Folder,
            EntryType::Symlink => FileKind::Link,
            EntryType::Other => FileKind::Special,
            EntryType::Unreadable => FileKind::Unreadable,
        };
        let path = OsString::from_vec(self.path);
        let mut file = FileEntry::new(path, kind);
        if kind != FileKind::Unreadable {
            file.mode = self.mode;
            file.size = self.size;
            // The agent sends a time before 1970 as a huge number.
            let since = i64::try_from(self.modified).ok().map(i64::unsigned_abs);
            let time = |nanos| SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos));
            file.modified = since.and_then(time);
        }
        file
    }
}

/// What is directly in a folder, sorted by path.
pub(crate) async fn folder(instance: &AgentInstance, path: &str) -> Result<Vec<FileEntry>> {
    let refused = |why: &str| {
        let context = format!("{path}: {why}");
        Err(Error::new(ErrorKind::Path, "list folder", context))
    };
    let (entries, is_whole) = list(instance, path, 1).await?;
    if !is_whole {
        return refused("more entries than fit in a list");
    }
    let mut entries = entries.into_iter();
    match entries.next().map(|folder| folder.entry_type) {
        Some(EntryType::Folder | EntryType::TooDeep) => {}
        _ => return refused("Not a directory"),
    }
    let mut files = Vec::new();
    for entry in entries {
        // The record after the folder's own says that it cannot be read.
        if entry.entry_type == EntryType::Unreadable && is_same(&entry.path, path) {
            let detail = entry.unreadable_reason();
            return refused(&detail);
        }
        files.push(entry.into_file());
    }
    Ok(files)
}

fn is_same(found: &[u8], path: &str) -> bool {
    Path::new(OsStr::from_bytes(found))
        .components()
        .eq(Path::new(path).components())
}

/// The entry of one path, without following a link; `None` if it is missing.
pub(crate) async fn entry(instance: &AgentInstance, path: &str) -> Result<Option<Entry>> {
    match list(instance, path, 0).await {
        Ok((entries, _)) => Ok(entries.into_iter().next().map(|entry| Entry {
            // The depth of 0 was requested, so this is an ordinary folder.
            entry_type: match entry.entry_type {
                EntryType::TooDeep => EntryType::Folder,
                other => other,
            },
            ..entry
        })),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error of the agent means that the path does not exist.
pub(crate) fn is_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::Path && error.context().ends_with("No such file or directory")
}

/// Lists `path` and its contents to a depth of `depth`, sorted by path. Also returns whether the
/// list is complete.
pub(crate) async fn list(
    instance: &AgentInstance,
    path: &str,
    depth: u32,
) -> Result<(Vec<Entry>, bool)> {
    let mut records = RawRecords(Vec::new());
    instance
        .builtin(
            Builtin::List {
                path: path.into(),
                depth,
            },
            None,
            &mut records,
        )
        .await?;
    let whole = records.0.len() <= LIST_LIMIT;
    let mut entries = decode(&records.0, whole).map_err(|error| {
        Error::new(
            ErrorKind::Protocol,
            "list folder",
            format!("{path}: {error}"),
        )
    })?;
    // The error of a folder follows the folder itself.
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((entries, whole))
}

fn decode(records: &[u8], whole: bool) -> Result<Vec<Entry>, ProtocolError> {
    let mut reader = MessageReader::new(records);
    let mut entries = Vec::new();
    loop {
        if reader.clone().end().is_ok() {
            return Ok(entries);
        }
        match record(&mut reader) {
            Ok(entry) => entries.push(entry),
            // A truncated list ends within a record.
            Err(ProtocolError::Truncated) if !whole => return Ok(entries),
            Err(error) => return Err(error),
        }
    }
}

fn record(reader: &mut MessageReader<'_>) -> Result<Entry, ProtocolError> {
    let entry_type = match reader.u8()? {
        b'f' => EntryType::File,
        b'd' => EntryType::Folder,
        b'l' => EntryType::Symlink,
        b'p' | b's' | b'b' | b'c' | b'?' => EntryType::Other,
        b'>' => EntryType::TooDeep,
        b'!' => EntryType::Unreadable,
        _ => return Err(ProtocolError::BadValue("type of an entry")),
    };
    let mode = reader.u32()?;
    let size = reader.u64()?;
    let _allocated = reader.u64()?;
    let modified = reader.u64()?;
    Ok(Entry {
        entry_type,
        mode,
        size,
        modified,
        path: reader.bytes()?.to_vec(),
    })
}

struct RawRecords(Vec<u8>);

#[async_trait]
impl OutputSink for RawRecords {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.0.extend_from_slice(bytes);
        if self.0.len() > LIST_LIMIT {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandbox_agent::protocol::MessageWriter;

    use super::*;

    fn one() -> Vec<u8> {
        let mut writer = MessageWriter::new();
        writer
            .u8(b'f')
            .u32(0o644)
            .u64(3)
            .u64(4096)
            .u64(0)
            .bytes(b"/output/a");
        writer.finish()
    }

    #[test]
    fn truncated_list_keeps_complete_records() {
        let mut bytes = one();
        let entry = Entry {
            entry_type: EntryType::File,
            mode: 0o644,
            size: 3,
            modified: 0,
            path: b"/output/a".to_vec(),
        };
        assert_eq!(decode(&bytes, true), Ok(vec![entry.clone()]));
        bytes.push(b'f');
        assert_eq!(decode(&bytes, true), Err(ProtocolError::Truncated));
        assert_eq!(decode(&bytes, false), Ok(vec![entry]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, true);
            let _ = decode(&bytes, false);
        }
    }
}
