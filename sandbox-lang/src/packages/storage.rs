//! The disk usage of a folder.

use std::path::Path;

/// More entries than any set of packages has. A folder with more counts as infinitely large.
const MOST_ENTRIES: usize = 2_000_000;

/// Bytes on disk of everything below a folder. Does not follow links. Skips entries that disappear
/// meanwhile.
#[must_use]
pub fn used(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut used = 0_u64;
    let mut seen = 0_usize;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                return u64::MAX;
            }
            let Ok(found) = entry.metadata() else {
                continue;
            };
            used = used.saturating_add(found.blocks().saturating_mul(512));
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allocated_bytes_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner).expect("made");
        std::fs::write(inner.join("file"), vec![1; 100_000]).expect("written");
        let sparse = std::fs::File::create(inner.join("sparse")).expect("made");
        sparse.set_len(1 << 40).expect("grown");
        std::os::unix::fs::symlink("/usr", inner.join("link")).expect("a link");
        let used = used(folder.path());
        assert!((100_000..300_000).contains(&used), "{used}");
    }
}
