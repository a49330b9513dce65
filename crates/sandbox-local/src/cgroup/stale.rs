//! Groups that a killed process left behind.

use std::path::Path;

use crate::host::Cgroups;
use crate::owned_name::Owner;

/// Removes empty groups whose owner is gone. One that still holds a process stays: its processes are about to end.
pub(crate) fn remove_stale(cgroups: &Cgroups) {
    match cgroups {
        Cgroups::V1(groups) => {
            [&groups.memory, &groups.cpu, &groups.pids]
                .into_iter()
                .flatten()
                .for_each(|f| sweep(f));
        }
        Cgroups::V2(groups) => sweep(&groups.folder),
        Cgroups::None { .. } => {}
    }
}

fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let gone = entry
            .file_name()
            .to_str()
            .and_then(Owner::of)
            .is_some_and(|owner| owner.is_gone());
        if gone && let Err(cause) = std::fs::remove_dir(entry.path()) {
            tracing::debug!(group = %entry.path().display(), %cause, "a stale control group stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owned_name::fresh;

    #[test]
    fn only_what_a_dead_process_left_goes() {
        let parent = tempfile::tempdir().expect("a folder");
        let alive = Owner::current();
        let dead = Owner {
            start: alive.start + 1,
            ..alive
        };
        let keep = [fresh(), "sandbox-other".to_owned()];
        let go = format!("{}0", dead.prefix());
        for name in keep.iter().chain([&go]) {
            std::fs::create_dir(parent.path().join(name)).expect("made");
        }
        sweep(parent.path());
        assert!(keep.iter().all(|name| parent.path().join(name).exists()));
        assert!(!parent.path().join(go).exists());
    }
}
