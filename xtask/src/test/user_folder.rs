//! A folder from which an ordinary user can run copied test binaries.
//!
//! The checkout and what was built may lie where only root may look (`/root` is 0700), so what the
//! tests need is copied: the binaries, and the workspace's files without what was built.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::cargo::Workspace;
use crate::failure::{Context, Failure, Result};

/// Where the folder may be made, in this order. Short, because tests put sockets below it, and a
/// socket's path has 107 bytes.
const PLACES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The folder, removed when dropped.
#[derive(Debug)]
pub struct UserFolder {
    /// Its path.
    pub path: PathBuf,
}

impl UserFolder {
    /// Makes a folder of root's that everybody may read, and in it `home` and `tmp` of `user`'s.
    ///
    /// # Errors
    /// When there is no place that everybody can reach.
    pub fn create(user: u32) -> Result<Self> {
        let place = env::temp_dir();
        let place = [place.as_path()]
            .into_iter()
            .chain(PLACES.map(Path::new))
            .find(|place| is_open_to_all(place))
            .ok_or_else(|| Failure::new("no temporary folder that every user may enter"))?;
        let path = place.join(format!("sandbox-user-{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .context(|| format!("cannot create {}", path.display()))?;
        let folder = Self { path };
        for name in ["home", "tmp"] {
            let own = folder.path.join(name);
            fs::DirBuilder::new()
                .mode(0o700)
                .create(&own)
                .and_then(|()| chown(&own, Some(user), Some(user)))
                .context(|| format!("cannot create {}", own.display()))?;
        }
        let doing = || format!("cannot open {}", folder.path.display());
        fs::set_permissions(&folder.path, Permissions::from_mode(0o755)).context(doing)?;
        Ok(folder)
    }

    /// Copies an executable to `below`, which is relative, and returns where it is now.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy_program(&self, from: &Path, below: &Path) -> Result<PathBuf> {
        let to = self.path.join(below);
        copy_file(from, &to)?;
        Ok(to)
    }

    /// Copies the workspace's files, without what was built and what version control keeps.
    ///
    /// # Errors
    /// When a file cannot be copied.
    pub fn copy_workspace(&self, workspace: &Workspace) -> Result<PathBuf> {
        let to = self.path.join("checkout");
        copy_folder(&workspace.root, &to, &workspace.target)?;
        Ok(to)
    }
}

impl Drop for UserFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn is_open_to_all(place: &Path) -> bool {
    place.is_absolute()
        && place.ancestors().all(|folder| {
            folder
                .metadata()
                .is_ok_and(|data| data.is_dir() && data.permissions().mode() & 1 == 1)
        })
        && rustix::fs::statvfs(place)
            .is_ok_and(|mount| !mount.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

fn copy_folder(from: &Path, to: &Path, target: &Path) -> Result<()> {
    let doing = || format!("cannot copy {}", from.display());
    create_folder(to)?;
    for entry in fs::read_dir(from).context(doing)? {
        let entry = entry.context(doing)?;
        let (path, name) = (entry.path(), entry.file_name());
        if path == target
            || [".git", "target"]
                .map(OsStr::new)
                .contains(&name.as_os_str())
        {
            continue;
        }
        let kind = entry.file_type().context(doing)?;
        if kind.is_dir() {
            copy_folder(&path, &to.join(&name), target)?;
        } else if kind.is_file() {
            copy_file(&path, &to.join(&name))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        create_folder(parent)?;
    }
    let doing = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::copy(from, to).context(doing)?;
    let executable = from.metadata().context(doing)?.permissions().mode() & 0o100 != 0;
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(to, Permissions::from_mode(mode)).context(doing)
}

/// Also what a strict umask would close to others is open.
fn create_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_folder(parent)?;
    }
    fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .context(|| format!("cannot create {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_owner_may_enter_is_not_open_to_all() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let inner = folder.path().join("inner");
        create_folder(&inner).expect("folder");
        let close = Permissions::from_mode(0o700);
        fs::set_permissions(folder.path(), close).expect("mode");
        assert!(!is_open_to_all(&inner), "its parent is 0700");
        assert!(is_open_to_all(Path::new("/")));
        assert!(!is_open_to_all(Path::new("/proc/self/exe")));
    }

    #[test]
    fn a_copy_leaves_out_what_was_built() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let from = folder.path().join("from");
        for file in ["src/lib.rs", "target/debug/x", "built/y", ".git/HEAD"] {
            let path = from.join(file);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(&path, "text").expect("file");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("mode");
        }
        let to = folder.path().join("to");
        copy_folder(&from, &to, &from.join("built")).expect("copy");
        let names: Vec<_> = fs::read_dir(&to)
            .expect("folder")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(names, ["src"]);
        let mode = to
            .join("src/lib.rs")
            .metadata()
            .expect("file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
    }
}
