//! The way to an output folder, which may lie where the code of a sandbox has set a trap.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Opens a folder, making it and its parents where they are missing; gives its path without links as well.
///
/// Links are followed as usual, but for those in the folders `writable`, which the code can write to: who follows one of these
/// goes wherever the code wants. A folder that becomes a link meanwhile is not followed either.
///
/// # Errors
///
/// What the way meets: such a link, something that is no folder, what the disk refuses.
pub(crate) fn open_or_make(path: &Path, writable: &[PathBuf]) -> io::Result<(OwnedFd, PathBuf)> {
    let path = without_links(path, writable)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = open("/", flags | OFlags::PATH, Mode::empty())?;
    for part in path.components() {
        let Component::Normal(part) = part else {
            continue;
        };
        folder = match openat(&folder, part, flags | OFlags::PATH, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&folder, part, Mode::from(0o777)) {
                    // Somebody else was faster.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                openat(&folder, part, flags | OFlags::PATH, Mode::empty())
            }
            found => found,
        }?;
    }
    let opened = openat(&folder, ".", flags | OFlags::RDONLY, Mode::empty())?;
    Ok((opened, path))
}

/// The path with its links replaced by what they say. What is missing stays as it is.
fn without_links(path: &Path, writable: &[PathBuf]) -> io::Result<PathBuf> {
    let trap = Trap::of(writable);
    let mut rest = parts(&std::path::absolute(path)?);
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&part);
        let found = match std::fs::symlink_metadata(&next) {
            Ok(found) => found,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                if rest.iter().any(|part| part == "..") {
                    return Err(missing);
                }
                here = next;
                here.extend(rest);
                return Ok(here);
            }
            Err(cause) => return Err(cause),
        };
        if !found.is_symlink() {
            here = next;
            continue;
        }
        if trap.holds(&here) {
            return Err(io::Error::other(format!(
                "{} is a link in a folder that the code can write to",
                next.display()
            )));
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = std::fs::read_link(&next)?;
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        let mut target = parts(&target);
        target.append(&mut rest);
        rest = target;
    }
    Ok(here)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

/// Folders that the code can write to, by what they are: the same one may have several names.
struct Trap(Vec<(u64, u64)>);

impl Trap {
    fn of(folders: &[PathBuf]) -> Self {
        // One that is gone holds nothing.
        let found = folders.iter().filter_map(|folder| folder.metadata().ok());
        Self(found.map(|found| (found.dev(), found.ino())).collect())
    }

    /// Whether a path without links is in one of them, or is one.
    fn holds(&self, path: &Path) -> bool {
        let mut above = path
            .ancestors()
            .filter_map(|folder| folder.symlink_metadata().ok());
        !self.0.is_empty() && above.any(|found| self.0.contains(&(found.dev(), found.ino())))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn found(path: &Path, writable: &[PathBuf]) -> io::Result<PathBuf> {
        open_or_make(path, writable).map(|(_, path)| path)
    }

    #[test]
    fn links_of_others_are_followed_and_missing_folders_made() {
        let place = tempfile::tempdir().expect("a folder");
        let base = place.path().canonicalize().expect("a path");
        std::fs::create_dir_all(base.join("a/b")).expect("made");
        symlink("a/b", base.join("relative")).expect("a link");
        symlink(base.join("relative/.."), base.join("absolute")).expect("a link");
        symlink("loop", base.join("loop")).expect("a link");
        for (path, real) in [
            ("a/b", "a/b"),
            ("relative", "a/b"),
            ("absolute/b/./new/folder", "a/b/new/folder"),
            ("relative/../other", "a/other"),
        ] {
            assert_eq!(found(&base.join(path), &[]).expect(path), base.join(real));
            assert!(base.join(real).is_dir());
        }
        std::fs::write(base.join("file"), "").expect("written");
        for bad in ["loop", "file", "file/x", "missing/../x"] {
            assert!(found(&base.join(bad), &[]).is_err(), "{bad}");
        }
        assert!(!base.join("missing").exists());
    }

    #[test]
    fn a_link_where_code_can_write_is_refused_whatever_the_folder_is_called() {
        let place = tempfile::tempdir().expect("a folder");
        let base = place.path().canonicalize().expect("a path");
        std::fs::create_dir_all(base.join("work/sub")).expect("made");
        std::fs::create_dir(base.join("victim")).expect("made");
        symlink(base.join("victim"), base.join("work/sub/out")).expect("a link");
        symlink("sub", base.join("work/inner")).expect("a link");
        symlink("work", base.join("alias")).expect("a link");
        let writable = [base.join("alias")];
        for bad in [
            "work/sub/out",
            "work/sub/out/new",
            "work/inner/x",
            "alias/sub/out",
        ] {
            let error = found(&base.join(bad), &writable).expect_err(bad);
            assert!(error.to_string().contains("is a link"), "{error}");
        }
        assert_eq!(
            std::fs::read_dir(base.join("victim"))
                .expect("there")
                .count(),
            0
        );
        // The caller's own link to it, and folders in it.
        let fine = found(&base.join("alias/sub/fine"), &writable).expect("made");
        assert_eq!(fine, base.join("work/sub/fine"));
    }
}
