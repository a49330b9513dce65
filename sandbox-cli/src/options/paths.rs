//! Host paths in options, and their paths in the sandbox.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use sandbox::{CapabilityPolicy, SandboxSpec};

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
pub struct PathMap(Vec<(PathBuf, PathBuf)>);

impl PathMap {
    /// The host paths that this policy and this specification show. With a working folder, the path
    /// of the workspace is absolute.
    pub fn new(policy: &CapabilityPolicy, spec: &SandboxSpec) -> Self {
        let start = match spec.workdir {
            Some(_) => "/workspace",
            None => ".",
        };
        let workspace = spec.workspace.iter();
        let workspace = workspace.map(|it| (it.path.clone(), start.into()));
        let mounts = spec.mounts.iter();
        let mounts = mounts.map(|it| (it.source.clone(), it.target.clone()));
        let roots = policy.filesystem_read_roots.iter();
        let roots = roots.chain(&policy.filesystem_write_roots).flatten();
        let roots = roots.map(|root| (root.clone(), root.clone()));
        Self(workspace.chain(mounts).chain(roots).collect())
    }

    /// The path in the sandbox of a host path that the sandbox sees: in the workspace, in a mount,
    /// or below a root.
    pub fn inside(&self, path: &Path) -> Option<PathBuf> {
        self.0
            .iter()
            .find_map(|(source, target)| beneath(path, source).map(|rest| join(target, &rest)))
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
    use sandbox::{HostMount, Workspace};

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
        let inside = |spec: &SandboxSpec, root: &Path| {
            let policy = CapabilityPolicy::new().filesystem_read_root(root);
            PathMap::new(&policy, spec).inside(&file)
        };
        let none = SandboxSpec::new("sb");
        let workspace = none.clone().workspace(Workspace::read_write(folder.path()));
        assert_eq!(
            inside(&workspace, folder.path()),
            Some("./sub/code.py".into())
        );
        let workdir = workspace.clone().workdir("/tmp");
        assert_eq!(
            inside(&workdir, folder.path()),
            Some("/workspace/sub/code.py".into())
        );
        let mount = HostMount::read_only(folder.path().join("sub"), "/app");
        let mount = none.clone().mount(mount);
        assert_eq!(inside(&mount, folder.path()), Some("/app/code.py".into()));
        assert_eq!(inside(&none, folder.path()), Some(file.clone()));
        assert_eq!(inside(&none, &file), Some(file.clone()));
        assert_eq!(inside(&none, Path::new("/usr")), None);
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
