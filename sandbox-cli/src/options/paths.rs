//! Paths of the host in options, and where they are in the sandbox.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use sandbox::{CapabilityPolicy, Workspace};

use crate::failure::Failure;

/// An existing path of the host, absolute and without `..`.
pub fn existing(option: &str, path: &Path) -> Result<PathBuf, Failure> {
    let failed =
        |error: std::io::Error| Failure::io(format!("{option} {}", path.display()), &error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    if absolute
        .components()
        .any(|part| part == Component::ParentDir)
    {
        let real = absolute.canonicalize().map_err(failed)?;
        // Links stay in the path, for the tier to judge. After one, only the kernel knows where `..` leads.
        let plain = without_parents(&absolute);
        if plain.canonicalize().ok().as_ref() == Some(&real) {
            return Ok(plain);
        }
        return Err(Failure::argument(format!(
            "{option} {}: .. comes after a link; name {} instead",
            path.display(),
            real.display()
        )));
    }
    absolute.metadata().map_err(failed)?;
    Ok(absolute)
}

/// The path with each `..` and the component before it left out.
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
pub fn roots(option: &str, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    paths.iter().map(|path| existing(option, path)).collect()
}

/// An existing folder of the host.
pub fn folder(option: &str, path: &Path) -> Result<PathBuf, Failure> {
    let path = existing(option, path)?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(Failure::argument(format!(
        "{option} {}: not a folder",
        path.display()
    )))
}

/// A workspace's folder and whether `:ro` says that it is read-only; `:rw` can be written too.
pub fn workspace(text: &OsStr) -> (PathBuf, bool) {
    let bytes = text.as_bytes();
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    if let Some(folder) = bytes.strip_suffix(b":ro") {
        return (path(folder), true);
    }
    (path(bytes.strip_suffix(b":rw").unwrap_or(bytes)), false)
}

/// What of the host a sandbox sees, and where.
#[derive(Debug, Default)]
pub struct Mounts {
    workspace: Option<PathBuf>,
    /// The workspace as code that starts in its folder may call it.
    start: PathBuf,
    roots: Vec<PathBuf>,
}

impl Mounts {
    /// What this policy and this workspace let the sandbox see. Code that starts elsewhere calls the workspace by its full
    /// path.
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

    /// The path inside of the sandbox of a path of the host, where the sandbox sees it: in the workspace, which is where
    /// code starts, or below a root.
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

/// A root that is the file itself has no rest, and `join("")` would add a slash.
fn join(root: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        root.to_owned()
    } else {
        root.join(rest)
    }
}

/// The rest of the path below the folder, links resolved on both sides.
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
    fn workspace_suffixes() {
        assert_eq!(workspace(OsStr::new("a:ro")), (PathBuf::from("a"), true));
        assert_eq!(
            workspace(OsStr::new("a:ro:rw")),
            (PathBuf::from("a:ro"), false)
        );
        assert_eq!(workspace(OsStr::new("a")), (PathBuf::from("a"), false));
    }

    #[test]
    fn a_file_is_found_in_the_workspace_first_and_below_roots() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub/code.py");
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(&file, "").unwrap();
        let mounts = |workspace: Option<&Path>, root: &Path| Mounts {
            workspace: workspace.map(Path::to_owned),
            start: ".".into(),
            roots: vec![root.to_owned()],
        };
        let inside = |mounts: Mounts| mounts.inside(&file);
        assert_eq!(
            inside(mounts(Some(folder.path()), folder.path())),
            Some("./sub/code.py".into())
        );
        assert_eq!(inside(mounts(None, folder.path())), Some(file.clone()));
        assert_eq!(inside(mounts(None, &file)), Some(file.clone()));
        assert_eq!(inside(mounts(None, Path::new("/usr"))), None);
    }

    #[test]
    fn links_stay_in_a_path_with_parents() {
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
    fn missing_paths_are_named() {
        let error = existing("--read", Path::new("no/such/../file")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--read no/such/../file: No such file"),
            "{error}"
        );
    }
}
