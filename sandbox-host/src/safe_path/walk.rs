//! Walks from the root folder to an object, one component at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::{Identity, Link, LinkReason, LinkRule, Opened, PathError, is_system_link};

/// The number of links that the kernel follows, too.
const MOST_LINKS: usize = 40;

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn walk(rule: &LinkRule, path: &Path, make: bool) -> Result<Opened, PathError> {
    let whole = std::path::absolute(path).map_err(|cause| PathError::system(path, path, cause))?;
    let mut walk = Walk::begin(rule, &whole, make)?;
    while walk.step()? {}
    walk.finish()
}

struct Walk<'a> {
    rule: &'a LinkRule,
    whole: &'a Path,
    make: bool,
    /// The open folders from the root folder to the current position.
    folders: Vec<(OwnedFd, Stat)>,
    /// The path of the current position.
    here: PathBuf,
    /// An object that is not a folder, and so ends the walk.
    file: Option<(OwnedFd, Stat)>,
    rest: VecDeque<OsString>,
    links: Vec<Link>,
    bounds: Vec<Bound>,
}

/// A link whose target is being walked and must not leave the link's folder.
struct Bound {
    /// The index in [`Walk::links`].
    link: usize,
    /// The number of remaining components at which the target has been walked.
    left: usize,
    /// The number of folders above the link.
    depth: usize,
    folder: Identity,
}

impl<'a> Walk<'a> {
    fn begin(rule: &'a LinkRule, whole: &'a Path, make: bool) -> Result<Self, PathError> {
        let root = open("/", PATH | OFlags::DIRECTORY, Mode::empty())
            .and_then(|root| fstat(&root).map(|found| (root, found)))
            .map_err(|errno| PathError::system(Path::new("/"), whole, errno))?;
        Ok(Self {
            rule,
            whole,
            make,
            folders: vec![root],
            here: PathBuf::from("/"),
            file: None,
            rest: parts(whole),
            links: Vec::new(),
            bounds: Vec::new(),
        })
    }

    /// Walks one component; `false` if none remains.
    fn step(&mut self) -> Result<bool, PathError> {
        self.end_bounds()?;
        let Some(part) = self.rest.pop_front() else {
            return Ok(false);
        };
        if self.file.is_some() {
            return Err(self.failed(self.here.clone(), Errno::NOTDIR));
        }
        if part == ".." {
            if self.folders.len() > 1 {
                self.folders.pop();
                self.here.pop();
            }
            return Ok(true);
        }
        let next = self.here.join(&part);
        let failed = |walk: &Self, errno: Errno| walk.failed(next.clone(), errno);
        match self.open_folder(&part) {
            Ok(folder) => {
                self.folders.push(folder);
                self.here = next;
            }
            Err(Errno::NOENT) if self.make => {
                // Create nothing outside of a link's folder if the link must not leave it.
                self.check_bounds(0)?;
                let folder = &self.folders[self.folders.len() - 1].0;
                match mkdirat(folder, &part, Mode::from(0o777)) {
                    // It was created meanwhile.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(failed(self, errno)),
                }
                let made = self.open_folder(&part);
                self.folders
                    .push(made.map_err(|errno| failed(self, errno))?);
                self.here = next;
            }
            // A link or a file.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = self.open_part(&part, PATH);
                let (object, found) = found.map_err(|errno| failed(self, errno))?;
                match FileType::from_raw_mode(found.st_mode) {
                    FileType::Symlink => return self.follow(next, &object, &found).map(|()| true),
                    // It has replaced the object seen a moment ago.
                    FileType::Directory => self.folders.push((object, found)),
                    _ => self.file = Some((object, found)),
                }
                self.here = next;
            }
            Err(errno) => return Err(failed(self, errno)),
        }
        Ok(true)
    }

    /// Uses `O_DIRECTORY`, which triggers automounts.
    fn open_folder(&self, part: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
        self.open_part(part, PATH | OFlags::DIRECTORY)
    }

    fn open_part(&self, part: &OsStr, flags: OFlags) -> Result<(OwnedFd, Stat), Errno> {
        let (folder, _) = &self.folders[self.folders.len() - 1];
        let object = openat(folder, part, flags, Mode::empty())?;
        let found = fstat(&object)?;
        Ok((object, found))
    }

    fn follow(&mut self, at: PathBuf, object: &OwnedFd, found: &Stat) -> Result<(), PathError> {
        let target = readlinkat(object, "", Vec::new());
        let target = target.map_err(|errno| self.failed(at.clone(), errno))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let link = Link {
            at,
            target,
            above: self.way(),
        };
        let (_, folder) = &self.folders[self.folders.len() - 1];
        let writable = &self.rule.writable;
        if link.above.iter().any(|one| writable.contains(one)) {
            return Err(PathError::link(&link, LinkReason::CodeCanWrite));
        }
        if self.links.len() == MOST_LINKS {
            return Err(self.failed(link.at, Errno::LOOP));
        }
        if !self.rule.follow && !is_system_link(&self.here, folder, found) {
            self.bounds.push(Bound {
                link: self.links.len(),
                left: self.rest.len(),
                depth: self.folders.len(),
                folder: Identity::of(folder),
            });
        }
        if link.target.is_absolute() {
            self.folders.truncate(1);
            self.here = PathBuf::from("/");
        }
        let mut rest = parts(&link.target);
        rest.append(&mut self.rest);
        self.rest = rest;
        self.links.push(link);
        Ok(())
    }

    /// Checks the bounds of links whose targets have been walked.
    fn end_bounds(&mut self) -> Result<(), PathError> {
        let left = self.rest.len();
        let first = self.bounds.partition_point(|bound| bound.left < left);
        self.check_bounds(first)?;
        self.bounds.truncate(first);
        Ok(())
    }

    fn check_bounds(&self, first: usize) -> Result<(), PathError> {
        let holds = |bound: &&Bound| {
            let folder = self.folders.get(bound.depth - 1);
            folder.is_none_or(|(_, found)| Identity::of(found) != bound.folder)
        };
        match self.bounds[first..].iter().find(holds) {
            None => Ok(()),
            Some(bound) => Err(PathError::link(
                &self.links[bound.link],
                LinkReason::LeavesFolder,
            )),
        }
    }

    fn way(&self) -> Vec<Identity> {
        let folders = self.folders.iter();
        folders.map(|(_, found)| Identity::of(found)).collect()
    }

    fn failed(&self, at: PathBuf, errno: Errno) -> PathError {
        PathError::system(&at, self.whole, errno)
    }

    fn finish(mut self) -> Result<Opened, PathError> {
        let mut above = self.way();
        if self.make && self.file.is_some() {
            return Err(self.failed(self.here.clone(), Errno::NOTDIR));
        }
        let (object, found) = match self.file.take() {
            Some((object, found)) => {
                above.push(Identity::of(&found));
                (object, found)
            }
            None => self.folders.remove(self.folders.len() - 1),
        };
        let place = match (self.folders.last(), self.here.file_name()) {
            (Some((folder, _)), Some(name)) => {
                let folder = fcntl_dupfd_cloexec(folder, 0)
                    .map_err(|errno| self.failed(self.here.clone(), errno))?;
                Some((folder, name.to_owned()))
            }
            _ => None,
        };
        Ok(Opened {
            object,
            found,
            path: self.here,
            links: self.links,
            above,
            place,
        })
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}
