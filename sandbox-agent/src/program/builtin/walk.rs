//! Walking a tree of folders of any depth with one descriptor, without following links.

use alloc::{ffi::CString, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd,
    directory::Directory,
    fs,
    fs::{O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_RDONLY},
    stat::{Stat, stat_of},
};

/// A parent of the current folder.
#[derive(Debug)]
struct ParentFolder {
    /// Entries that are not walked yet.
    names: Vec<CString>,
    /// Device and inode: `..` must lead back to this folder.
    identity: (u64, u64),
    /// The name of the entry that the walk is in.
    current: CString,
}

/// A walk through a tree. It returns the entries of its current folder; the caller decides which to
/// enter.
#[derive(Debug)]
pub(super) struct TreeWalk {
    folder: Fd,
    identity: (u64, u64),
    names: Vec<CString>,
    above: Vec<ParentFolder>,
}

fn identity(metadata: &Stat) -> (u64, u64) {
    (metadata.device, metadata.inode)
}

fn open(parent: i32, name: &CStr) -> Result<Fd, Errno> {
    fs::open_at(
        parent,
        name,
        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        0,
    )
}

fn list_names(folder: &Fd) -> Result<Vec<CString>, Errno> {
    let mut entries = Directory::new(folder);
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry()? {
        names.push(entry.name.into());
    }
    Ok(names)
}

impl TreeWalk {
    /// Starts in the folder `name` of `parent`.
    ///
    /// # Errors
    ///
    /// What opening and reading the folder reports; `ENOTDIR` for a link.
    pub(super) fn new(parent: i32, name: &CStr) -> Result<Self, Errno> {
        let folder = open(parent, name)?;
        let identity = identity(&stat_of(&folder)?);
        let names = list_names(&folder)?;
        Ok(Self {
            folder,
            identity,
            names,
            above: Vec::new(),
        })
    }

    /// The current folder.
    pub(super) fn folder(&self) -> &Fd {
        &self.folder
    }

    /// How many levels the current folder is below the start.
    pub(super) fn depth(&self) -> usize {
        self.above.len()
    }

    /// The next entry of the current folder.
    pub(super) fn next_name(&mut self) -> Option<CString> {
        self.names.pop()
    }

    /// Enters a folder.
    ///
    /// # Errors
    ///
    /// As [`TreeWalk::new`]; the current folder stays the same.
    pub(super) fn descend(&mut self, name: CString) -> Result<(), Errno> {
        let below = Self::new(self.folder.as_raw(), &name)?;
        let above = core::mem::replace(self, below);
        self.above = above.above;
        self.above.push(ParentFolder {
            names: above.names,
            identity: above.identity,
            current: name,
        });
        Ok(())
    }

    /// Returns to the parent; returns the name of the folder that was left, or `None` at the start.
    ///
    /// # Errors
    ///
    /// `ESTALE` if a folder was moved meanwhile, so that `..` is another one.
    pub(super) fn ascend(&mut self) -> Result<Option<CString>, Errno> {
        let Some(level) = self.above.pop() else {
            return Ok(None);
        };
        let folder = open(self.folder.as_raw(), c"..")?;
        if identity(&stat_of(&folder)?) != level.identity {
            return Err(Errno::ESTALE);
        }
        self.folder = folder;
        self.identity = level.identity;
        self.names = level.names;
        Ok(Some(level.current))
    }
}
