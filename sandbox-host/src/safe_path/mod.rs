//! Opening a path of the host once, so that what was checked is what is used.
//!
//! A path is walked one component at a time from the root folder. Each component is opened without following links, so a name
//! that code exchanges meanwhile leads to one object or to an error, never to a mix of two. The result holds the object itself:
//! owner, mode and kind come from that descriptor.
//!
//! [`LinkRule`] decides about the links on the way:
//!
//! - A link that stands in a folder which the policy lets code write to, or below one, is refused. Code could have made it.
//! - Any other link that leaves the folder which it stands in is refused, unless the caller follows links, or the link is one of
//!   the [system's own](is_system_link).

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

/// Which object something is, whatever it is called: the device and the inode. It names one object for as long as a descriptor
/// of that object is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The number of the file system's device.
    pub device: u64,
    /// The number of the inode.
    pub inode: u64,
}

impl Identity {
    /// The object that `found` describes.
    #[must_use]
    pub fn of(found: &Stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
        }
    }

    /// The objects that these paths lead to now, over links. A path that leads nowhere is left out.
    #[must_use]
    pub fn of_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<Self> {
        let found = paths
            .into_iter()
            .filter_map(|path| rustix::fs::stat(path).ok());
        found.map(|found| Self::of(&found)).collect()
    }
}

/// Which links are followed. The default refuses every link that leaves its folder, apart from the system's own.
#[derive(Debug, Clone, Default)]
pub struct LinkRule {
    writable: Vec<Identity>,
    follow: bool,
}

impl LinkRule {
    /// Refuses links that leave their folder unless `follow` is set.
    #[must_use]
    pub fn new(follow: bool) -> Self {
        Self {
            writable: Vec::new(),
            follow,
        }
    }

    /// Also refuses every link in these folders, and below them. Code can write there.
    #[must_use]
    pub fn writable(mut self, folders: impl IntoIterator<Item = Identity>) -> Self {
        self.writable.extend(folders);
        self
    }

    /// Opens what is at `path`. A relative path begins at the working folder.
    ///
    /// # Errors
    ///
    /// A component that is missing or cannot be searched, and a link that this rule refuses.
    pub fn open(&self, path: &Path) -> Result<Opened, PathError> {
        walk::walk(self, path, false)
    }

    /// Opens the folder at `path`, and makes it and its parents where they are missing (mode 0777 without the umask).
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and where a component is no folder or cannot be made.
    pub fn open_or_make(&self, path: &Path) -> Result<Opened, PathError> {
        walk::walk(self, path, true)
    }
}

/// A link that was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where it stands; no part of this path above it is a link.
    pub at: PathBuf,
    /// What it says.
    pub target: PathBuf,
    /// The folders above it, from the root folder on.
    above: Vec<Identity>,
}

/// An object of the host, held open with `O_PATH`.
#[derive(Debug)]
pub struct Opened {
    /// The object.
    pub object: OwnedFd,
    /// What the kernel says of it.
    pub found: Stat,
    /// Where it was found; no part of this path was a link.
    pub path: PathBuf,
    /// The links that led there.
    pub links: Vec<Link>,
    /// Identities of the folders from the root folder to the object, and of the object itself.
    above: Vec<Identity>,
    /// The folder that it was found in, and its name there; none for the root folder.
    place: Option<(OwnedFd, OsString)>,
}

impl Opened {
    /// Which object it is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::of(&self.found)
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.found.st_mode)
    }

    /// The objects on the way: the root folder first, the object itself last. The entry at index `n` is the object of the first
    /// `n` components of [`Self::path`].
    #[must_use]
    pub fn way(&self) -> &[Identity] {
        &self.above
    }

    /// Whether it is `folder`, or was found below it.
    #[must_use]
    pub fn is_within(&self, folder: Identity) -> bool {
        self.above.contains(&folder)
    }

    /// Refuses it where a link that led here stands in one of these folders, or below one. For folders that were opened only
    /// after this path was.
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

    /// Opens the same object for reading. A FIFO is not waited for.
    ///
    /// # Errors
    ///
    /// What the kernel refuses; and where something else has its name by now.
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

/// Whether a link is one of the system's own, which are followed without being asked for: user 0 owns it, and it stands in `/`,
/// `/etc`, `/etc/alternatives`, `/var`, or below `/usr`, in a folder of user 0 that nobody else can write to. The same for
/// every user. Examples: `/bin`, `/lib64`, `/etc/localtime`, `/etc/alternatives/awk`, `/var/run`, `/usr/bin/python3`.
#[must_use]
pub fn is_system_link(folder: &Path, folder_found: &Stat, link_found: &Stat) -> bool {
    const FOLDERS: [&str; 4] = ["/", "/etc", "/etc/alternatives", "/var"];
    let stands_there =
        FOLDERS.iter().any(|one| folder == Path::new(one)) || folder.starts_with("/usr");
    let of_root = folder_found.st_uid == 0 && link_found.st_uid == 0;
    stands_there && of_root && folder_found.st_mode & 0o022 == 0
}
