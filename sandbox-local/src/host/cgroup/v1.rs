//! v1: a hierarchy for each controller.

use std::path::Path;

use super::tables::{Hierarchies, Hierarchy};
use super::{Swap, V1, writable};

/// A controller that limits nothing here, and one of its files whose content is no secret.
const MARKERS: [(&str, &str); 2] = [
    ("cpuset", "cpuset/cpuset.cpus"),
    ("cpuacct", "cpuacct/cgroup.clone_children"),
];

/// The folders in which groups can be created. `None` if there is none.
pub(super) fn detect(mounts: &Hierarchies, has_swap: bool) -> Option<V1> {
    let of = |controller: &str| {
        let has_it = |one: &&Hierarchy| one.controllers.iter().any(|name| name == controller);
        Some(&mounts.v1.iter().find(has_it)?.own)
    };
    let own = |controller: &str| of(controller).filter(|own| writable(own)).cloned();
    let memory = own("memory");
    let counts_swap = memory
        .as_ref()
        .is_some_and(|own| own.join("memory.memsw.limit_in_bytes").exists());
    let swap = match (counts_swap, has_swap) {
        (true, _) => Swap::Limited,
        (false, false) => Swap::Absent,
        (false, true) => Swap::Uncounted,
    };
    let limits = ["memory", "cpu", "pids"].map(of);
    let markers = MARKERS.iter().filter_map(|(controller, file)| {
        let folder = of(controller).filter(|own| !limits.contains(&Some(own)))?;
        Some((folder.join(Path::new(file).file_name()?), *file))
    });
    let groups = V1 {
        memory,
        cpu: own("cpu"),
        pids: own("pids"),
        swap,
        markers: markers.collect(),
    };
    (groups.count() > 0).then_some(groups)
}

/// Whether the host has its controllers on v1, usable for this user or not.
pub(super) fn is_in_use(mounts: &Hierarchies) -> bool {
    let wanted = ["memory", "cpu", "pids"];
    mounts
        .v1
        .iter()
        .flat_map(|one| &one.controllers)
        .any(|name| wanted.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(folder: &std::path::Path, controllers: &[&str]) -> Hierarchy {
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        Hierarchy {
            controllers,
            mount: folder.into(),
            own: folder.into(),
        }
    }

    #[test]
    fn missing_hierarchies_are_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path();
        let mounts = Hierarchies {
            v1: vec![
                hierarchy(here, &["rw", "cpu", "cpuacct"]),
                hierarchy(&here.join("gone"), &["rw", "pids"]),
            ],
            v2: None,
        };
        let groups = detect(&mounts, true).expect("cpu is there");
        assert_eq!(groups.cpu.as_deref(), Some(here));
        assert_eq!((groups.memory, groups.pids), (None, None));
        assert_eq!(groups.markers, [], "cpuacct is in the hierarchy of cpu");
        assert_eq!(detect(&Hierarchies::default(), true), None);
    }

    #[test]
    fn hierarchies_without_limits_have_a_marker() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let named = |name| hierarchy(&at(name), &["rw", name]);
        let mut mounts = Hierarchies {
            v1: vec![named("cpuset"), named("cpuacct")],
            v2: None,
        };
        mounts.v1.push(hierarchy(folder.path(), &["rw", "memory"]));
        let groups = detect(&mounts, true).expect("memory is there");
        let expected = [
            (at("cpuset/cpuset.cpus"), "cpuset/cpuset.cpus"),
            (
                at("cpuacct/cgroup.clone_children"),
                "cpuacct/cgroup.clone_children",
            ),
        ];
        assert_eq!(groups.markers, expected);
    }

    #[test]
    fn swap_accounting_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path();
        let mounts = Hierarchies {
            v1: vec![hierarchy(here, &["memory"])],
            v2: None,
        };
        let swap = |has_swap| detect(&mounts, has_swap).map(|groups| groups.swap);
        assert_eq!(swap(false), Some(Swap::Absent));
        assert_eq!(swap(true), Some(Swap::Uncounted));
        std::fs::write(here.join("memory.memsw.limit_in_bytes"), "").expect("written");
        assert_eq!(swap(true), Some(Swap::Limited));
    }
}
