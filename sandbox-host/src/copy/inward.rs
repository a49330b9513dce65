//! Copies from the host into a sandbox. Code may be able to write to the source's folders. So links
//! in the path to the source follow [`LinkRule`], and everything below is opened beneath the source
//! without following links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;
use sandbox_agent::protocol::Builtin;
use sandbox_core::{Copied, Result, SkipReason};

use super::{FOLDER, LINK, MODE, SPECIAL, join, on_host, refused, skip, split_source};
use crate::entries::{self, EntryType};
use crate::instance::{AgentInstance, Nothing};
use crate::safe_path::{LinkRule, PathError};

const OPERATION: &str = "copy into sandbox";

/// The maximum depth, which equals that of lists.
const DEPTH: usize = 64;

/// Copies `source` on the host to `target` in the sandbox.
pub(crate) async fn copy_in(
    instance: &AgentInstance,
    source: &Path,
    target: &str,
) -> Result<Copied> {
    copy_and_note(instance, source, target, None).await
}

/// As [`copy_in`]; also records the host status of each copied file, by its path in the sandbox.
pub(super) async fn copy_and_note(
    instance: &AgentInstance,
    source: &Path,
    target: &str,
    notes: Option<&mut Notes>,
) -> Result<Copied> {
    let (path, name) = split_source(source.as_os_str().as_bytes());
    let (opened, facts) = open_top(&instance.link_rule(), path)?;
    let source = Source { path, name };
    copy_opened(instance, source, (opened, facts), target, notes).await
}

/// A source path as written: see [`split_source`].
pub(super) struct Source<'a> {
    pub(super) path: &'a [u8],
    pub(super) name: Option<&'a [u8]>,
}

/// As [`copy_and_note`], for an open source.
pub(super) async fn copy_opened(
    instance: &AgentInstance,
    Source { path, name }: Source<'_>,
    (opened, facts): (OwnedFd, Stat),
    target: &str,
    notes: Option<&mut Notes>,
) -> Result<Copied> {
    let into = target.ends_with('/') || is_folder(instance, target).await?;
    let target = match name {
        Some(name) if into => join(target.as_bytes(), name),
        _ => join(target.as_bytes(), b""),
    };
    let mut copy = Copy {
        instance,
        source: path.to_vec(),
        copied: Copied::default(),
        notes,
    };
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::RegularFile if name.is_some() => {
            copy.file(opened, &facts, target).await?;
        }
        FileType::RegularFile => return Err(refused(OPERATION, path, "not a folder")),
        FileType::Directory => copy.tree(opened, &facts, target).await?,
        _ => return Err(refused(OPERATION, path, SPECIAL)),
    }
    Ok(copy.copied)
}

/// Opens the source for reading. Does not follow a link as its last component.
pub(super) fn open_top(rule: &LinkRule, source: &[u8]) -> Result<(OwnedFd, Stat)> {
    let path = Path::new(OsStr::from_bytes(source));
    let failed = |error: PathError| error.into_error(OPERATION, path);
    let system = |cause: Errno| on_host(OPERATION, source, &cause.into());
    let (folder, name) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => (Path::new("."), name),
        (Some(folder), Some(name)) => (folder, name),
        // The root folder, or a path that ends in `..`.
        _ => (path, OsStr::new(".")),
    };
    let folder = rule.open(folder).map_err(failed)?;
    // Open with O_PATH first: opening a FIFO could wait, and a device could have side effects.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = openat(&folder.object, name, flags, Mode::empty()).map_err(system)?;
    let facts = fstat(&object).map_err(system)?;
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::Symlink => Err(refused(OPERATION, source, LINK)),
        FileType::RegularFile | FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = openat(&folder.object, name, flags, Mode::empty()).map_err(system)?;
            let facts = fstat(&opened).map_err(system)?;
            Ok((opened, facts))
        }
        _ => Err(refused(OPERATION, source, SPECIAL)),
    }
}

async fn is_folder(instance: &AgentInstance, path: &str) -> Result<bool> {
    // With a slash, so that a link to a folder in the sandbox counts as a folder.
    let entry = entries::entry(instance, &format!("{}/.", path.trim_end_matches('/'))).await;
    match entry {
        Ok(entry) => Ok(entry.is_some_and(|entry| entry.entry_type == EntryType::Folder)),
        // For example a file with that name.
        Err(error) if error.kind() == sandbox_core::ErrorKind::Path => Ok(false),
        Err(error) => Err(error),
    }
}

struct Copy<'a> {
    instance: &'a AgentInstance,
    source: Vec<u8>,
    copied: Copied,
    notes: Option<&'a mut Notes>,
}

/// The copied files.
pub(super) type Notes = Vec<(Vec<u8>, Stat)>;

/// A folder being copied.
struct Level {
    folder: OwnedFd,
    names: Vec<OsString>,
    /// The path relative to the source.
    path: PathBuf,
}

impl Copy<'_> {
    async fn file(&mut self, file: OwnedFd, facts: &Stat, target: Vec<u8>) -> Result<()> {
        let noted = self.notes.is_some().then(|| target.clone());
        let put = Builtin::Put {
            path: target,
            mode: facts.st_mode & MODE,
        };
        let content = Counted::new(File::from(file));
        let bytes = content.bytes();
        let source = Box::new(content);
        self.instance
            .builtin(put, Some(source), &mut Nothing)
            .await?;
        self.copied.files += 1;
        self.copied.bytes += bytes.get();
        if let (Some(notes), Some(path)) = (&mut self.notes, noted) {
            notes.push((path, *facts));
        }
        Ok(())
    }

    async fn folder(&mut self, facts: &Stat, target: Vec<u8>) -> Result<()> {
        let make = Builtin::MakeDir {
            path: target,
            mode: facts.st_mode & MODE | FOLDER,
        };
        self.instance.builtin(make, None, &mut Nothing).await?;
        self.copied.folders += 1;
        Ok(())
    }

    async fn tree(&mut self, folder: OwnedFd, facts: &Stat, target: Vec<u8>) -> Result<()> {
        self.folder(facts, target.clone()).await?;
        let mut levels = vec![self.level(folder, PathBuf::new())?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let path = level.path.join(&name);
            let shown = join(&self.source, path.as_os_str().as_bytes());
            let (opened, facts) = match open_below(&level.folder, &name) {
                Ok(opened) => opened,
                Err(reason) => {
                    skip(&mut self.copied, &shown, reason);
                    continue;
                }
            };
            let inside = join(&target, path.as_os_str().as_bytes());
            if FileType::from_raw_mode(facts.st_mode) != FileType::Directory {
                self.file(opened, &facts, inside).await?;
            } else if levels.len() >= DEPTH {
                skip(&mut self.copied, &shown, SkipReason::LimitReached);
            } else {
                self.folder(&facts, inside).await?;
                levels.push(self.level(opened, path)?);
            }
        }
        Ok(())
    }

    fn level(&self, folder: OwnedFd, path: PathBuf) -> Result<Level> {
        let names = names(&folder).map_err(|cause| {
            let shown = join(&self.source, path.as_os_str().as_bytes());
            on_host(OPERATION, &shown, &cause)
        })?;
        Ok(Level {
            folder,
            names,
            path,
        })
    }
}

/// The names in a folder, in reverse order.
fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(names)
}

/// Opens a file or folder for reading; the error is the reason to skip it.
fn open_below(folder: &OwnedFd, name: &OsStr) -> std::result::Result<(OwnedFd, Stat), SkipReason> {
    let unreadable = |errno: rustix::io::Errno| SkipReason::Unreadable {
        detail: io::Error::from(errno).to_string(),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat2(folder, name, flags | OFlags::NOCTTY, Mode::empty(), resolve) {
        Ok(opened) => {
            let facts = fstat(&opened).map_err(unreadable)?;
            match FileType::from_raw_mode(facts.st_mode) {
                FileType::RegularFile | FileType::Directory => Ok((opened, facts)),
                _ => Err(SkipReason::SpecialFile),
            }
        }
        Err(rustix::io::Errno::LOOP) => Err(SkipReason::Symlink),
        // A socket, or a device without a driver.
        Err(rustix::io::Errno::NXIO | rustix::io::Errno::NODEV) => Err(SkipReason::SpecialFile),
        Err(rustix::io::Errno::NOENT) => Err(SkipReason::Missing),
        Err(errno) => Err(unreadable(errno)),
    }
}

use counted::Counted;

/// A file that counts the bytes read from it.
mod counted {
    use std::fs::File;
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, ReadBuf};

    pub(super) struct Counted {
        file: tokio::fs::File,
        bytes: Arc<AtomicU64>,
    }

    pub(super) struct Bytes(Arc<AtomicU64>);

    impl Bytes {
        pub(super) fn get(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Counted {
        pub(super) fn new(file: File) -> Self {
            Self {
                file: tokio::fs::File::from_std(file),
                bytes: Arc::default(),
            }
        }

        pub(super) fn bytes(&self) -> Bytes {
            Bytes(Arc::clone(&self.bytes))
        }
    }

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let before = buffer.filled().len();
            let read = Pin::new(&mut self.file).poll_read(context, buffer);
            let count = buffer.filled().len() - before;
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            read
        }
    }
}
