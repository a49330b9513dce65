//! Paths of the host that a plan names. Each is opened once, so that the object that is mounted is
//! the one that was checked.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use sandbox_agent::protocol;
use sandbox_core::Result;
use sandbox_host::confinement::{PLATFORM_ETC, PLATFORM_READ_ROOTS};
use sandbox_host::lock;
use sandbox_host::safe_path::{Identity, LinkRule, Opened, PathError};

use crate::error;

/// The file type of a path's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Folder,
    File,
    /// A socket, a FIFO, a device.
    Other,
}

/// The role of a path in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathRole {
    Read,
    Write,
    Workspace,
    Mount,
}

impl PathRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read root",
            Self::Write => "write root",
            Self::Workspace => "workspace",
            Self::Mount => "mount",
        }
    }
}

/// An object of the host that is held open, so that its device and inode numbers are not reused.
#[derive(Debug, Clone)]
pub(crate) struct OpenObject(Arc<Opened>);

impl PartialEq for OpenObject {
    fn eq(&self, other: &Self) -> bool {
        self.0.identity() == other.0.identity() && self.0.path == other.0.path
    }
}

impl Eq for OpenObject {}

impl From<Opened> for OpenObject {
    fn from(opened: Opened) -> Self {
        Self(Arc::new(opened))
    }
}

impl OpenObject {
    pub(crate) fn identity(&self) -> Identity {
        self.0.identity()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// The identity that the agent compares a path with.
    pub(crate) fn for_agent(&self) -> protocol::HostObject {
        let Identity { device, inode } = self.identity();
        protocol::HostObject { device, inode }
    }

    /// Whether it is `folder` or is in it.
    pub(crate) fn is_within(&self, folder: &Self) -> bool {
        self.0.is_within(folder.identity())
    }

    /// Its path relative to `folder`, if it is in there. Compares objects, not path names.
    pub(crate) fn below(&self, folder: &Self) -> Option<PathBuf> {
        let depth = self
            .0
            .way()
            .iter()
            .position(|entry| *entry == folder.identity())?;
        // The root folder, then one component for each entry.
        Some(self.path().components().skip(depth + 1).collect())
    }

    /// Fails if the path went through a link in one of these folders.
    pub(crate) fn refuse_links_in(
        &self,
        writable: &[Identity],
    ) -> std::result::Result<(), PathError> {
        self.0.refuse_links_in(writable)
    }
}

/// A path of the host, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    /// The path as named by the plan.
    pub(crate) requested: PathBuf,
    /// The object, held open. `None` for platform paths, which only the host's root can replace.
    pub(crate) object: Option<OpenObject>,
    /// The links on the path: the location and the target of each.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// The resolved path, without links.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
    pub(crate) owner: (u32, u32),
    /// Permission bits.
    pub(crate) mode: u32,
    /// Whether the plan names this path, rather than the root folder that contains it.
    pub(crate) named: bool,
    /// The version of a small platform file. Such files are copied once: mounting each one in every
    /// sandbox costs more than the rest of its folder.
    pub(crate) stamp: Option<Stamp>,
}

/// Identifies the version of a file: it changes with every change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Change time: seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self {
            device: 1,
            inode: 2,
            size: 3,
            changed: (4, 5),
        }
    }

    fn of(found: &std::fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// Opens a path that a plan names. The root folder stands for its entries, except those that every
/// sandbox replaces by its own.
pub(crate) fn resolve(
    tier: &str,
    role: PathRole,
    path: &Path,
    rule: &LinkRule,
) -> Result<Vec<Root>> {
    let failed = |cause: io::Error| error::path(tier, role.name(), path, cause);
    let root = rule
        .open(path)
        .map_err(|cause| error::link(tier, role.name(), path, cause))?;
    let root = Root::of(path, root);
    if root.path != Path::new("/") {
        return Ok(vec![root]);
    }
    if matches!(role, PathRole::Workspace | PathRole::Mount) {
        return Err(error::invalid_spec(
            tier,
            format!("the {} is the root folder", role.name()),
            "name a folder in it",
        ));
    }
    const OWN: [&str; 5] = ["dev", "packages", "proc", "tmp", "workspace"];
    let mut roots = Vec::new();
    for entry in std::fs::read_dir("/").map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if OWN.iter().all(|own| name != *own) {
            // A dangling link leads nowhere inside either.
            let root = rule.open(&Path::new("/").join(name)).ok();
            roots.extend(root.map(|root| Root {
                named: false,
                ..Root::of(path, root)
            }));
        }
    }
    roots.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(roots)
}

/// The platform's programs and libraries, which every sandbox sees. Resolved at most every ten
/// seconds.
pub(crate) fn platform_roots() -> Arc<[Root]> {
    const FRESH: Duration = Duration::from_secs(10);
    static SEEN: Mutex<Option<(Instant, Arc<[Root]>)>> = Mutex::new(None);
    let mut seen = lock(&SEEN);
    match &*seen {
        Some((when, roots)) if when.elapsed() < FRESH => Arc::clone(roots),
        _ => {
            let paths = PLATFORM_READ_ROOTS.iter().chain(PLATFORM_ETC);
            let mut lookup = PathLookup::default();
            let roots = paths
                .filter_map(|path| lookup.resolve(Path::new(path)).ok())
                .collect::<Vec<_>>();
            let roots = roots.into_iter().map(|root| with_stamp(root, &mut lookup));
            let roots = roots.collect::<Arc<[_]>>();
            *seen = Some((Instant::now(), Arc::clone(&roots)));
            roots
        }
    }
}

fn with_stamp(mut root: Root, lookup: &mut PathLookup) -> Root {
    const SMALL: u64 = 128 * 1024;
    // Code may not read what other users may not read.
    if root.kind == FileKind::File
        && root.mode & 0o004 != 0
        && root.path.starts_with("/etc")
        && let Ok(found) = lookup.metadata(&root.path)
        && found.len() <= SMALL
    {
        root.stamp = Some(Stamp::of(&found));
    }
    root
}

impl Root {
    fn of(requested: &Path, opened: Opened) -> Self {
        let kind = match opened.kind() {
            FileType::Directory => FileKind::Folder,
            FileType::RegularFile => FileKind::File,
            _ => FileKind::Other,
        };
        let links = opened.links.iter();
        Self {
            requested: requested.to_owned(),
            links: links
                .map(|link| (link.at.clone(), link.target.clone()))
                .collect(),
            path: opened.path.clone(),
            kind,
            owner: (opened.found.st_uid, opened.found.st_gid),
            mode: opened.found.st_mode & 0o7777,
            named: true,
            stamp: None,
            object: Some(opened.into()),
        }
    }
}

/// Resolves paths that share folders; reads the metadata of each folder once.
#[derive(Debug, Default)]
struct PathLookup(HashMap<PathBuf, Metadata>);

impl PathLookup {
    fn metadata(&mut self, path: &Path) -> io::Result<Metadata> {
        if let Some(found) = self.0.get(path) {
            return Ok(found.clone());
        }
        let found = std::fs::symlink_metadata(path)?;
        self.0.insert(path.to_owned(), found.clone());
        Ok(found)
    }

    fn resolve(&mut self, path: &Path) -> io::Result<Root> {
        // The kernel's limit.
        const MAX_LINKS: usize = 40;
        let mut links = Vec::new();
        let mut rest = parts(path)?;
        let mut here = PathBuf::from("/");
        let mut found = self.metadata(&here)?;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&part);
            found = self.metadata(&next)?;
            if !found.is_symlink() {
                here = next;
                continue;
            }
            if links.len() == MAX_LINKS {
                return Err(io::Error::other("too many links"));
            }
            let target = std::fs::read_link(&next)?;
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            let mut target_parts = parts(&target)?;
            target_parts.append(&mut rest);
            rest = target_parts;
            links.push((next, target));
        }
        if found.is_symlink() {
            // The last component was a link whose target ended in `..` or at the root.
            found = self.metadata(&here)?;
        }
        let kind = match found.file_type() {
            kind if kind.is_dir() => FileKind::Folder,
            kind if kind.is_file() => FileKind::File,
            _ => FileKind::Other,
        };
        let owner = (found.uid(), found.gid());
        Ok(Root {
            requested: path.to_owned(),
            object: None,
            links,
            path: here,
            kind,
            owner,
            mode: found.mode() & 0o7777,
            named: true,
            stamp: None,
        })
    }
}

fn parts(path: &Path) -> io::Result<VecDeque<OsString>> {
    let mut parts = VecDeque::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push_back(part.to_owned()),
            Component::ParentDir => parts.push_back("..".into()),
            Component::RootDir | Component::CurDir => {}
            Component::Prefix(_) => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_on_a_platform_path_are_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(base.join("usr/lib/x")).expect("folders");
        symlink("usr/lib", base.join("lib")).expect("a link");
        symlink("../usr/./lib/x", base.join("usr/y")).expect("a link");

        let look_up = |path: &Path| PathLookup::default().resolve(path);
        let root = look_up(&base.join("lib/x")).expect("found");
        assert_eq!(root.path, base.join("usr/lib/x"));
        assert_eq!(root.links, [(base.join("lib"), PathBuf::from("usr/lib"))]);
        assert_eq!(root.kind, FileKind::Folder);

        let root = look_up(&base.join("usr/y")).expect("found");
        assert_eq!(root.path, base.join("usr/lib/x"));
    }

    #[test]
    fn link_loops_and_missing_paths_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        symlink("a", folder.path().join("a")).expect("a link");
        assert!(
            PathLookup::default()
                .resolve(&folder.path().join("a"))
                .is_err()
        );
        let rule = LinkRule::default();
        let error = resolve("local", PathRole::Read, Path::new("/no/such/path"), &rule);
        let error = error.expect_err("nothing is there").to_string();
        assert!(error.contains("read root /no/such/path"), "{error}");
    }

    #[test]
    fn root_folder_expands_to_its_entries() {
        let rule = LinkRule::default();
        let roots = resolve("local", PathRole::Read, Path::new("/"), &rule).expect("found");
        let paths = roots
            .iter()
            .map(|root| root.path.as_path())
            .collect::<Vec<_>>();
        assert!(paths.contains(&Path::new("/usr")), "{paths:?}");
        assert!(!paths.contains(&Path::new("/proc")), "{paths:?}");
        assert!(!paths.contains(&Path::new("/")), "{paths:?}");
    }

    #[test]
    fn platform_roots_include_usr() {
        let roots = platform_roots();
        let usr = roots.iter().find(|root| root.path == Path::new("/usr"));
        assert_eq!(usr.expect("every Linux has /usr").kind, FileKind::Folder);
    }
}
