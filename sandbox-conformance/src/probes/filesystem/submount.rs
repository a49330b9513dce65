//! File systems of the host below a granted folder.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use sandbox_core::{Error, ErrorKind};

use crate::canary::Canary;
use crate::probes::prelude::*;

pub(super) const NO_DEVICE: &[ExpectedDenial] = &[
    denied("EACCES", "mounted without devices"),
    denied("EPERM", "the container's devices"),
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied(
        REFUSED,
        "the backend refuses a folder with a file system below it",
    ),
];

const REFUSED: &str = "file_system_refused";

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
    // Not below the roots of other probes: a backend may refuse those meanwhile.
    let folder = context.outside()?;
    let visible = Canary::plant(&folder.join("visible"), 0o644)?;
    let setup = SandboxSetup::with(|policy| {
        policy.filesystem_read_roots = Some(vec![folder.clone()]);
    });
    let read = |path: &Path| Call::new(["read"]).and(path);
    let permitted = read(visible.path());
    let granted = match context.once(&setup).await {
        Ok(sandbox) => {
            let ran = sandbox.run(&permitted).await;
            sandbox.handle().kill().await?;
            ran?.attempt(Some(&visible.fingerprint()))
        }
        Err(error) => context.record_create_error(error),
    };
    context.record_allow_control(Step::new(permitted.text(), granted));
    let mounted = TestMount::at(folder.join("mounted"))?;
    let device = mounted.0.join("null");
    // The device that every container has, so that only the mount can deny it.
    let (kind, mode) = (FileType::CharacterDevice, Mode::from_raw_mode(0o666));
    mknodat(CWD, &device, kind, mode, makedev(1, 3))?;
    context.host_control(&read(&device)).await?;
    let attempt = match context.once(&setup).await {
        Ok(sandbox) => {
            let ran = sandbox.run(&read(&device)).await;
            sandbox.handle().kill().await?;
            ran?.attempt(None)
        }
        Err(error) if refuses(&error, &mounted.0) => Attempt::blocked([REFUSED]),
        Err(error) => context.record_create_error(error),
    };
    context.record_attack(Step::new(read(&device).text(), attempt));
    context.no_host_effect("reading the device has no effect");
    Ok(())
}

fn refuses(error: &Error, mount: &Path) -> bool {
    error.kind() == ErrorKind::Unsupported && error.to_string().contains(&*mount.to_string_lossy())
}
