//! Host paths in options, and their paths in the sandbox.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use sandbox::{CapabilityPolicy, Workspace};

use crate::command_error::CommandError;

/// An existing path of the host, absolute and without `..`.
pub fn existing(option: &str, path: &Path) -> Result<PathBuf, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::io(format!("{option} {}", path.display()), &error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    if absolute
        .components()
        .any(|part| part == Component::ParentDir)
    {
        let real = absolute.canonicalize().map_err(failed)?;
        // Links stay in the path, for the tier to check. After a link, only the kernel can resolve
        // `..`.
        let plain = without_parents(&absolute);
        if plain.canonicalize().ok().as_ref() == Some(&real) {
            return Ok(plain);
        }
        return Err(CommandError::argument(format!(
            "{option} {}: .. comes after a link; name {} instead",
            path.display(),
            real.display()
        )));
    }
    absolute.metadata().map_err(failed)?;
    Ok(absolute)
}

/// Removes each `..` and the component before it.
fn without_parents(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Existing paths of the host.
pub fn roots(option: &str, paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    paths.iter().map(|path| existing(option, path)).collect()
}

/// An existing folder of the host.
pub fn folder(option: &str, path: &Path) -> Result<PathBuf, CommandError> {
    let path = existing(option, path)?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(CommandError::argument(format!(
        "{option} {}: not a folder",
        path.display()
    )))
}

/// A workspace's folder, and whether it is read-only: `DIR`, `DIR:rw` or `DIR:ro`.
pub fn workspace(text: &OsStr) -> (PathBuf, bool) {
    let bytes = text.as_bytes();
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    if let Some(folder) = bytes.strip_suffix(b":ro") {
        return (path(folder), true);
    }
    (path(bytes.strip_suffix(b":rw").unwrap_or(bytes)), false)
}

/// The host paths that a sandbox sees, and their paths in the sandbox.
#[derive(Debug, Default)]
pub struct PathMap {
    workspace: Option<PathBuf>,
    /// The path of the workspace for the code: relative if the code starts there.
    start: PathBuf,
    roots: Vec<PathBuf>,
}

impl PathMap {
    /// The host paths that this policy and this workspace show. With `--workdir`, the path of the
    /// workspace is absolute.
    pub fn new(
        policy: &CapabilityPolicy,
        workspace: Option<&Workspace>,
        starts_elsewhere: bool,
    ) -> Self {
        let roots = policy
            .filesystem_read_roots
            .iter()
            .chain(&policy.filesystem_write_roots)
            .flatten();
        Self {
            workspace: workspace.map(|workspace| workspace.path.clone()),
            start: PathBuf::from(if starts_elsewhere { "/workspace" } else { "." }),
            roots: roots.cloned().collect(),
        }
    }

    /// The path in the sandbox of a host path that the sandbox sees: in the workspace, or below a
    /// root.
    pub fn inside(&self, path: &Path) -> Option<PathBuf> {
        if let Some(workspace) = &self.workspace
            && let Some(rest) = beneath(path, workspace)
        {
            return Some(self.start.join(rest));
        }
        self.roots
            .iter()
            .find_map(|root| beneath(path, root).map(|rest| join(root, &rest)))
    }
}

/// Joins without the trailing slash that `join("")` adds.
fn join(root: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        root.to_owned()
    } else {
        root.join(rest)
    }
}

/// The path relative to the folder, after resolving links in both.
pub fn beneath(path: &Path, folder: &Path) -> Option<PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(path)
        .strip_prefix(real(folder))
        .ok()
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_suffix_sets_read_only() {
        assert_eq!(workspace(OsStr::new("a:ro")), (PathBuf::from("a"), true));
        assert_eq!(
            workspace(OsStr::new("a:ro:rw")),
            (PathBuf::from("a:ro"), false)
        );
        assert_eq!(workspace(OsStr::new("a")), (PathBuf::from("a"), false));
    }

    #[test]
    fn host_file_maps_to_workspace_before_roots() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub/code.py");
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(&file, "").unwrap();
        let mounts = |workspace: Option<&Path>, root: &Path| PathMap {
            workspace: workspace.map(Path::to_owned),
            start: ".".into(),
            roots: vec![root.to_owned()],
        };
        let inside = |mounts: PathMap| mounts.inside(&file);
        assert_eq!(
            inside(mounts(Some(folder.path()), folder.path())),
            Some("./sub/code.py".into())
        );
        assert_eq!(inside(mounts(None, folder.path())), Some(file.clone()));
        assert_eq!(inside(mounts(None, &file)), Some(file.clone()));
        assert_eq!(inside(mounts(None, Path::new("/usr"))), None);
    }

    #[test]
    fn parent_components_after_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", base.join("link")).unwrap();
        let found = existing("--read", &base.join("a/../link")).unwrap();
        assert_eq!(found, base.join("link"));
        let error = existing("--read", &base.join("link/../b")).unwrap_err();
        assert!(error.to_string().contains("name "), "{error}");
    }

    #[test]
    fn missing_path_error_names_the_path() {
        let error = existing("--read", Path::new("no/such/../file")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--read no/such/../file: No such file"),
            "{error}"
        );
    }
}
