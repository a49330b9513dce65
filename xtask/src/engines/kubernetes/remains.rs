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
/// Where the network's plugins keep what came of their work: a file for each network of a pod, named after both.
const RESULTS: &str = "/var/lib/cni/results";
/// Where kubelets keep the logs of pods, and links to them.
const LOGS: &str = "/var/log/pods";
const LINKS: &str = "/var/log/containers";
const CGROUPS: &str = "/sys/fs/cgroup";
/// The kubelet's group.
const PODS: &str = "kubepods";

/// Removes it: helpers of the runtime, mounts, state of pods and their logs, of which those in `logs` are known, interfaces, control
/// groups. Certificates, the daemons' logs and images stay.
///
/// # Errors
/// When something is there and cannot be removed.
pub fn remove(layout: &Layout, logs: &[String]) -> Result<bool> {
    let mut found = end_shims(layout)?;
    remove_logs(layout, logs)?;
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
    forget_results()?;
    found |= network::down()?;
    remove_groups()?;
    Ok(found)
}

/// Removes what the runtime knows of containers, and with it its images, which are in archives.
///
/// # Errors
/// When it cannot be removed.
pub fn forget_containers(layout: &Layout) -> Result<()> {
    remove_folder(&layout.data("containerd"))
}

/// Removes logs of pods, which no kubelet lets lie elsewhere: those of the given folders, and those of pods that the kubelet's own folder
/// names. Another kubelet of this machine may have others.
fn remove_logs(layout: &Layout, folders: &[String]) -> Result<()> {
    let own = layout.data("kubelet").join("pods");
    let own: Vec<_> = names(&own).into_iter().map(|id| format!("_{id}")).collect();
    let logs = Path::new(LOGS);
    for name in names(logs) {
        if folders.contains(&name) || own.iter().any(|id| name.ends_with(id)) {
            remove_folder(&logs.join(name))?;
        }
    }
    // Links to them, by the names of containers.
    for name in names(Path::new(LINKS)) {
        let link = Path::new(LINKS).join(name);
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(logs) && !target.exists()) {
            fs::remove_file(&link).context(|| format!("cannot remove {}", link.display()))?;
        }
    }
    Ok(())
}

/// The names in a folder, of which there are none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// Removes what the network's plugins note of pods whose end nobody has told them.
fn forget_results() -> Result<()> {
    let found = names(Path::new(RESULTS));
    let ours = found
        .iter()
        .filter_map(|name| name.strip_prefix("sandbox-")?.strip_suffix("-eth0"));
    for pod in ours {
        for name in [
            format!("sandbox-{pod}-eth0"),
            format!("cni-loopback-{pod}-lo"),
        ] {
            let path = Path::new(RESULTS).join(&name);
            if found.contains(&name) {
                fs::remove_file(&path).context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    Ok(())
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
