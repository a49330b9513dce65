//! The new root: an empty tmpfs, filled step by step, that takes the place of the host's root.

use alloc::{ffi::CString, format, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, Result, fs,
    fs::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_DIRECTORY, O_PATH},
    io,
    mount::{
        MNT_DETACH, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY,
        MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MountAttributes,
        mount, pivot_root, set_attributes, unmount,
    },
    path::terminated,
    stat::stat_at,
};

use super::{
    bind::{self, Restriction, Source},
    classic,
    place::{self, Place},
    step_failure,
};
use crate::{
    program::failing::{failure, replaced},
    protocol::{FailStep, Failure, Mount, Object},
};

/// Folders of the host on which the new root can be mounted until it is the root. It hides what is there, from this
/// process alone, and only for that time. One of them is there on every Linux.
const FOOTHOLDS: [&CStr; 6] = [c"/tmp", c"/run", c"/proc", c"/dev", c"/usr", c"/etc"];

/// Builds the new root and makes it the root.
///
/// # Errors
///
/// The step that failed, with its target.
pub(super) fn build(mounts: &[Mount], owner: (u32, u32)) -> core::result::Result<(), Failure> {
    let failed = |what: &'static str| move |errno| failure(FailStep::Setup, errno, what);
    mount(None, c"/", None, MS_REC | MS_PRIVATE, None).map_err(failed("private mounts"))?;
    let sources = take_sources(mounts)?;
    let old = fs::open(c"/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0).map_err(failed("old root"))?;
    enter_new_root().map_err(failed("tmpfs of the new root"))?;
    pivot_root(c".", c".").map_err(failed("pivot_root"))?;
    // From here on absolute paths are the sandbox's, and relative ones the host's.
    bind::stand_in(&old).map_err(failed("old root"))?;
    let mut builder = Builder {
        old,
        owner,
        scratches: 0,
        masked: None,
    };
    for (mount, source) in mounts.iter().zip(sources) {
        let (target, what) = describe(mount);
        builder.step(mount, source).map_err(|errno| match errno {
            bind::REPLACED => replaced(FailStep::Setup, target),
            errno => step_failure(target, what, errno),
        })?;
    }
    builder.tidy().map_err(failed("mask"))?;
    bind::stand_in(&builder.old).map_err(failed("old root"))?;
    unmount(c".", MNT_DETACH).map_err(failed("umount of the old root"))?;
    fs::change_directory(c"/").map_err(failed("new root"))
}

/// Everything of the host is taken before anything of it is hidden.
fn take_sources(mounts: &[Mount]) -> core::result::Result<Vec<Option<Source>>, Failure> {
    mounts
        .iter()
        .map(|mount| match mount {
            Mount::Bind {
                source,
                target,
                read_only,
                devices,
                optional,
                object,
            } => {
                let restriction = Restriction {
                    read_only: *read_only,
                    devices: *devices,
                };
                bind::take(source, restriction, *optional, *object)
                    .map(Some)
                    .map_err(|errno| match errno {
                        bind::REPLACED => replaced(FailStep::Setup, source),
                        errno => {
                            let what = format!("bind of {}", crate::program::failing::text(source));
                            step_failure(target, &what, errno)
                        }
                    })
            }
            _ => Ok(None),
        })
        .collect()
}

fn enter_new_root() -> Result<()> {
    let mut last = Errno::ENOENT;
    for foothold in FOOTHOLDS {
        let options = c"size=1m,nr_inodes=16384,mode=0755";
        match mount(
            Some(c"sandbox"),
            foothold,
            Some(c"tmpfs"),
            MS_NOSUID | MS_NODEV,
            Some(options),
        ) {
            Ok(()) => return fs::change_directory(foothold),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

fn describe(mount: &Mount) -> (&[u8], &'static str) {
    match mount {
        Mount::Bind { target, .. } => (target, "bind"),
        Mount::Tmpfs { target, .. } => (target, "tmpfs"),
        Mount::Proc { target } => (target, "proc"),
        Mount::Mqueue { target } => (target, "mqueue"),
        Mount::Symlink { target, .. } => (target, "symbolic link"),
        Mount::Dir { target, .. } => (target, "folder"),
        Mount::File { target, .. } => (target, "file"),
        Mount::ReadOnly { target } => (target, "read-only"),
        Mount::Mask { target, .. } => (target, "mask"),
        Mount::Pin { target } => (target, "mount point"),
        Mount::ReadOnlyPart { target } => (target, "read-only part"),
    }
}

struct Builder {
    old: Fd,
    owner: (u32, u32),
    scratches: usize,
    /// The first file that was masked; the others are masked by its mask.
    masked: Option<Masked>,
}

struct Masked {
    /// An empty file that nobody may read.
    empty: CString,
    /// Where it is mounted.
    place: CString,
}

/// Attributes of what covers something.
const COVER: u64 = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

impl Builder {
    fn step(&mut self, step: &Mount, source: Option<Source>) -> Result<()> {
        match step {
            Mount::Bind {
                target,
                read_only,
                devices,
                ..
            } => {
                let restriction = Restriction {
                    read_only: *read_only,
                    devices: *devices,
                };
                let source = source.unwrap_or(Source::Missing);
                bind::attach(source, target, restriction, &self.old)
            }
            Mount::Tmpfs {
                target,
                size,
                inodes,
                mode,
                exec,
                owned,
            } => self.tmpfs(target, (*size, *inodes), *mode, *exec, *owned),
            Mount::Proc { target } => special(target, c"proc"),
            Mount::Mqueue { target } => special(target, c"mqueue"),
            Mount::Symlink { points_to, target } => {
                place::parents(target)?;
                fs::symlink(
                    &terminated(&points_to[..])?,
                    AT_FDCWD,
                    &place::path(target)?,
                )
            }
            Mount::Dir {
                target,
                mode,
                owned,
            } => self.folder(target, *mode, *owned),
            Mount::File {
                target,
                content,
                mode,
            } => self.file(target, content, *mode),
            Mount::ReadOnly { target } => {
                // It may be the mount that the file is on.
                self.tidy()?;
                read_only(target)
            }
            Mount::Mask { target, object } => self.mask(target, *object),
            Mount::Pin { target } => bind::pin(&place::existing(target)?),
            Mount::ReadOnlyPart { target } => read_only_part(target),
        }
    }

    fn tmpfs(
        &self,
        target: &[u8],
        (size, inodes): (u64, u64),
        mode: u32,
        exec: bool,
        owned: bool,
    ) -> Result<()> {
        if size == 0 {
            // The kernel takes 0 for "without a limit".
            return Err(Errno::EINVAL);
        }
        let place = place::mount_point(target, true)?.path;
        let mut options = format!("size={size},mode={:o}", mode & 0o7777);
        if inodes > 0 {
            options += &format!(",nr_inodes={inodes}");
        }
        if owned {
            options += &format!(",uid={},gid={}", self.owner.0, self.owner.1);
        }
        let options = terminated(options)?;
        let flags = MS_NOSUID | MS_NODEV | if exec { 0 } else { MS_NOEXEC };
        mount(
            Some(c"tmpfs"),
            &place,
            Some(c"tmpfs"),
            flags,
            Some(&options),
        )
    }

    fn folder(&self, target: &[u8], mode: u32, owned: bool) -> Result<()> {
        let place = place::path(target)?;
        place::parents(target)?;
        match fs::make_directory(AT_FDCWD, &place, mode & 0o7777) {
            Ok(()) => {}
            Err(errno) => {
                let there = stat_at(AT_FDCWD, &place, 0).is_ok_and(|facts| facts.is_directory());
                return if there { Ok(()) } else { Err(errno) };
            }
        }
        if owned {
            let (user, group) = self.owner;
            fs::change_owner(AT_FDCWD, &place, user, group, AT_SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    fn file(&mut self, target: &[u8], content: &[u8], mode: u32) -> Result<()> {
        if let Ok(place) = place::existing(target) {
            // In a folder of the host, say: the new content covers what is there.
            let scratch = self.new_scratch()?;
            write_file(&scratch, content, mode)?;
            return self.cover(&scratch, &place);
        }
        place::parents(target)?;
        write_file(&place::path(target)?, content, mode)
    }

    fn mask(&mut self, target: &[u8], object: Option<Object>) -> Result<()> {
        let place = match place::existing(target) {
            Ok(place) => place,
            Err(Errno::ENOENT | Errno::ENOTDIR) if object.is_none() => return Ok(()),
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Err(bind::REPLACED),
            Err(errno) => return Err(errno),
        };
        bind::check(&place.facts, object)?;
        if place.facts.is_directory() {
            let flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
            let options = c"size=4k,nr_inodes=1,mode=0";
            // The folder itself, whatever its name leads to by now.
            fs::change_directory_to(&place.object)?;
            let masked = mount(Some(c"tmpfs"), c".", Some(c"tmpfs"), flags, Some(options));
            return masked.and(bind::stand_in(&self.old));
        }
        if let Some(Masked { place: first, .. }) = &self.masked {
            // A copy of a mount has its attributes.
            return mount(Some(first), &place.path, None, MS_BIND, None);
        }
        let empty = self.new_scratch()?;
        write_file(&empty, &[], 0)?;
        bind::mirror(&empty, &place, MOUNT_ATTR_NOEXEC | COVER)?;
        let place = place.path;
        self.masked = Some(Masked { empty, place });
        Ok(())
    }

    /// Takes the name of the empty file away.
    fn tidy(&mut self) -> Result<()> {
        match self.masked.take() {
            Some(masked) => fs::unlink(AT_FDCWD, &masked.empty, 0),
            None => Ok(()),
        }
    }

    fn new_scratch(&mut self) -> Result<CString> {
        self.scratches += 1;
        terminated(place::scratch(self.scratches))
    }

    /// Mounts a scratch file over `place`, read-only, and takes its name away.
    fn cover(&self, scratch: &CString, place: &Place) -> Result<()> {
        let covered = bind::mirror(scratch, place, COVER);
        covered.and(fs::unlink(AT_FDCWD, scratch, 0))
    }
}

fn special(target: &[u8], kind: &CStr) -> Result<()> {
    let place = place::mount_point(target, true)?.path;
    mount(
        Some(kind),
        &place,
        Some(kind),
        MS_NOSUID | MS_NODEV | MS_NOEXEC,
        None,
    )
}

fn write_file(place: &CString, content: &[u8], mode: u32) -> Result<()> {
    let file = place::create(place, 0o600)?;
    io::write_all(&file, content)?;
    fs::change_mode_of(&file, mode & 0o7777)?;
    file.close()
}

/// Makes one mount read-only, not those below it.
fn read_only(target: &[u8]) -> Result<()> {
    let place = place::path(target)?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY,
        ..MountAttributes::default()
    };
    match set_attributes(AT_FDCWD, &place, 0, &attributes) {
        Err(Errno::ENOSYS | Errno::EPERM) => classic::remount(&place, MS_RDONLY),
        other => other,
    }
}

/// Mounts a part of a mount over itself, read-only.
fn read_only_part(target: &[u8]) -> Result<()> {
    match place::existing(target) {
        Ok(place) => bind::mirror(&place.path, &place, MOUNT_ATTR_NOEXEC | COVER),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
