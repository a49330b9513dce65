//! Opens a path of the host once, so that the checked object is the used one.
//!
//! A path is walked one component at a time from the root folder. Each component is opened without
//! following links. So a name that code replaces meanwhile leads to one object or to an error,
//! never to a mix of two. The result holds the object itself: owner, mode and type come from its
//! descriptor.
//!
//! [`LinkRule`] decides which links are followed:
//!
//! - A link in or below a folder that the policy lets code write to is refused, since code could
//!   have created it.
//! - Any other link that leaves its folder is refused, unless the caller follows links, or it is
//!   one of the [system's own](is_system_link).

mod error;
mod walk;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};

pub use error::{LinkReason, PathError};

/// Identifies an object by device and inode, independent of its path. Unique while a descriptor of
/// the object is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The device number of the file system.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

impl Identity {
    /// The identity in a file status.
    #[must_use]
    pub fn of(found: &Stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
        }
    }

    /// The objects that these paths lead to now, following links. Unreachable paths are left out.
    #[must_use]
    pub fn of_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<Self> {
        let found = paths
            .into_iter()
            .filter_map(|path| rustix::fs::stat(path).ok());
        found.map(|found| Self::of(&found)).collect()
    }
}

/// Decides which links are followed. The default refuses all links that leave their folder, except
/// the system's own.
#[derive(Debug, Clone, Default)]
pub struct LinkRule {
    writable: Vec<Identity>,
    follow: bool,
}

impl LinkRule {
    /// Creates a rule; links that leave their folder are followed only with `follow`.
    #[must_use]
    pub fn new(follow: bool) -> Self {
        Self {
            writable: Vec::new(),
            follow,
        }
    }

    /// Also refuses all links in or below these folders, which code can write to.
    #[must_use]
    pub fn writable(mut self, folders: impl IntoIterator<Item = Identity>) -> Self {
        self.writable.extend(folders);
        self
    }

    /// Opens the object at `path`. A relative path starts at the working folder.
    ///
    /// # Errors
    ///
    /// A component that is missing or cannot be searched, and a link that this rule refuses.
    pub fn open(&self, path: &Path) -> Result<Opened, PathError> {
        walk::walk(self, path, false)
    }

    /// Opens the folder at `path`, and creates it and its parents if missing (mode 0777 minus the
    /// umask).
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and for a component that is not a folder or cannot be created.
    pub fn open_or_make(&self, path: &Path) -> Result<Opened, PathError> {
        walk::walk(self, path, true)
    }
}

/// A link that was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The path of the link, without links in its parents.
    pub at: PathBuf,
    /// The link's target.
    pub target: PathBuf,
    /// The link's parent folders, starting with the root folder.
    above: Vec<Identity>,
}

/// An object of the host, opened with `O_PATH`.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor of the object.
    pub object: OwnedFd,
    /// The object's file status.
    pub found: Stat,
    /// The resolved path, without links.
    pub path: PathBuf,
    /// The links that were followed.
    pub links: Vec<Link>,
    /// The folders from the root folder to the object, and the object itself.
    above: Vec<Identity>,
    /// The object's parent folder and name; `None` for the root folder.
    place: Option<(OwnedFd, OsString)>,
}

impl Opened {
    /// The object's identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::of(&self.found)
    }

    /// The object's type.
    #[must_use]
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.found.st_mode)
    }

    /// The objects along the path: first the root folder, last the object. The entry at index `n`
    /// is the object of the first `n` components of [`Self::path`].
    #[must_use]
    pub fn way(&self) -> &[Identity] {
        &self.above
    }

    /// Whether this is `folder` or was found below it.
    #[must_use]
    pub fn is_within(&self, folder: Identity) -> bool {
        self.above.contains(&folder)
    }

    /// Refuses the object if a followed link is in or below one of these folders. For folders that
    /// were opened after this path.
    ///
    /// # Errors
    ///
    /// The first such link.
    pub fn refuse_links_in(&self, writable: &[Identity]) -> Result<(), PathError> {
        let in_writable = |link: &&Link| link.above.iter().any(|one| writable.contains(one));
        match self.links.iter().find(in_writable) {
            None => Ok(()),
            Some(link) => Err(PathError::link(link, LinkReason::CodeCanWrite)),
        }
    }

    /// Opens the same object for reading. Does not wait for the writer of a FIFO.
    ///
    /// # Errors
    ///
    /// Errors of the kernel, and if the name refers to another object now.
    pub fn open_for_reading(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match (&self.place, self.kind()) {
            (_, FileType::Directory) => {
                openat(&self.object, ".", flags | OFlags::DIRECTORY, Mode::empty())?
            }
            (Some((folder, name)), _) => openat(folder, name, flags, Mode::empty())?,
            (None, _) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        if Identity::of(&fstat(&opened)?) == self.identity() {
            return Ok(opened);
        }
        Err(io::Error::other(format!(
            "{} was replaced while it was being opened",
            self.path.display()
        )))
    }
}

/// Whether a link is one of the system's own, which are always followed. Such a link belongs to
/// user 0. It is in `/`, `/etc`, `/etc/alternatives`, `/var`, or below `/usr`, in a folder of user
/// 0 that no other user may write to. The result is the same for all users. Examples: `/bin`,
/// `/lib64`, `/etc/localtime`, `/etc/alternatives/awk`, `/var/run`, `/usr/bin/python3`.
#[must_use]
pub fn is_system_link(folder: &Path, folder_found: &Stat, link_found: &Stat) -> bool {
    const FOLDERS: [&str; 4] = ["/", "/etc", "/etc/alternatives", "/var"];
    let is_in_system_folder =
        FOLDERS.iter().any(|one| folder == Path::new(one)) || folder.starts_with("/usr");
    let of_root = folder_found.st_uid == 0 && link_found.st_uid == 0;
    is_in_system_folder && of_root && folder_found.st_mode & 0o022 == 0
}
