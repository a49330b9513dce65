//! The sandbox's `/sys`. It has what runtimes read to choose the number of their threads and the
//! size of their heaps, and nothing else of the host's.

use std::path::Path;

use sandbox_agent::protocol::{Mount, Setup};

use super::mounts::{bind, bytes};
use super::roots::{Bind, Roots, is_within};
use crate::cgroup::Group;

/// Where the kernel's files are, and the rule that lets code read them.
pub(super) const SYS: &str = "/sys";

/// Where runtimes look for the limits of their control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// The numbers of the processors, for `lscpu`, `nproc --all` and `sysconf`. The folders beside them
/// have temperatures and frequencies, which tell code of its neighbors.
const PROCESSORS: [&str; 3] = [
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/present",
];

/// Everything except the control groups: their folders have no names yet.
pub(super) fn mounts(roots: &Roots<'_>) -> Vec<Mount> {
    let mut mounts = Vec::new();
    if roots.access(Path::new(SYS)).is_none() {
        mounts.push(folder_at(SYS));
    }
    let groups = Path::new(GROUPS);
    let is_hidden_by_groups = |bind: &Bind<'_>| is_within(bind.path, groups);
    if roots.access(groups).is_none() && !roots.binds.iter().any(is_hidden_by_groups) {
        mounts.push(folder_at(GROUPS));
    }
    for file in PROCESSORS.map(Path::new) {
        if roots.access(file).is_none() {
            let mut mount = bind(file, file, true);
            if let Mount::Bind { optional, .. } = &mut mount {
                // A container may hide its host's.
                *optional = true;
            }
            mounts.push(mount);
        }
    }
    mounts
}

/// Shows the sandbox's own control groups, read-only, unless a root of the policy is there.
pub(crate) fn with_groups(mut setup: Setup, group: Option<&Group>) -> Setup {
    let own = folder_at(GROUPS);
    let position = setup.mounts.iter().position(|mount| *mount == own);
    if let (Some(position), Some(group)) = (position, group) {
        let visible = group.visible().into_iter();
        let binds = visible.map(|(source, name)| match name {
            "" => bind(source, Path::new(GROUPS), true),
            name => bind(source, &Path::new(GROUPS).join(name), true),
        });
        setup.mounts.splice(position + 1..position + 1, binds);
    }
    setup
}

fn folder_at(path: &str) -> Mount {
    Mount::Dir {
        target: bytes(Path::new(path)),
    }
}
