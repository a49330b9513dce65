//! What killed processes left, removed once per process and in the background.

use std::path::Path;
use std::sync::Once;

use crate::cgroup::remove_stale;
use crate::host::Cgroups;
use crate::owned_folder;

/// Begins, the first time it is called.
pub(crate) fn sweep_once(cgroups: &Cgroups, state: &Path) {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        let (cgroups, state) = (cgroups.clone(), state.to_owned());
        let sweep = move || {
            remove_stale(&cgroups);
            owned_folder::remove_stale(&state);
        };
        if let Err(cause) = std::thread::Builder::new()
            .name("sandbox-sweep".into())
            .spawn(sweep)
        {
            tracing::debug!(%cause, "what killed processes left stays");
        }
    });
}
