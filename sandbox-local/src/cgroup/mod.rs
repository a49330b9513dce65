//! The control groups of a sandbox.

mod leftovers;
mod v1;
mod v2;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use sandbox_core::SandboxStats;
use sandbox_host::{cgroup_stats, lock};

use crate::host::Cgroups;
use crate::spawn::ScopeHelper;
use crate::systemd::Scope;

pub(crate) use leftovers::remove_leftovers;

/// Processes besides the code's: the agent and the supervisors of concurrent executions. A group's
/// process limit is the plan's limit plus these.
pub(crate) const AGENT_PROCESSES: u64 = 8;

/// Limits of a sandbox. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of memory, including swap.
    pub(crate) memory: Option<u64>,
    /// Thousandths of a processor.
    pub(crate) cpu_milli: Option<u32>,
    /// Processes and threads.
    pub(crate) pids: Option<u64>,
    /// Whether to create a group even without limits, so that every process can be found.
    pub(crate) track: bool,
}

/// A group to create, and the values to write to its files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupFolder {
    folder: PathBuf,
    settings: Vec<GroupSetting>,
    /// The file with the counter of memory kills, if memory is limited.
    counter: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupSetting {
    file: &'static str,
    value: String,
    /// Whether the kernel may lack the file.
    optional: bool,
}

/// A sandbox's groups: one folder on v2, up to one per controller on v1. Dropping it tries once to
/// remove them; [`Group::remove`] reports whether that works.
#[derive(Debug)]
pub(crate) struct Group {
    folders: Vec<GroupFolder>,
    /// See [`crate::host::cgroup::V1::markers`].
    markers: Vec<(PathBuf, &'static str)>,
    /// v1: a process enters by writing itself to these files.
    join_files: Vec<CString>,
    /// v2: a process is cloned into this folder.
    folder: OnceLock<OwnedFd>,
    /// The systemd scope that contains the groups.
    scope: Option<Arc<Scope>>,
    kill_counter: OnceLock<File>,
    owned: Mutex<Vec<PathBuf>>,
}

impl Group {
    /// Plans the groups. `None` if the host has no groups or nothing is limited. Does no I/O.
    pub(crate) fn plan(cgroups: &Cgroups, limits: &Limits) -> Option<Self> {
        let folders = match cgroups {
            Cgroups::V1(groups) => v1::plan(groups, limits),
            Cgroups::V2(groups) => v2::plan(groups, limits),
            Cgroups::None { .. } => Vec::new(),
        };
        if folders.is_empty() {
            return None;
        }
        let join_files = match cgroups {
            // A thread that moves itself through `tasks` avoids the kernel's global fork lock,
            // which costs milliseconds.
            Cgroups::V1(_) => folders
                .iter()
                .map(|part| tasks_file(&part.folder))
                .collect(),
            _ => Vec::new(),
        };
        let markers = match cgroups {
            Cgroups::V1(groups) => groups.markers.clone(),
            _ => Vec::new(),
        };
        Some(Self {
            folders,
            markers,
            join_files,
            folder: OnceLock::new(),
            scope: cgroups.scope().cloned(),
            kill_counter: OnceLock::new(),
            owned: Mutex::default(),
        })
    }

    /// Creates the groups.
    pub(crate) fn create(&self) -> io::Result<()> {
        for part in &self.folders {
            with_path(&part.folder, std::fs::create_dir(&part.folder))?;
            self.owned().push(part.folder.clone());
            for GroupSetting {
                file,
                value,
                optional,
            } in &part.settings
            {
                match write(&part.folder, file, value) {
                    Err(cause) if *optional && cause.kind() == io::ErrorKind::NotFound => {}
                    written => written?,
                }
            }
            if let Some(counter) = part.counter {
                let path = part.folder.join(counter);
                let opened = with_path(&path, File::open(&path))?;
                drop(self.kill_counter.set(opened));
            }
            if self.join_files.is_empty() {
                let opened = with_path(&part.folder, File::open(&part.folder))?;
                drop(self.folder.set(opened.into()));
            }
        }
        Ok(())
    }

    /// v1: the files to which a new process writes `0` to move itself into the groups, once they
    /// exist.
    pub(crate) fn join_files(&self) -> &[CString] {
        &self.join_files
    }

    /// v2: the folder that a new process is cloned into.
    pub(crate) fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.folder.get().map(AsFd::as_fd)
    }

    /// The process that must clone processes of the group, if this process may not.
    pub(crate) fn helper(&self) -> Option<&ScopeHelper> {
        self.scope.as_ref().map(|scope| scope.helper())
    }

    /// How many processes of the group the kernel has killed for memory. `None` if memory is not
    /// limited.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        sandbox_host::memory_kills(self.kill_counter.get()?)
    }

    /// The group with the process limit.
    pub(crate) fn process_limit(&self) -> Option<PathBuf> {
        let limits = |part: &&GroupFolder| {
            part.settings
                .iter()
                .any(|setting| setting.file == "pids.max")
        };
        Some(self.folders.iter().find(limits)?.folder.clone())
    }

    /// The ids of all processes in the groups.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let lists = self
            .folders
            .iter()
            .map(|part| part.folder.join("cgroup.procs"));
        let lists = lists
            .filter_map(|list| std::fs::read_to_string(list).ok())
            .collect::<String>();
        let mut pids = lists
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect::<Vec<_>>();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Kills every process of the group at once. False if the kernel cannot (v1, or before Linux
    /// 5.14).
    pub(crate) fn kill(&self) -> bool {
        self.join_files.is_empty()
            && self
                .folders
                .iter()
                .all(|part| write(&part.folder, "cgroup.kill", "1").is_ok())
    }

    /// Removes the groups. A process that has just ended can keep a group busy, so this retries for
    /// up to half a second.
    pub(crate) fn remove(&self) -> io::Result<()> {
        const ATTEMPTS: usize = 10;
        let mut pause = Duration::from_micros(200);
        for _ in 1..ATTEMPTS {
            if self.try_remove().is_ok() {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        self.try_remove()
    }

    /// Removes the groups unless a process keeps them busy.
    pub(crate) fn try_remove(&self) -> io::Result<()> {
        let mut result = Ok(());
        self.owned()
            .retain(|folder| match std::fs::remove_dir(folder) {
                Ok(()) => false,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => false,
                failed => {
                    result = with_path(folder, failed);
                    true
                }
            });
        result
    }

    /// Existing groups, created by another process. `counter` is the file with the counter of
    /// memory kills.
    pub(crate) fn existing(folders: &[PathBuf], counter: Option<&Path>) -> Self {
        let part = |folder: &PathBuf| GroupFolder {
            folder: folder.clone(),
            settings: Vec::new(),
            counter: None,
        };
        let group = Self {
            folders: folders.iter().map(part).collect(),
            markers: Vec::new(),
            join_files: folders.iter().map(|folder| tasks_file(folder)).collect(),
            folder: OnceLock::new(),
            scope: None,
            kill_counter: OnceLock::new(),
            owned: Mutex::default(),
        };
        if let Some(file) = counter.and_then(|counter| File::open(counter).ok()) {
            drop(group.kill_counter.set(file));
        }
        group
    }

    /// The folders of the groups.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.folders
            .iter()
            .map(|part| part.folder.clone())
            .collect()
    }

    /// What runtimes look for below `/sys/fs/cgroup`, and its name there: one folder without a name
    /// on v2; on v1, one for each limited controller, and the markers of the others.
    pub(crate) fn visible(&self) -> Vec<(&Path, &'static str)> {
        let mut visible = Vec::new();
        for GroupFolder {
            folder, settings, ..
        } in &self.folders
        {
            if self.join_files.is_empty() {
                visible.push((folder.as_path(), ""));
                continue;
            }
            let files = settings.iter().map(|setting| setting.file);
            let controllers = files.filter_map(|file| Some(file.split_once('.')?.0));
            for controller in controllers {
                if !visible.contains(&(folder, controller)) {
                    visible.push((folder, controller));
                }
            }
        }
        let markers = self.markers.iter();
        visible.extend(markers.map(|(file, name)| (file.as_path(), *name)));
        visible
    }

    /// What all processes of the groups have used.
    pub(crate) fn stats(&self) -> SandboxStats {
        cgroup_stats(self.folders.iter().map(|part| part.folder.as_path()))
    }

    /// The file with the counter of memory kills.
    pub(crate) fn counter(&self) -> Option<PathBuf> {
        self.folders
            .iter()
            .find_map(|part| Some(part.folder.join(part.counter?)))
    }

    /// Leaves the removal of the groups to another process.
    pub(crate) fn release(&self) {
        self.owned().clear();
    }

    /// Makes this value responsible for removing the groups.
    pub(crate) fn take_ownership(&self) {
        *self.owned() = self.folders();
    }

    fn owned(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        lock(&self.owned)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(cause) = self.try_remove() {
            tracing::debug!(%cause, "a control group is left for the next sandbox to remove");
        }
    }
}

fn tasks_file(folder: &Path) -> CString {
    let path = folder.join("tasks").into_os_string().into_vec();
    CString::new(path).expect("the kernel's mount points and our names have no NUL")
}

fn write(folder: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = folder.join(file);
    with_path(&path, std::fs::write(&path, value))
}

/// A failed operation on a file or folder of a group.
#[derive(Debug)]
struct PathError {
    path: PathBuf,
    cause: io::Error,
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

impl std::error::Error for PathError {}

fn with_path<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|cause| {
        let path = path.to_owned();
        io::Error::new(cause.kind(), PathError { path, cause })
    })
}

/// Whether the group was removed while its files were being written.
pub(crate) fn was_removed(error: &io::Error) -> bool {
    const ENOENT: i32 = 2;
    const ENODEV: i32 = 19;
    let path_error = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<PathError>());
    let code = match path_error {
        Some(path_error) => path_error.cause.raw_os_error(),
        None => error.raw_os_error(),
    };
    matches!(code, Some(ENOENT | ENODEV))
}

fn group_setting(file: &'static str, value: impl ToString) -> GroupSetting {
    GroupSetting {
        file,
        value: value.to_string(),
        optional: false,
    }
}
