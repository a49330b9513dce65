//! Host folders and files at paths that the caller chooses.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::StorageMount;

/// The most mounts of a specification, with its storage.
pub const MAX_MOUNTS: usize = 64;

/// Where the workspace is.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Folders that every sandbox provides itself. Nothing is mounted on or below them.
const OWN_FOLDERS: [&str; 7] = [
    "/.sandbox-agent",
    "/dev",
    "/packages",
    "/proc",
    "/run",
    "/sys",
    WORKSPACE,
];

/// Files that every sandbox or engine writes itself.
const OWN_FILES: [&str; 5] = [
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/passwd",
    "/etc/resolv.conf",
];

/// Folders with the programs and libraries that run in the sandbox, and its temporary files.
/// Nothing replaces them as a whole.
const SYSTEM_FOLDERS: [&str; 12] = [
    "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/tmp", "/usr",
    "/usr/bin", "/usr/lib",
];

/// A folder or file of the host at a path of the sandbox.
///
/// ```
/// use sandbox_core::{HostMount, SandboxSpec};
///
/// let spec = SandboxSpec::new("grader")
///     .mount(HostMount::read_only("/srv/tests", "/tests"))
///     .mount(HostMount::read_write("/srv/results", "/results"));
/// spec.validate()?;
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HostMount {
    /// The absolute path on the host.
    pub source: PathBuf,
    /// The absolute path in the sandbox.
    pub target: PathBuf,
    /// Whether the code may only read it.
    pub read_only: bool,
}

impl HostMount {
    /// A mount that the code may read and write.
    pub fn read_write(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self {
            source: source.as_ref().to_owned(),
            target: target.as_ref().to_owned(),
            read_only: false,
        }
    }

    /// A mount that the code may only read.
    pub fn read_only(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self {
            read_only: true,
            ..Self::read_write(source, target)
        }
    }
}

/// Displays as `SOURCE at TARGET`, with `(read-only)` where it is.
impl std::fmt::Display for HostMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (source, target) = (self.source.display(), self.target.display());
        let access = if self.read_only { " (read-only)" } else { "" };
        write!(f, "{source} at {target}{access}")
    }
}

/// A path of the host that a policy lets specifications mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MountSource {
    /// The absolute path. What is below it may be mounted as well.
    pub path: PathBuf,
    /// Whether it may only be mounted read-only.
    #[serde(default)]
    pub read_only: bool,
}

impl MountSource {
    /// A path that may be mounted writable.
    pub fn read_write(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            read_only: false,
        }
    }

    /// A path that may only be mounted read-only.
    pub fn read_only(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            read_only: true,
        }
    }
}

/// Checks the mounts and the storage of a specification, without a look at the host.
pub(crate) fn check(mounts: &[HostMount], storage: &[StorageMount]) -> Result<(), String> {
    let count = mounts.len() + storage.len();
    if count > MAX_MOUNTS {
        return Err(format!(
            "mounts: {count} are more than the maximum of {MAX_MOUNTS}"
        ));
    }
    for mount in mounts {
        if !is_plain(&mount.source) {
            return Err(format!(
                "mount {mount}: the source must be an absolute path of the host without '..' and NUL"
            ));
        }
        check_target(&mount.target)?;
    }
    for StorageMount { name, target, .. } in storage {
        crate::storage::check_name(name)?;
        if target != Path::new(WORKSPACE) {
            check_target(target)?;
        }
    }
    let targets = mounts.iter().map(|mount| &mount.target);
    let targets = targets.chain(storage.iter().map(|mount| &mount.target));
    let targets = targets.collect::<Vec<_>>();
    for (number, target) in targets.iter().enumerate() {
        let others = targets.iter().take(number).copied();
        check_overlap(target, others, "another mount")?;
    }
    Ok(())
}

/// Refuses a target that is, contains or lies in one of the other paths of the sandbox.
pub(crate) fn check_overlap<'a>(
    target: &Path,
    mut others: impl Iterator<Item = &'a PathBuf>,
    what: &str,
) -> Result<(), String> {
    match others.find(|other| target.starts_with(other) || other.starts_with(target)) {
        None => Ok(()),
        Some(other) if other == target => Err(format!(
            "mount target {}: {what} has the same target",
            target.display()
        )),
        Some(other) => Err(format!(
            "mount target {}: it overlaps {what} at {}",
            target.display(),
            other.display()
        )),
    }
}

fn check_target(target: &Path) -> Result<(), String> {
    let shown = target.display();
    // `Path` compares `/a//b` and `/a/./b/` as equal to `/a/b`; engines do not.
    let plain = target.components().collect::<PathBuf>();
    if !is_plain(target) || plain.as_os_str() != target.as_os_str() {
        return Err(format!(
            "mount target {target:?}: use an absolute path in the sandbox without '.', '..', '//', NUL and a final '/'"
        ));
    }
    if target == Path::new("/") {
        return Err("mount target /: a sandbox has a root of its own".into());
    }
    let in_own = OWN_FOLDERS.iter().find(|own| target.starts_with(own));
    if in_own == Some(&WORKSPACE) {
        return Err(format!(
            "mount target {shown}: a sandbox has a /workspace of its own; set the workspace, or use another path"
        ));
    }
    if let Some(own) = in_own {
        return Err(format!(
            "mount target {shown}: a sandbox has a {own} of its own"
        ));
    }
    if SYSTEM_FOLDERS
        .iter()
        .any(|system| target == Path::new(system))
    {
        return Err(format!(
            "mount target {shown}: programs in the sandbox need this folder"
        ));
    }
    // `/var/run` is a link to `/run` on most systems.
    let is_own = OWN_FILES.iter().any(|own| target == Path::new(own));
    if is_own || target.starts_with("/var/run") {
        return Err(format!(
            "mount target {shown}: every sandbox has one of its own"
        ));
    }
    Ok(())
}

pub(crate) fn is_plain(path: &Path) -> bool {
    let nul = |path: &OsStr| path.as_encoded_bytes().contains(&0);
    path.is_absolute()
        && !nul(path.as_os_str())
        && path.components().all(|part| part != Component::ParentDir)
}
