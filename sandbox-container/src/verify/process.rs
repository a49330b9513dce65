//! Reads the kernel's state of a container's first process.

use std::fs;
use std::path::Path;

use super::mounts::{ObservedMount, parse_mounts};

/// The kernel's state of a container's first process. Unreadable fields are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObservedProcess {
    pub no_new_privileges: Option<bool>,
    /// Whether a seccomp filter applies.
    pub seccomp: Option<bool>,
    /// The capabilities that its programs could ever gain, as a bit mask.
    pub bounding_set: Option<u64>,
    /// The namespaces shared with this process.
    pub shared_namespaces: Vec<&'static str>,
    pub mounts: Option<Vec<ObservedMount>>,
}

/// The namespaces that every container should have for itself.
const NAMESPACES: [&str; 5] = ["mnt", "pid", "ipc", "uts", "net"];

impl ObservedProcess {
    /// Reads a process folder in `/proc`; `None` if the process has ended.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let mut process = Self::of_status(&status);
        let link = |folder: &Path, name: &str| fs::read_link(folder.join("ns").join(name)).ok();
        process.shared_namespaces = NAMESPACES
            .into_iter()
            .filter(|name| {
                let namespace = link(folder, name);
                namespace.is_some() && namespace == link(Path::new("/proc/self"), name)
            })
            .collect();
        let table = fs::read_to_string(folder.join("mountinfo")).ok();
        process.mounts = table.map(|table| parse_mounts(&table));
        Some(process)
    }

    fn of_status(status: &str) -> Self {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.strip_prefix(':')?.trim())
        };
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        Self {
            no_new_privileges: field("NoNewPrivs").map(|value| value == "1"),
            seccomp: field("Seccomp").map(|value| value == "2"),
            bounding_set: field("CapBnd").and_then(hexadecimal),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields_are_parsed() {
        let status =
            "CapBnd:\t00000000000001e0\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let process = ObservedProcess::of_status(status);
        assert_eq!(process.bounding_set, Some(0x1e0));
        assert_eq!(process.no_new_privileges, Some(true));
        assert_eq!(process.seccomp, Some(true));
        assert_eq!(
            ObservedProcess::of_status("Seccomp:\t0\n").seccomp,
            Some(false)
        );
        assert_eq!(ObservedProcess::of_status("").bounding_set, None);
    }

    #[test]
    fn process_in_the_same_namespaces_shares_all_of_them() {
        let process = ObservedProcess::read(Path::new("/proc/self")).expect("this process");
        assert_eq!(process.shared_namespaces, NAMESPACES);
        assert!(process.mounts.is_some_and(|mounts| !mounts.is_empty()));
        assert_eq!(ObservedProcess::read(Path::new("/proc/0")), None);
    }
}
