//! Copies from a sandbox to the host. The sandbox controls the list and the content, so names are
//! written beneath the target only, and everything is bounded.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use async_trait::async_trait;
use sandbox_agent::protocol::Builtin;
use sandbox_core::spi::{Flow, OutputSink, OutputStream};
use sandbox_core::{ArtifactLimits, Copied, ErrorKind, Result, SkipReason};
use tokio::io::AsyncWriteExt;

use super::{FOLDER, LINK, MODE, SPECIAL, on_host, refused, skip, split_source};
use crate::entries::{self, Entry, EntryType};
use crate::instance::AgentInstance;
use crate::output_folder::OutputFolder;
use crate::safe_path::PathError;

/// The reason for a path that cannot be inspected.
const UNREADABLE: &str = "it cannot be read";

const OPERATION: &str = "copy out of sandbox";

/// Copies `source` in the sandbox to `target` on the host.
pub(crate) async fn copy_out(
    instance: &AgentInstance,
    source: &str,
    target: &Path,
    limits: ArtifactLimits,
) -> Result<Copied> {
    let (path, name) = split_source(source.as_bytes());
    let path = String::from_utf8_lossy(path).into_owned();
    let top = entries::entry(instance, &path)
        .await?
        .ok_or_else(|| refused(OPERATION, path.as_bytes(), "nothing is there"))?;
    let is_folder = match top.entry_type {
        EntryType::Folder => true,
        EntryType::File if name.is_some() => false,
        EntryType::File => return Err(refused(OPERATION, path.as_bytes(), "not a folder")),
        EntryType::Symlink => return Err(refused(OPERATION, path.as_bytes(), LINK)),
        EntryType::Other => return Err(refused(OPERATION, path.as_bytes(), SPECIAL)),
        EntryType::TooDeep | EntryType::Unreadable => {
            return Err(refused(OPERATION, path.as_bytes(), UNREADABLE));
        }
    };
    let place = CopyTarget::of(target, name, is_folder, &|path| {
        instance.output_folder(path)
    })?;
    let mut copy = OutwardCopy {
        instance,
        output: place.output,
        limits,
        copied: Copied::default(),
    };
    if !is_folder {
        copy.file(&top, &place.name, true).await?;
        return Ok(copy.copied);
    }
    let (entries, whole) = entries::list(instance, &path, entries::DEPTH).await?;
    for entry in &entries {
        let below = below(&entry.path, path.as_bytes());
        copy.entry(entry, &place.name, below).await?;
    }
    if !whole {
        skip(&mut copy.copied, path.as_bytes(), SkipReason::LimitReached);
    }
    Ok(copy.copied)
}

/// An entry's path relative to the copied folder; `None` if it is not below it.
pub(super) fn below<'a>(entry: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    if entry == folder {
        return Some(b"");
    }
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    entry.strip_prefix(folder)?.strip_prefix(b"/")
}

/// The target of a copy: a folder of the host, and the name in it. An empty name is the folder
/// itself.
struct CopyTarget {
    output: OutputFolder,
    name: Vec<u8>,
}

impl CopyTarget {
    fn of(
        target: &Path,
        name: Option<&[u8]>,
        is_folder: bool,
        open: &dyn Fn(&Path) -> Result<OutputFolder, PathError>,
    ) -> Result<Self> {
        let shown = target.as_os_str().as_bytes();
        let failed = |error: PathError| error.into_error(OPERATION, target);
        let into = shown.ends_with(b"/") || target.is_dir();
        if into || (is_folder && name.is_none()) {
            return Ok(Self {
                output: open(target).map_err(failed)?,
                name: name.unwrap_or_default().to_vec(),
            });
        }
        let name = target
            .file_name()
            .ok_or_else(|| refused(OPERATION, shown, "no name for a copy"))?;
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self {
            output: open(parent).map_err(failed)?,
            name: name.as_bytes().to_vec(),
        })
    }
}

pub(super) struct OutwardCopy<'a> {
    pub(super) instance: &'a AgentInstance,
    pub(super) output: OutputFolder,
    pub(super) limits: ArtifactLimits,
    pub(super) copied: Copied,
}

impl OutwardCopy<'_> {
    async fn entry(&mut self, entry: &Entry, top: &[u8], below: Option<&[u8]>) -> Result<()> {
        let Some(below) = below else {
            skip(&mut self.copied, &entry.path, SkipReason::BadName);
            return Ok(());
        };
        let name = match (top.is_empty(), below.is_empty()) {
            (_, true) => top.to_vec(),
            (true, false) => below.to_vec(),
            (false, false) => [top, b"/", below].concat(),
        };
        if name.is_empty() {
            // The target folder exists already.
            self.copied.folders += 1;
            return Ok(());
        }
        if !OutputFolder::is_good_name(&name) {
            skip(&mut self.copied, &entry.path, SkipReason::BadName);
            return Ok(());
        }
        let count = self.copied.files + self.copied.folders;
        if count >= self.limits.count as u64 {
            skip(&mut self.copied, &entry.path, SkipReason::LimitReached);
            return Ok(());
        }
        if let Some(reason) = entry.skipped() {
            skip(&mut self.copied, &entry.path, reason);
        } else if entry.entry_type == EntryType::Folder {
            let made = self.output.make_folder(&name, entry.mode & MODE | FOLDER);
            made.map_err(|cause| on_host(OPERATION, &name, &cause))?;
            self.copied.folders += 1;
        } else {
            self.file(entry, &name, false).await?;
        }
        Ok(())
    }

    /// Copies a file. An unreadable file is skipped, unless it is the only one to copy (`alone`).
    pub(super) async fn file(&mut self, entry: &Entry, name: &[u8], alone: bool) -> Result<()> {
        let left = self.limits.total_size.as_u64() - self.copied.bytes;
        let limit = self.limits.file_size.as_u64().min(left);
        if entry.size > limit {
            return self.too_large(entry, entry.size, left);
        }
        let failed = |cause: &std::io::Error| on_host(OPERATION, name, cause);
        let new = self
            .output
            .replace(name, entry.mode & MODE)
            .map_err(|cause| failed(&cause))?;
        let file = new.file.try_clone().map_err(|cause| failed(&cause))?;
        let mut content = FileWriter {
            file: tokio::fs::File::from_std(file),
            limit,
            bytes: 0,
            error: None,
        };
        let get = Builtin::Get {
            path: entry.path.clone(),
        };
        match self.instance.builtin(get, None, &mut content).await {
            Err(error) if error.kind() == ErrorKind::Path && !alone => {
                let detail = error.context().to_owned();
                skip(
                    &mut self.copied,
                    &entry.path,
                    SkipReason::Unreadable { detail },
                );
                return Ok(());
            }
            copied => copied?,
        }
        let bytes = content.finish().await.map_err(|cause| failed(&cause))?;
        if bytes > limit {
            return self.too_large(entry, bytes, left);
        }
        new.finish().map_err(|cause| failed(&cause))?;
        self.copied.files += 1;
        self.copied.bytes += bytes;
        Ok(())
    }

    fn too_large(&mut self, entry: &Entry, size_bytes: u64, left: u64) -> Result<()> {
        let reason = if size_bytes > left && left < self.limits.file_size.as_u64() {
            SkipReason::LimitReached
        } else {
            SkipReason::TooLarge { size_bytes }
        };
        skip(&mut self.copied, &entry.path, reason);
        Ok(())
    }
}

struct FileWriter {
    file: tokio::fs::File,
    limit: u64,
    bytes: u64,
    error: Option<std::io::Error>,
}

impl FileWriter {
    /// Returns the number of bytes received: at most one more than the limit.
    async fn finish(mut self) -> std::io::Result<u64> {
        self.file.flush().await?;
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.bytes),
        }
    }
}

#[async_trait]
impl OutputSink for FileWriter {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limit {
            return Flow::Stop;
        }
        match self.file.write_all(bytes).await {
            Ok(()) => Flow::Continue,
            Err(error) => {
                self.error = Some(error);
                Flow::Stop
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_below_the_folder_are_copied() {
        assert_eq!(below(b"/a/b", b"/a"), Some(&b"b"[..]));
        assert_eq!(below(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(below(b"/ab", b"/a"), None);
        assert_eq!(below(b"/a", b"/"), Some(&b"a"[..]));
        assert_eq!(below(b"/etc/passwd", b"/a"), None);
    }

    #[test]
    fn target_is_a_folder_or_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let place = |target: &str, name: Option<&[u8]>, is_folder| {
            let open = |path: &Path| OutputFolder::open(path, &[], false);
            let place =
                CopyTarget::of(&folder.path().join(target), name, is_folder, &open).unwrap();
            String::from_utf8(place.name).unwrap()
        };
        assert_eq!(place("", Some(b"x"), false), "x");
        assert_eq!(place("new", Some(b"x"), false), "new");
        assert_eq!(place("made/", Some(b"x"), false), "x");
        assert_eq!(place("deep/er/name", Some(b"x"), true), "name");
        assert_eq!(place("inside", None, true), "");
        assert!(folder.path().join("inside").is_dir());
        assert!(folder.path().join("deep/er").is_dir());
    }
}
