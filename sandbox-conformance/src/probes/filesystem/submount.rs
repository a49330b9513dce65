//! File systems of the host below a granted folder.

use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::canary::Canary;
use crate::probes::prelude::*;

pub(super) const NO_DEVICE: &[ExpectedDenial] = &[
    denied("EACCES", "mounted without devices"),
    denied("EPERM", "the container's devices"),
    denied("ENOENT", "the sandbox's file system does not contain it"),
];

/// A file system in memory, until it is dropped.
struct TestMount(PathBuf);

impl TestMount {
    fn at(folder: PathBuf) -> Result<Self, ProbeError> {
        crate::host_fixture::make_folder(&folder)?;
        mount("none", &folder, "tmpfs", MountFlags::empty(), None)?;
        Ok(Self(folder))
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        // The fixture says if its folder cannot be removed.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

pub(super) async fn open_device(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ProbeError::new("only root can mount a file system"));
    }
    let folder = context.read_folder()?;
    let visible = Canary::plant(&folder.join("visible"), 0o644)?;
    let mounted = TestMount::at(folder.join("mounted"))?;
    let device = mounted.0.join("null");
    // The device that every container has, so that only the mount can deny it.
    let (kind, mode) = (FileType::CharacterDevice, Mode::from_raw_mode(0o666));
    mknodat(CWD, &device, kind, mode, makedev(1, 3))?;
    let read = |path: &std::path::Path| Call::new(["read"]).and(path);
    context.host_control(&read(&device)).await?;
    let permitted = read(visible.path()).expect(visible.fingerprint());
    context.allow_control(&permitted).await;
    context.attack(&read(&device)).await;
    context.no_host_effect("reading the device has no effect");
    Ok(())
}
