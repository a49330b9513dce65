//! Removes what killed processes left behind.

use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

use crate::attached;
use crate::cgroup::remove_leftovers;
use crate::host::Cgroups;
use crate::owned_folder;

/// Starts a sweep in the background on the first call in this process, so that creation does not
/// wait for it.
pub(crate) fn sweep_once(cgroups: &Cgroups, state: &Path) {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| sweep_soon(cgroups, state));
}

/// Starts a sweep in the background.
pub(crate) fn sweep_soon(cgroups: &Cgroups, state: &Path) {
    let (cgroups, state) = (cgroups.clone(), state.to_owned());
    let sweep = move || {
        for left in sweep(&cgroups, &state) {
            tracing::debug!(%left, "leftovers of a killed process could not be removed");
        }
    };
    if let Err(cause) = std::thread::Builder::new()
        .name("sandbox-sweep".into())
        .spawn(sweep)
    {
        tracing::debug!(%cause, "the sweep for leftovers could not start");
    }
}

/// Removes leftovers now. Returns what could not be removed, and why. Groups with processes stay
/// for the next sweep.
pub(crate) fn sweep(cgroups: &Cgroups, state: &Path) -> Vec<String> {
    let mut left = remove_leftovers(cgroups);
    left.extend(owned_folder::remove_leftovers(state));
    left.extend(attached::remove_leftovers(state));
    left
}

/// Like [`sweep`], but waits for processes that are about to end.
pub(crate) fn sweep_all(cgroups: &Cgroups, state: &Path) -> Vec<String> {
    let deadline = Instant::now() + ENDING_TIMEOUT;
    loop {
        let left = sweep(cgroups, state);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Time limit for processes of earlier owners, which were killed before the sweep.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);

const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use sandbox_core::spi::Detached;

    use crate::{LocalBackend, LocalConfig};
    use sandbox_host::Owner;

    #[tokio::test]
    async fn prune_removes_leftovers_of_killed_processes() {
        let state = tempfile::tempdir().expect("a folder");
        let alone = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(state.path(), alone).expect("a mode");
        let left = state.path().join(Owner::ended_for_tests().file_name(0));
        let own = state.path().join(Owner::current().file_name(0));
        for folder in [&left, &own] {
            std::fs::create_dir_all(folder.join("content")).expect("made");
        }
        let config = LocalConfig::new().state_folder(state.path());
        let pruned = LocalBackend::new(config).prune().await.expect("pruned");
        assert_eq!(pruned, Vec::<String>::new());
        assert!(!left.exists() && own.exists());
    }

    #[tokio::test]
    async fn prune_reports_what_it_could_not_remove() {
        let state = tempfile::tempdir().expect("a folder");
        let alone = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(state.path(), alone).expect("a mode");
        let stuck = Owner::ended_for_tests().file_name(0);
        // A file, so that it cannot be removed as a folder.
        std::fs::write(state.path().join(&stuck), "").expect("written");
        let config = LocalConfig::new().state_folder(state.path());
        let error = LocalBackend::new(config).prune().await;
        let error = error.expect_err("something is left").to_string();
        assert!(error.contains(&stuck), "{error}");
    }
}
