//! A workspace that the sandbox works on as a copy: copied in once, then changes are copied back.
//!
//! Both sides are recorded whenever they are equal. Files that code did not change are not copied
//! back, so changes on the host stay. A file changed on both sides is a conflict, and the host's
//! version stays. Files that code removed stay on the host, since untrusted code must not remove
//! anything there.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use sandbox_core::spi::MAX_LISTED;
use sandbox_core::{
    ArtifactLimits, ByteSize, Conflict, Copied, Error, HostChange, Result, SkipReason,
    SkippedArtifact, Synced, Workspace, WorkspaceCopies,
};

use super::inward::{CopiedFiles, CopySource, copy_opened, open_top};
use super::outward::{OutwardCopy, below};
use super::{FOLDER, MODE, on_host};
use crate::WORK_FOLDER;
use crate::entries::{self, Entry, EntryType};
use crate::instance::AgentInstance;
use crate::lock;
use crate::output_folder::OutputFolder;

const OPERATION: &str = "copy workspace";

/// The most files and folders that are copied back, which is the length of a list.
const MAX_FILES: usize = 100_000;

/// Errors for a host path that contains a link, a file, or another user's folder.
const BLOCKED_PATH: [Option<Errno>; 3] =
    [Some(Errno::NOTDIR), Some(Errno::LOOP), Some(Errno::ACCESS)];

/// A workspace that the sandbox works on as a copy.
#[derive(Debug)]
pub(crate) struct WorkspaceCopy {
    path: PathBuf,
    folder: OwnedFd,
    read_only: bool,
    limits: ArtifactLimits,
    brought: Copied,
    state: Mutex<WorkspaceState>,
    /// Allows one sync at a time.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct WorkspaceState {
    /// By path relative to the workspace.
    files: HashMap<Vec<u8>, SyncedFile>,
    synced: Option<Synced>,
    over: bool,
}

/// A file's state on both sides after the last copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SyncedFile {
    host: HostStamp,
    inside: SandboxStamp,
}

/// The status fields of a host file that change if its content may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HostStamp {
    inode: (u64, u64),
    size: i64,
    /// Modification and change times, in seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl HostStamp {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        reason = "the types differ between architectures; the numbers are only compared with each other"
    )]
    fn of(facts: &Stat) -> Self {
        Self {
            inode: (facts.st_dev as u64, facts.st_ino as u64),
            size: facts.st_size as i64,
            modified: (facts.st_mtime as i64, facts.st_mtime_nsec as i64),
            changed: (facts.st_ctime as i64, facts.st_ctime_nsec as i64),
        }
    }
}

/// The same for a file in the sandbox, as reported by the agent. A false report only prevents the
/// file from being copied back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SandboxStamp {
    size: u64,
    modified: u64,
    mode: u32,
}

impl SandboxStamp {
    fn of(entry: &Entry) -> Self {
        Self {
            size: entry.size,
            modified: entry.modified,
            mode: entry.mode & MODE,
        }
    }
}

impl WorkspaceCopy {
    /// Copies the workspace into the sandbox.
    pub(crate) async fn bring(
        instance: &AgentInstance,
        workspace: &Workspace,
        size: ByteSize,
    ) -> Result<Self> {
        let mut notes = CopiedFiles::new();
        let path = workspace.path.as_os_str().as_encoded_bytes();
        let (opened, facts) = open_top(&instance.link_rule(), path)?;
        // Later changes go to this folder, even if its path is replaced.
        let folder = opened
            .try_clone()
            .map_err(|cause| on_host(OPERATION, path, &cause))?;
        // Its contents, not the folder itself.
        let source = CopySource { path, name: None };
        let brought = copy_opened(
            instance,
            source,
            (opened, facts),
            WORK_FOLDER,
            Some(&mut notes),
        );
        let brought = brought.await;
        let brought = brought.map_err(explain)?;
        let mut state = WorkspaceState::default();
        if !workspace.read_only {
            let (entries, _) = entries::list(instance, WORK_FOLDER, entries::DEPTH).await?;
            let inside: HashMap<&[u8], SandboxStamp> = entries
                .iter()
                .map(|entry| (&*entry.path, SandboxStamp::of(entry)))
                .collect();
            for (path, facts) in &notes {
                let name = below(path, WORK_FOLDER.as_bytes());
                if let (Some(name), Some(inside)) = (name, inside.get(&**path)) {
                    let host = HostStamp::of(facts);
                    let known = SyncedFile {
                        host,
                        inside: *inside,
                    };
                    state.files.insert(name.to_vec(), known);
                }
            }
        }
        for skipped in brought.skipped.iter().take(MAX_LISTED) {
            tracing::warn!(source = %sandbox_core::spi::escape(&skipped.source), reason = ?skipped.reason, "not in the sandbox's copy of the workspace");
        }
        Ok(Self {
            path: workspace.path.clone(),
            folder,
            read_only: workspace.read_only,
            limits: ArtifactLimits {
                count: MAX_FILES,
                file_size: size,
                total_size: size,
            },
            brought,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, WorkspaceState> {
        lock(&self.state)
    }

    /// Whether this client has ended the sandbox.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Records the end of the sandbox: nothing can be copied back any more.
    pub(crate) fn end(&self) {
        self.lock().over = true;
    }

    pub(crate) fn report(&self) -> WorkspaceCopies {
        let mut report = WorkspaceCopies::default();
        report.brought = self.brought.clone();
        report.synced = self.lock().synced.clone();
        report
    }

    /// Copies changed files back to the host.
    pub(crate) async fn sync(&self, instance: &AgentInstance) -> Result<Synced> {
        let _turn = self.turn.lock().await;
        if self.read_only {
            let synced = Synced::default();
            self.lock().synced = Some(synced.clone());
            return Ok(synced);
        }
        let (entries, whole) = entries::list(instance, WORK_FOLDER, entries::DEPTH).await?;
        let folder = self.folder.try_clone().map_err(|cause| {
            let shown = self.path.as_os_str().as_encoded_bytes();
            on_host(OPERATION, shown, &cause)
        })?;
        let output = OutputFolder::of(self.path.clone(), folder);
        let mut sync = WorkspaceSync {
            copy: OutwardCopy {
                instance,
                output,
                limits: self.limits,
                copied: Copied::default(),
            },
            workspace: self,
            synced: Synced::default(),
            seen: HashSet::new(),
            unnamed: 0,
        };
        for entry in &entries {
            sync.entry(entry).await?;
        }
        if !whole {
            sync.skip(WORK_FOLDER.as_bytes(), SkipReason::LimitReached);
        }
        let synced = sync.finish(whole);
        let named = |text: &dyn std::fmt::Display| tracing::warn!("the workspace: {text}");
        for skipped in &synced.copied.skipped {
            named(&format_args!(
                "{} stays in the sandbox: {:?}",
                sandbox_core::spi::escape(&skipped.source),
                skipped.reason
            ));
        }
        for conflict in &synced.conflicts {
            named(&format_args!("{conflict}; the host's stays"));
        }
        self.lock().synced = Some(synced.clone());
        Ok(synced)
    }

    fn known(&self, name: &[u8]) -> Option<SyncedFile> {
        self.lock().files.get(name).copied()
    }
}

/// Adds a fix to the error for a workspace that does not fit.
fn explain(error: Error) -> Error {
    if error.os_error() == Some(Errno::NOSPC.raw_os_error()) {
        return error.with_fix(
            "the sandbox has a copy of the workspace within its disk: ask for more `disk`, or name a smaller folder",
        );
    }
    error
}

struct WorkspaceSync<'a> {
    copy: OutwardCopy<'a>,
    workspace: &'a WorkspaceCopy,
    synced: Synced,
    /// Files that exist in the sandbox.
    seen: HashSet<Vec<u8>>,
    /// Skipped files that are not named.
    unnamed: u64,
}

impl WorkspaceSync<'_> {
    fn skip(&mut self, path: &[u8], reason: SkipReason) {
        let skipped = &mut self.copy.copied.skipped;
        if skipped.len() >= MAX_LISTED {
            self.unnamed += 1;
            return;
        }
        skipped.push(SkippedArtifact {
            source: String::from_utf8_lossy(path).into_owned(),
            reason,
        });
    }

    async fn entry(&mut self, entry: &Entry) -> Result<()> {
        let name = match below(&entry.path, WORK_FOLDER.as_bytes()) {
            Some(b"") => return Ok(()),
            Some(name) if OutputFolder::is_good_name(name) => name,
            _ => {
                self.skip(&entry.path, SkipReason::BadName);
                return Ok(());
            }
        };
        if let Some(reason) = entry.skipped() {
            self.skip(&entry.path, reason);
            return Ok(());
        }
        if entry.entry_type == EntryType::File {
            self.seen.insert(name.to_vec());
        }
        let known = self.workspace.known(name);
        if entry.entry_type == EntryType::File
            && known.is_some_and(|known| known.inside == SandboxStamp::of(entry))
        {
            self.synced.unchanged += 1;
            return Ok(());
        }
        let found = match self.copy.output.look(name) {
            Ok(found) => found,
            // A parent is not a folder, or not accessible.
            Err(cause) if BLOCKED_PATH.contains(&Errno::from_io_error(&cause)) => {
                self.skip(&entry.path, SkipReason::NameTaken);
                return Ok(());
            }
            Err(cause) => return Err(on_host(OPERATION, name, &cause)),
        };
        let file_type = found.map(|found| FileType::from_raw_mode(found.st_mode));
        if entry.entry_type == EntryType::Folder {
            return self.folder(entry, name, file_type);
        }
        if file_type.is_some_and(|file_type| file_type != FileType::RegularFile) {
            self.skip(&entry.path, SkipReason::NameTaken);
            return Ok(());
        }
        let host = match (known, found) {
            (None, None) => None,
            (Some(known), Some(found)) if known.host == HostStamp::of(&found) => None,
            (Some(_), Some(_)) => Some(HostChange::Changed),
            (Some(_), None) => Some(HostChange::Removed),
            (None, Some(_)) => Some(HostChange::Appeared),
        };
        match host {
            Some(change) => self.conflict(name, change),
            None => self.file(entry, name).await?,
        }
        Ok(())
    }

    fn conflict(&mut self, name: &[u8], change: HostChange) {
        if self.synced.conflicts.len() >= MAX_LISTED {
            self.synced.more_conflicts += 1;
            return;
        }
        let path = String::from_utf8_lossy(name).into_owned();
        self.synced.conflicts.push(Conflict::new(path, change));
    }

    fn folder(&mut self, entry: &Entry, name: &[u8], found: Option<FileType>) -> Result<()> {
        match found {
            Some(FileType::Directory) => {}
            Some(_) => self.skip(&entry.path, SkipReason::NameTaken),
            None => {
                let mode = entry.mode & MODE | FOLDER;
                let made = self.copy.output.make_folder(name, mode);
                made.map_err(|cause| on_host(OPERATION, name, &cause))?;
                self.copy.copied.folders += 1;
            }
        }
        Ok(())
    }

    async fn file(&mut self, entry: &Entry, name: &[u8]) -> Result<()> {
        let before = self.copy.copied.files;
        self.copy.file(entry, name, false).await?;
        if self.copy.copied.files == before {
            return Ok(());
        }
        let written = self.copy.output.look(name);
        let written = written.map_err(|cause| on_host(OPERATION, name, &cause))?;
        if let Some(written) = written {
            let known = SyncedFile {
                host: HostStamp::of(&written),
                inside: SandboxStamp::of(entry),
            };
            let mut state = self.workspace.lock();
            state.files.insert(name.to_vec(), known);
        }
        Ok(())
    }

    fn finish(mut self, whole: bool) -> Synced {
        let mut synced = self.synced;
        // Nothing is known about files that a truncated list omits.
        if whole {
            let state = self.workspace.lock();
            let removed = state.files.keys().filter(|name| !self.seen.contains(*name));
            let mut removed: Vec<String> = removed
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect();
            removed.sort_unstable();
            synced.more_removed = removed.len().saturating_sub(MAX_LISTED) as u64;
            removed.truncate(MAX_LISTED);
            synced.removed = removed;
        }
        if self.unnamed > 0 {
            let count = self.unnamed;
            self.copy.copied.skipped.push(SkippedArtifact {
                source: WORK_FOLDER.to_owned(),
                reason: SkipReason::AndMore { count },
            });
        }
        synced.copied = self.copy.copied;
        synced
    }
}
