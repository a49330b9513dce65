//! The new root: an empty tmpfs, filled step by step, that replaces the host's root.

use alloc::{ffi::CString, format, vec::Vec};
use core::ffi::CStr;

use crate::runtime::{
    Errno, Fd, fs,
    fs::{AT_FDCWD, O_CLOEXEC, O_DIRECTORY, O_PATH},
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
    bind::{self, BindSource, MountRestriction},
    classic,
    mount_point::{self, MountPoint},
    step_failure,
};
use crate::{
    program::failures::{failure, replaced_failure},
    protocol::{FailStep, Failure, HostObject, Mount},
};

/// Folders of the host on which the new root can be mounted until it is the root. The mount hides
/// their content from this process only. One of them exists on every Linux.
const TEMPORARY_MOUNT_POINTS: [&CStr; 6] = [c"/tmp", c"/run", c"/proc", c"/dev", c"/usr", c"/etc"];

/// Builds the new root and switches to it.
///
/// # Errors
///
/// The step that failed, with its target.
pub(super) fn build(mounts: &[Mount]) -> Result<(), Failure> {
    let failed = |what: &'static str| move |errno| failure(FailStep::Setup, errno, what);
    mount(None, c"/", None, MS_REC | MS_PRIVATE, None).map_err(failed("private mounts"))?;
    let sources = take_sources(mounts)?;
    let old_root =
        fs::open(c"/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0).map_err(failed("old root"))?;
    enter_new_root().map_err(failed("tmpfs of the new root"))?;
    pivot_root(c".", c".").map_err(failed("pivot_root"))?;
    // From here on, absolute paths are the sandbox's, and relative ones the host's.
    bind::enter_old_root(&old_root).map_err(failed("old root"))?;
    let mut builder = Builder {
        old_root,
        scratch_count: 0,
        masked: None,
    };
    for (mount, source) in mounts.iter().zip(sources) {
        let (target, what) = describe(mount);
        builder.step(mount, source).map_err(|errno| match errno {
            bind::REPLACED => replaced_failure(FailStep::Setup, target),
            errno => step_failure(target, what, errno),
        })?;
    }
    builder.unlink_mask().map_err(failed("mask"))?;
    bind::enter_old_root(&builder.old_root).map_err(failed("old root"))?;
    unmount(c".", MNT_DETACH).map_err(failed("umount of the old root"))?;
    fs::change_directory(c"/").map_err(failed("new root"))
}

/// Opens all sources before any mount hides them.
fn take_sources(mounts: &[Mount]) -> Result<Vec<Option<BindSource>>, Failure> {
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
                let restriction = MountRestriction {
                    read_only: *read_only,
                    devices: *devices,
                };
                bind::take(source, restriction, *optional, *object)
                    .map(Some)
                    .map_err(|errno| match errno {
                        bind::REPLACED => replaced_failure(FailStep::Setup, source),
                        errno => {
                            let what =
                                format!("bind of {}", crate::program::failures::text(source));
                            step_failure(target, &what, errno)
                        }
                    })
            }
            _ => Ok(None),
        })
        .collect()
}

fn enter_new_root() -> Result<(), Errno> {
    let mut last = Errno::ENOENT;
    for mount_point in TEMPORARY_MOUNT_POINTS {
        let options = c"size=1m,nr_inodes=16384,mode=0755";
        match mount(
            Some(c"sandbox"),
            mount_point,
            Some(c"tmpfs"),
            MS_NOSUID | MS_NODEV,
            Some(options),
        ) {
            Ok(()) => return fs::change_directory(mount_point),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

fn describe(mount: &Mount) -> (&[u8], &'static str) {
    match mount {
        Mount::Bind { target, .. } => (target, "bind"),
        Mount::Proc { target } => (target, "proc"),
        Mount::Terminals { target, .. } => (target, "devpts"),
        Mount::Symlink { target, .. } => (target, "symbolic link"),
        Mount::Dir { target } => (target, "folder"),
        Mount::File { target, .. } => (target, "file"),
        Mount::ReadOnly { target } => (target, "read-only"),
        Mount::Mask { target, .. } => (target, "mask"),
        Mount::Pin { target } => (target, "mount point"),
        Mount::ReadOnlyPart { target } => (target, "read-only part"),
    }
}

struct Builder {
    old_root: Fd,
    scratch_count: usize,
    /// The first masked file; its mask also masks the others.
    masked: Option<Masked>,
}

struct Masked {
    /// An empty file without permissions.
    empty: CString,
    /// Where it is mounted.
    point: CString,
}

/// Attributes of a covering mount.
const COVER: u64 = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

impl Builder {
    fn step(&mut self, step: &Mount, source: Option<BindSource>) -> Result<(), Errno> {
        match step {
            Mount::Bind {
                target,
                read_only,
                devices,
                ..
            } => {
                let restriction = MountRestriction {
                    read_only: *read_only,
                    devices: *devices,
                };
                let source = source.unwrap_or(BindSource::Missing);
                bind::attach(source, target, restriction, &self.old_root)
            }
            Mount::Proc { target } => mount_special(target, c"proc"),
            Mount::Terminals { target, most } => terminals(target, *most),
            Mount::Symlink { points_to, target } => {
                mount_point::make_parents(target)?;
                fs::symlink(
                    &terminated(&points_to[..])?,
                    AT_FDCWD,
                    &mount_point::path(target)?,
                )
            }
            Mount::Dir { target } => folder(target),
            Mount::File {
                target,
                content,
                mode,
            } => self.file(target, content, *mode),
            Mount::ReadOnly { target } => {
                // The empty file may be on this mount.
                self.unlink_mask()?;
                read_only(target)
            }
            Mount::Mask { target, object } => self.mask(target, *object),
            Mount::Pin { target } => bind::pin(&mount_point::existing(target)?),
            Mount::ReadOnlyPart { target } => read_only_part(target),
        }
    }

    fn file(&mut self, target: &[u8], content: &[u8], mode: u32) -> Result<(), Errno> {
        if let Ok(point) = mount_point::existing(target) {
            // The target exists, for example in a folder of the host: cover it.
            let scratch = self.new_scratch()?;
            write_file(&scratch, content, mode)?;
            return self.cover_with(&scratch, &point);
        }
        mount_point::make_parents(target)?;
        write_file(&mount_point::path(target)?, content, mode)
    }

    fn mask(&mut self, target: &[u8], object: Option<HostObject>) -> Result<(), Errno> {
        let point = match mount_point::existing(target) {
            Ok(point) => point,
            Err(Errno::ENOENT | Errno::ENOTDIR) if object.is_none() => return Ok(()),
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Err(bind::REPLACED),
            Err(errno) => return Err(errno),
        };
        bind::check(&point.metadata, object)?;
        if point.metadata.is_directory() {
            let flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
            let options = c"size=4k,nr_inodes=1,mode=0";
            // Mounts on the open folder, whatever its name leads to now.
            fs::change_directory_to(&point.object)?;
            let masked = mount(Some(c"tmpfs"), c".", Some(c"tmpfs"), flags, Some(options));
            return masked.and(bind::enter_old_root(&self.old_root));
        }
        if let Some(Masked { point: first, .. }) = &self.masked {
            // A bind mount has the attributes of its source.
            return mount(Some(first), &point.path, None, MS_BIND, None);
        }
        let empty = self.new_scratch()?;
        write_file(&empty, &[], 0)?;
        bind::mirror(&empty, &point, MOUNT_ATTR_NOEXEC | COVER)?;
        let point = point.path;
        self.masked = Some(Masked { empty, point });
        Ok(())
    }

    /// Unlinks the empty file; the mounts stay.
    fn unlink_mask(&mut self) -> Result<(), Errno> {
        match self.masked.take() {
            Some(masked) => fs::unlink(AT_FDCWD, &masked.empty, 0),
            None => Ok(()),
        }
    }

    fn new_scratch(&mut self) -> Result<CString, Errno> {
        self.scratch_count += 1;
        terminated(mount_point::scratch(self.scratch_count))
    }

    /// Mounts a scratch file over a mount point, read-only, and unlinks the file.
    fn cover_with(&self, scratch: &CString, point: &MountPoint) -> Result<(), Errno> {
        let covered = bind::mirror(scratch, point, COVER);
        covered.and(fs::unlink(AT_FDCWD, scratch, 0))
    }
}

fn folder(target: &[u8]) -> Result<(), Errno> {
    let point = mount_point::path(target)?;
    mount_point::make_parents(target)?;
    match fs::make_directory(AT_FDCWD, &point, 0o555) {
        Err(_) if stat_at(AT_FDCWD, &point, 0).is_ok_and(|found| found.is_directory()) => Ok(()),
        made => made,
    }
}

fn mount_special(target: &[u8], kind: &CStr) -> Result<(), Errno> {
    let point = mount_point::create_if_missing(target, true)?.path;
    mount(
        Some(kind),
        &point,
        Some(kind),
        MS_NOSUID | MS_NODEV | MS_NOEXEC,
        None,
    )
}

/// Mounts a new devpts. Terminals belong to whoever opens them, as without `uid` and `gid`.
fn terminals(target: &[u8], most: u32) -> Result<(), Errno> {
    let point = mount_point::create_if_missing(target, true)?.path;
    let options = terminated(format!("newinstance,ptmxmode=0666,mode=0620,max={most}"))?;
    // Without nodev: the terminals are device files.
    let flags = MS_NOSUID | MS_NOEXEC;
    match mount(
        Some(c"devpts"),
        &point,
        Some(c"devpts"),
        flags,
        Some(&options),
    ) {
        // A kernel without devpts; before Linux 5.7 a user namespace without user 0; a security
        // module. A request for a terminal is refused then.
        Err(Errno::ENODEV | Errno::EINVAL | Errno::EPERM | Errno::EACCES) => Ok(()),
        other => other,
    }
}

fn write_file(point: &CString, content: &[u8], mode: u32) -> Result<(), Errno> {
    let file = mount_point::create(point, 0o600)?;
    io::write_all(&file, content)?;
    fs::change_mode_of(&file, mode & 0o7777)?;
    file.close()
}

/// Makes a mount read-only, without its submounts.
fn read_only(target: &[u8]) -> Result<(), Errno> {
    let point = mount_point::path(target)?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_RDONLY,
        ..MountAttributes::default()
    };
    match set_attributes(AT_FDCWD, &point, 0, &attributes) {
        Err(Errno::ENOSYS | Errno::EPERM) => classic::remount(&point, MS_RDONLY),
        other => other,
    }
}

/// Mounts a part of a mount over itself, read-only.
fn read_only_part(target: &[u8]) -> Result<(), Errno> {
    match mount_point::existing(target) {
        Ok(point) => bind::mirror(&point.path, &point, MOUNT_ATTR_NOEXEC | COVER),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
