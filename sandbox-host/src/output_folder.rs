//! Writes files below a folder of the host, under names that the sandbox chose.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, Stat, mkdirat, openat2, renameat, statat, unlinkat,
};

use crate::output_path::open_output_folder;
use crate::safe_path::PathError;

/// The longest file name, in bytes.
const LONGEST_NAME: usize = 255;

/// How many numbered names are tried if a name is taken.
const NAMES: u32 = 1000;

/// An open folder of the host. All names are resolved beneath it, and links are never followed.
#[derive(Debug)]
pub(crate) struct OutputFolder {
    path: PathBuf,
    folder: OwnedFd,
}

impl OutputFolder {
    /// Opens the folder; creates it and its parents if missing: see [`open_output_folder`].
    pub(crate) fn open(path: &Path, writable: &[PathBuf], follow: bool) -> Result<Self, PathError> {
        let opened = open_output_folder(path, writable, follow)?;
        let folder = opened.open_for_reading();
        let folder = folder.map_err(|cause| PathError::System { at: None, cause })?;
        Ok(Self::of(opened.path, folder))
    }

    /// A folder that is already open for reading.
    pub(crate) fn of(path: PathBuf, folder: OwnedFd) -> Self {
        Self { path, folder }
    }

    /// The length of its path plus a separator, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.path.as_os_str().len() + 1
    }

    /// Whether each part of a relative name is valid below the folder.
    pub(crate) fn is_good_name(name: &[u8]) -> bool {
        !name.is_empty()
            && name.split(|byte| *byte == b'/').all(|part| {
                !part.is_empty()
                    && part != b"."
                    && part != b".."
                    && part.len() <= LONGEST_NAME
                    && !part.contains(&0)
            })
    }

    /// Creates a file. A taken name gets a number; nothing is overwritten.
    pub(crate) fn create(&self, name: &[u8]) -> io::Result<NewFile> {
        if !Self::is_good_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parent = self.make_parents(name)?;
        for number in 0..NAMES {
            let candidate = numbered(name, number);
            let leaf = candidate.file_name().unwrap_or_default();
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat2(&parent, leaf, flags, Mode::from(0o644), Self::resolve()) {
                Ok(file) => {
                    return Ok(NewFile {
                        name: leaf.to_owned(),
                        path: self.path.join(&candidate),
                        parent,
                        file: File::from(file),
                        settled: false,
                    });
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The status of a name itself, not of a link's target; `None` if it is missing. Follows no
    /// link in parent folders.
    pub(crate) fn look(&self, name: &[u8]) -> io::Result<Option<Stat>> {
        if !Self::is_good_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match name.iter().rposition(|byte| *byte == b'/') {
            None => rustix::io::fcntl_dupfd_cloexec(&self.folder, 0)?,
            Some(slash) => {
                let parent = OsStr::from_bytes(&name[..slash]);
                let flags = flags | OFlags::DIRECTORY;
                match openat2(&self.folder, parent, flags, Mode::empty(), Self::resolve()) {
                    Err(rustix::io::Errno::NOENT) => return Ok(None),
                    opened => opened?,
                }
            }
        };
        match statat(&folder, last_part(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn resolve() -> ResolveFlags {
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
    }

    /// Creates a folder with these permission bits, and its missing parents. An existing folder is
    /// accepted, a link to one is not.
    pub(crate) fn make_folder(&self, name: &[u8], mode: u32) -> io::Result<()> {
        if !Self::is_good_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parent = self.make_parents(name)?;
        let last = last_part(name);
        match mkdirat(&parent, last, Mode::from(mode)) {
            Err(rustix::io::Errno::EXIST) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat2(&parent, last, flags, Mode::empty(), Self::resolve()).map(drop)?;
                Ok(())
            }
            made => Ok(made?),
        }
    }

    /// Starts a file with these permission bits that will replace the file or link with this name.
    pub(crate) fn replace(&self, name: &[u8], mode: u32) -> io::Result<Replacement> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if !Self::is_good_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parent = self.make_parents(name)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = PathBuf::from(format!(".sandbox-{}-{count}", std::process::id()));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat2(
            &parent,
            &temporary,
            flags,
            Mode::from(mode),
            Self::resolve(),
        )?;
        Ok(Replacement {
            parent,
            temporary: Some(temporary),
            name: last_part(name).into(),
            file: File::from(file),
        })
    }

    /// Opens the parent folder of a name, and creates it if missing.
    fn make_parents(&self, name: &[u8]) -> io::Result<OwnedFd> {
        let mut parts = name.split(|byte| *byte == b'/').collect::<Vec<_>>();
        parts.pop();
        let mut parent = rustix::io::fcntl_dupfd_cloexec(&self.folder, 0)?;
        for part in parts {
            let part = OsStr::from_bytes(part);
            match mkdirat(&parent, part, Mode::from(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            parent = openat2(&parent, part, flags, Mode::empty(), Self::resolve())?;
        }
        Ok(parent)
    }
}

fn last_part(name: &[u8]) -> &OsStr {
    let start = name
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    OsStr::from_bytes(&name[start..])
}

/// A file with a temporary name next to its final one. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Replacement {
    parent: OwnedFd,
    temporary: Option<PathBuf>,
    name: PathBuf,
    pub(crate) file: File,
}

impl Replacement {
    /// Renames the file to its final name atomically.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            renameat(&self.parent, temporary, &self.parent, &self.name)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Ignore the error if it was removed already.
            let _ = unlinkat(&self.parent, temporary, rustix::fs::AtFlags::empty());
        }
    }
}

fn numbered(name: &[u8], number: u32) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(name));
    if number == 0 {
        return path.to_owned();
    }
    let suffix = match path.extension() {
        Some(extension) => [
            b"-",
            number.to_string().as_bytes(),
            b".",
            extension.as_bytes(),
        ]
        .concat(),
        None => format!("-{number}").into_bytes(),
    };
    let stem = path.file_stem().unwrap_or_default().as_bytes();
    // A name that is too long loses the end of its stem.
    let mut end = stem.len().min(LONGEST_NAME.saturating_sub(suffix.len()));
    while end > 0 && std::str::from_utf8(stem).is_ok_and(|stem| !stem.is_char_boundary(end)) {
        end -= 1;
    }
    let file = [&stem[..end], &suffix[..]].concat();
    path.with_file_name(OsStr::from_bytes(&file))
}

/// A new file. Dropping it removes it unless it is kept.
#[derive(Debug)]
pub(crate) struct NewFile {
    /// Held open so that a removal affects only this folder.
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
    pub(crate) file: File,
    /// Whether the file is kept or removed already.
    settled: bool,
}

impl NewFile {
    /// The absolute path.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Keeps the complete file.
    pub(crate) fn keep(mut self) {
        self.settled = true;
    }

    /// Removes the file.
    pub(crate) fn discard(mut self) -> io::Result<()> {
        self.settled = true;
        self.remove()
    }

    fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(
            &self.parent,
            &self.name,
            rustix::fs::AtFlags::empty(),
        )?)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.settled
            && let Err(cause) = self.remove()
        {
            tracing::warn!(file = %self.path.display(), %cause, "half an artifact is left");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_folder() {
        for bad in [
            &b""[..],
            b"/x",
            b"../x",
            b"a/../../x",
            b"a//b",
            b"a/.",
            b"x\0y",
            &[b'a'; 256],
        ] {
            assert!(!OutputFolder::is_good_name(bad), "{bad:?}");
        }
        assert!(OutputFolder::is_good_name("plots/größe.png".as_bytes()));
    }

    #[test]
    fn planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("sub")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("target"), folder.path().join("file"))
            .unwrap();
        let output = OutputFolder::open(folder.path(), &[], false).unwrap();
        assert!(output.create(b"sub/x").is_err());
        assert_eq!(
            output.create(b"file").unwrap().path(),
            output.path.join("file-1")
        );
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn file_that_is_not_kept_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let output = OutputFolder::open(folder.path(), &[], false).unwrap();
        drop(output.create(b"dropped").unwrap());
        output.create(b"discarded").unwrap().discard().unwrap();
        output.create(b"kept").unwrap().keep();
        let left = std::fs::read_dir(folder.path()).unwrap().flatten();
        let left = left.map(|entry| entry.file_name()).collect::<Vec<_>>();
        assert_eq!(left, ["kept"]);
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let output = OutputFolder::open(folder.path(), &[], false).unwrap();
        let names = (0..3)
            .map(|_| {
                let new = output.create(b"a/b.tar.gz").unwrap();
                let path = new.path();
                new.keep();
                path
            })
            .collect::<Vec<_>>();
        assert_eq!(names[1], output.path.join("a/b.tar-1.gz"));
        assert_eq!(
            names
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            3
        );
    }
}
