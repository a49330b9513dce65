//! Names of control groups and folders. Each contains its [`Owner`], so that leftovers of a killed
//! process can be recognized.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_host::{Owner, OwnerStatus};

/// Paths in `parent` whose names contain an owner that is gone. Empty if `parent` cannot be read.
pub(crate) fn leftovers_in(parent: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_leftover = |entry: &std::fs::DirEntry| {
        let owner = entry.file_name().to_str().and_then(Owner::from_file_name);
        owner.is_some_and(|owner| owner.status() == OwnerStatus::Gone)
    };
    std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_leftover)
        .map(|entry| entry.path())
}

/// A name that is unique on this host.
pub(crate) fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    Owner::current().file_name(COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_names_differ_and_contain_this_process() {
        let name = unique_name();
        assert_ne!(name, unique_name());
        assert_eq!(Owner::from_file_name(&name), Some(Owner::current()));
    }
}
