//! Going through a tree of folders of any depth with one descriptor and without following links.

use alloc::{ffi::CString, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, Result,
    directory::Directory,
    fs,
    fs::{O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_RDONLY},
    stat::{Stat, stat_of},
};

/// A folder on the way down, left for one of its entries.
#[derive(Debug)]
struct ParentFolder {
    /// Entries still to come.
    names: Vec<CString>,
    /// Device and inode: on the way back `..` must be this folder.
    identity: (u64, u64),
    /// The name of the entry that is being walked.
    current: CString,
}

/// A walk. It stands in a folder, whose entries it hands out; the caller may go down into each.
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

fn open(parent: i32, name: &CStr) -> Result<Fd> {
    fs::open_at(
        parent,
        name,
        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        0,
    )
}

fn list_names(folder: &Fd) -> Result<Vec<CString>> {
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
    pub(super) fn new(parent: i32, name: &CStr) -> Result<Self> {
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

    /// The folder in which the walk stands.
    pub(super) fn folder(&self) -> &Fd {
        &self.folder
    }

    /// How many folders it is below its start.
    pub(super) fn depth(&self) -> usize {
        self.above.len()
    }

    /// The next entry of the folder in which the walk stands.
    pub(super) fn next_name(&mut self) -> Option<CString> {
        self.names.pop()
    }

    /// Goes down into an entry.
    ///
    /// # Errors
    ///
    /// As [`TreeWalk::new`]; the walk then stays where it is.
    pub(super) fn descend(&mut self, name: CString) -> Result<()> {
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

    /// Goes back up; gives the name of the entry that it left, or `None` at the start.
    ///
    /// # Errors
    ///
    /// `ESTALE` when somebody moved a folder meanwhile, so that the way back is another one.
    pub(super) fn ascend(&mut self) -> Result<Option<CString>> {
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
