//! Checks whether a foreign container protects kernel files from its root user.

use std::path::Path;

use bollard::models::HostConfig;
use sandbox_host::disk_split::is_below;

use crate::verify::ObservedProcess;

/// Files that must be hidden: kernel memory, users' keys, firmware.
const HIDDEN: [&str; 3] = ["/proc/kcore", "/proc/keys", "/sys/firmware"];

/// Paths that must be read-only: through them, user 0 changes the host's kernel without
/// capabilities.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Describes the kernel files that are open; `None` if there are none.
///
/// Uses the engine's lists of paths. If the engine reports none, as Podman does, uses the mounts of
/// the container's first process. Without either, the files count as open.
pub(super) fn unmasked(host: &HostConfig, process: Option<&ObservedProcess>) -> Option<String> {
    if let Some((masked, read_only)) = host.masked_paths.as_ref().zip(host.readonly_paths.as_ref())
    {
        let below_any = |path: &str, list: &[String]| list.iter().any(|it| is_below(path, it));
        return open_files(
            |path| below_any(path, masked),
            |path| below_any(path, read_only),
        );
    }
    let Some(mounts) = process.and_then(|process| process.mounts.as_ref()) else {
        return Some("whether the kernel's own files are masked cannot be told".into());
    };
    // A later mount covers an earlier one.
    let covering_mount = |path: &str| {
        let mut mounts = mounts.iter().rev();
        mounts.find(|mount| is_below(path, &mount.target))
    };
    // Files that this kernel lacks need no mask.
    let is_missing = |path: &str| !Path::new(path).exists();
    open_files(
        |path| {
            is_missing(path)
                || covering_mount(path).is_some_and(|it| it.target.matches('/').count() > 1)
        },
        |path| is_missing(path) || covering_mount(path).is_some_and(|it| it.read_only),
    )
}

fn open_files(
    is_hidden: impl Fn(&str) -> bool,
    is_read_only: impl Fn(&str) -> bool,
) -> Option<String> {
    let shown = HIDDEN.into_iter().filter(|path| !is_hidden(path));
    // A hidden file cannot be written either.
    let writable = READ_ONLY
        .into_iter()
        .filter(|path| !is_read_only(path) && !is_hidden(path));
    let all = shown.chain(writable).collect::<Vec<_>>();
    (!all.is_empty()).then(|| format!("unmasked files of the kernel: {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(masked: &[&str], read_only: &[&str]) -> HostConfig {
        let list = |paths: &[&str]| Some(paths.iter().map(|&path| path.to_owned()).collect());
        HostConfig {
            masked_paths: list(masked),
            readonly_paths: list(read_only),
            ..HostConfig::default()
        }
    }

    fn process(table: &str) -> ObservedProcess {
        ObservedProcess {
            mounts: Some(crate::verify::parse_mounts(table)),
            ..ObservedProcess::default()
        }
    }

    #[test]
    fn engine_lists_decide_if_there_are_any() {
        assert_eq!(unmasked(&lists(&HIDDEN, &READ_ONLY), None), None);
        let text = unmasked(&lists(&[], &[]), None).expect("all open");
        for path in HIDDEN.iter().chain(&READ_ONLY) {
            assert!(text.contains(path), "{text}");
        }
        let text = unmasked(&lists(&HIDDEN, &READ_ONLY[1..]), None).expect("one open");
        assert!(text.ends_with(": /proc/bus"), "{text}");
    }

    #[test]
    fn mount_table_decides_without_lists() {
        let open = "10 1 0:5 / /proc rw - proc proc rw\n11 1 0:6 / /sys ro - sysfs sysfs ro\n";
        let none = HostConfig::default();
        let text = unmasked(&none, Some(&process(open))).expect("open");
        assert!(text.contains("/proc/sys"), "{text}");
        let mut closed = open.to_owned();
        for path in READ_ONLY {
            closed += &format!("12 10 0:5 {path} {path} ro - proc proc rw\n");
        }
        for path in HIDDEN {
            closed += &format!("13 10 0:7 /null {path} rw - tmpfs tmpfs rw\n");
        }
        assert_eq!(unmasked(&none, Some(&process(&closed))), None);
    }

    #[test]
    fn unknown_state_counts_as_open() {
        for process in [None, Some(&ObservedProcess::default())] {
            assert!(unmasked(&HostConfig::default(), process).is_some());
        }
    }
}
