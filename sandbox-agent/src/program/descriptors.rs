//! Closing inherited descriptors.

use alloc::vec::Vec;

use crate::runtime::{Descriptor, RawFd, descriptor::close, directory::Directory, fs, io, limits};

use super::procfs::Procfs;

/// Closes every descriptor except those in `keep`.
pub(super) fn close_all_but(keep: &mut [RawFd], procfs: Option<&Procfs>) {
    keep.sort_unstable();
    let mut first = 0;
    for next_kept in keep
        .iter()
        .copied()
        .map(RawFd::cast_unsigned)
        .chain([u32::MAX])
    {
        // `close_range` refuses an empty range.
        if first < next_kept && io::close_range(first, next_kept - 1, 0).is_err() {
            // Before Linux 5.9, or denied by an older seccomp profile of the engine.
            close_one_by_one(keep, procfs);
            return;
        }
        first = next_kept.saturating_add(1);
    }
}

fn close_one_by_one(keep: &[RawFd], procfs: Option<&Procfs>) {
    let open = procfs.and_then(list).unwrap_or_else(|| {
        let limit = limits::get(limits::RLIMIT_NOFILE).map_or(1 << 16, |limit| limit.soft);
        (0..RawFd::try_from(limit).unwrap_or(1 << 20)).collect()
    });
    for raw in open {
        if !keep.contains(&raw) {
            // An error means that it is not open.
            let _ = close(raw);
        }
    }
}

fn list(procfs: &Procfs) -> Option<Vec<RawFd>> {
    let folder = fs::open_at(procfs, c"self/fd", fs::O_RDONLY | fs::O_DIRECTORY, 0).ok()?;
    let mut entries = Directory::new(&folder);
    let mut open = Vec::new();
    while let Some(entry) = entries.next_entry().ok()? {
        let raw: RawFd = entry.name.to_str().ok()?.parse().ok()?;
        if raw != folder.raw() {
            open.push(raw);
        }
    }
    Some(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_descriptors_are_listed() {
        let procfs = Procfs::open().unwrap();
        let (one, other) = io::pipe(fs::O_CLOEXEC).unwrap();
        let open = list(&procfs).unwrap();
        for raw in [one.as_raw(), other.as_raw(), procfs.raw()] {
            assert!(open.contains(&raw));
        }
    }
}
