//! What a cluster leaves behind its daemons.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::daemons::mounts_below;
use super::layout::Layout;
use super::{network, output};
use crate::engines::process::Identity;
use crate::failure::{Context, Result};

/// The runtime's helper, one for each pod.
const SHIM: &str = "containerd-shim-runc-v2";
const CGROUPS: &str = "/sys/fs/cgroup";
/// The kubelet's group.
const PODS: &str = "kubepods";

/// Removes it: helpers of the runtime, mounts, state of pods, interfaces, control groups. Certificates, logs and images stay.
///
/// # Errors
/// When something is there and cannot be removed.
pub fn remove(layout: &Layout) -> Result<bool> {
    let mut found = end_shims(layout)?;
    for folder in [&layout.state, layout.runtime()] {
        for place in mounts_below(folder)? {
            output(Command::new("umount").arg("-l").arg(place))?;
            found = true;
        }
    }
    // Containers without their pods make the next kubelet fail; images are brought again out of their archives.
    for name in ["addresses", "etcd", "kubelet"] {
        remove_folder(&layout.data(name))?;
    }
    remove_folder(layout.runtime())?;
    found |= network::down()?;
    remove_groups()?;
    Ok(found)
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.context(|| format!("cannot remove {}", folder.display())),
    }
}

/// Ends helpers of this runtime, which name its socket in their arguments.
fn end_shims(layout: &Layout) -> Result<bool> {
    let socket = layout.containerd().display().to_string();
    let mut found = false;
    for entry in fs::read_dir("/proc").context(|| "cannot read /proc".to_owned())? {
        let Some(pid) = entry
            .ok()
            .and_then(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
            // It has ended.
            continue;
        };
        if !line
            .split(|byte| *byte == 0)
            .any(|word| word == socket.as_bytes())
        {
            continue;
        }
        let doing = || format!("cannot end process {pid}");
        let Ok(shim) = Identity::of(pid, SHIM) else {
            continue;
        };
        if let Some(handle) = shim.open().context(doing)? {
            handle.kill().context(doing)?;
            found = true;
        }
    }
    Ok(found)
}

fn remove_groups() -> Result<()> {
    let Ok(hierarchies) = fs::read_dir(CGROUPS) else {
        return Ok(());
    };
    for hierarchy in hierarchies.flatten() {
        let group = hierarchy.path().join(PODS);
        if group.is_dir() {
            remove_group(&group).context(|| format!("cannot remove {}", group.display()))?;
        }
    }
    Ok(())
}

/// Groups go from the innermost outwards; their files go with them.
fn remove_group(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
