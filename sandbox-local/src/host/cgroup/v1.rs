//! v1: a hierarchy for each controller.

use std::path::PathBuf;

use super::tables::Hierarchies;
use super::{Swap, V1, writable};

/// The folders in which groups can be created. `None` if there is none.
pub(super) fn detect(mounts: &Hierarchies, has_swap: bool) -> Option<V1> {
    let own = |controller: &str| -> Option<PathBuf> {
        let hierarchy = mounts
            .v1
            .iter()
            .find(|one| one.controllers.iter().any(|name| name == controller))?;
        writable(&hierarchy.own).then(|| hierarchy.own.clone())
    };
    let memory = own("memory");
    let counts_swap = memory
        .as_ref()
        .is_some_and(|own| own.join("memory.memsw.limit_in_bytes").exists());
    let swap = match (counts_swap, has_swap) {
        (true, _) => Swap::Limited,
        (false, false) => Swap::Absent,
        (false, true) => Swap::Uncounted,
    };
    let groups = V1 {
        memory,
        cpu: own("cpu"),
        pids: own("pids"),
        swap,
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
    use super::super::tables::Hierarchy;
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
        assert_eq!(detect(&Hierarchies::default(), true), None);
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
