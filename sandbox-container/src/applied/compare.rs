//! Compares the requested with the observed state.

use sandbox_core::{Capability, Enforcement};

use super::asked::Asked;
use super::limits::{Limits, Seen};
use super::mounts::{root_is_read_only, strangers};
use super::process::Process;

type Found = Vec<(Capability, Enforcement)>;

/// Limits are rounded up to pages; this is the largest page size of the supported architectures.
const PAGE: u64 = 64 << 10;

/// Finds limits that are missing or too high.
pub(super) fn limits(asked: &Asked, seen: &Limits) -> Found {
    let mut found = Vec::new();
    let mut missing = |capability, asked: Option<u64>, seen, room, unit: &str| {
        if let Some(asked) = asked
            && let Some(there) = beyond(asked, seen, room)
        {
            let reason = format!("{asked} {unit} were asked for, and the container has {there}");
            found.push((capability, Enforcement::unenforced(reason)));
        }
    };
    missing(Capability::Memory, asked.memory, seen.memory, PAGE, "bytes");
    // A quota has a resolution of 1/100000, so up to a thousandth is lost.
    missing(
        Capability::Cpus,
        asked.cpus,
        seen.cpus,
        1,
        "thousandths of a processor",
    );
    missing(Capability::Pids, asked.pids, seen.pids, 0, "processes");
    if let Some(asked) = asked.memory_and_swap
        && let Some(there) = beyond(asked, seen.memory_and_swap, PAGE)
    {
        let gap = format!(
            "swap is not limited: {asked} bytes with memory were asked for, and the container has {there}"
        );
        found.push((
            Capability::Memory,
            Enforcement::partial("control group", gap),
        ));
    }
    found
}

/// Describes the observed limit if it is above the requested one.
fn beyond(asked: u64, seen: Seen, room: u64) -> Option<String> {
    match seen {
        Seen::Limit(limit) if limit > asked.saturating_add(room) => Some(limit.to_string()),
        Seen::Unlimited => Some("no limit".into()),
        Seen::Missing => Some("none, which its kernel does not count".into()),
        Seen::Limit(_) | Seen::Unknown => None,
    }
}

/// Finds isolation that is missing.
pub(super) fn process(asked: &Asked, seen: &Process) -> Found {
    let mut found = Vec::new();
    let mut gaps = Vec::new();
    if asked.seccomp && seen.seccomp == Some(false) {
        gaps.push("the engine has not applied the seccomp profile".to_owned());
    }
    if seen.no_new_privileges == Some(false) {
        gaps.push("the engine has not set no_new_privs".to_owned());
    }
    if let Some(more) = seen.bounding_set.map(|set| set & !asked.capabilities)
        && more != 0
    {
        gaps.push(format!("the engine has left capabilities ({more:#x})"));
    }
    if !gaps.is_empty() {
        let gap = format!("{}: whoever takes the agent over has them", gaps.join(", "));
        let kept = "what the agent gives each execution";
        found.push((Capability::Privileges, Enforcement::partial(kept, gap)));
    }
    for namespace in &seen.shared_namespaces {
        let reason = format!(
            "the container shares the host's {namespace} namespace, by the engine's configuration"
        );
        let of = |capability| (capability, Enforcement::unenforced(reason.clone()));
        match *namespace {
            "net" => found.extend([of(Capability::NetworkAccess), of(Capability::Egress)]),
            "mnt" => found.extend([
                of(Capability::FilesystemReadRoots),
                of(Capability::FilesystemWriteRoots),
            ]),
            _ => found.push(of(Capability::Processes)),
        }
    }
    if let Some(mounts) = &seen.mounts {
        if asked.read_only_root && root_is_read_only(mounts) == Some(false) {
            let reason = "the container's root can be written";
            found.push((
                Capability::FilesystemWriteRoots,
                Enforcement::unenforced(reason),
            ));
            found.push((Capability::Disk, Enforcement::unenforced(reason)));
        }
        for mount in strangers(mounts, &asked.targets) {
            let (root, target) = (mount.root.escape_debug(), mount.target.escape_debug());
            let reason = format!(
                "the engine's configuration mounts {root} at {target}, which nobody asked for"
            );
            let of = |capability| (capability, Enforcement::unenforced(reason.clone()));
            found.push(of(Capability::FilesystemReadRoots));
            if !mount.read_only {
                found.extend([of(Capability::FilesystemWriteRoots), of(Capability::Disk)]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applied::mounts::mounts;

    fn asked() -> Asked {
        Asked {
            memory: Some(64 << 20),
            memory_and_swap: Some(64 << 20),
            cpus: Some(1500),
            pids: Some(20),
            capabilities: 0x1e0,
            seccomp: true,
            read_only_root: true,
            targets: vec!["/.sandbox-agent".into()],
        }
    }

    fn whole() -> Limits {
        Limits {
            memory: Seen::Limit(64 << 20),
            memory_and_swap: Seen::Limit(64 << 20),
            cpus: Seen::Limit(1500),
            pids: Seen::Limit(20),
        }
    }

    fn process_of(table: &str) -> Process {
        Process {
            no_new_privileges: Some(true),
            seccomp: Some(true),
            bounding_set: Some(0x1e0),
            shared_namespaces: Vec::new(),
            mounts: Some(mounts(table)),
        }
    }

    const TABLE: &str = "\
600 599 0:77 / / ro - overlay overlay rw
601 600 254:1 /volumes/agent /.sandbox-agent ro - ext4 /dev/vda rw
";

    fn statuses(found: &Found) -> Vec<(Capability, &'static str)> {
        found
            .iter()
            .map(|(capability, entry)| (*capability, entry.status()))
            .collect()
    }

    #[test]
    fn what_is_there_is_not_found() {
        assert_eq!(limits(&asked(), &whole()), []);
        assert_eq!(
            limits(&asked(), &Limits::default()),
            [],
            "what cannot be read says nothing"
        );
        assert_eq!(process(&asked(), &process_of(TABLE)), []);
        assert_eq!(process(&asked(), &Process::default()), []);
    }

    #[test]
    fn every_limit_that_is_not_there_is_found() {
        let none = Limits {
            memory: Seen::Unlimited,
            memory_and_swap: Seen::Missing,
            cpus: Seen::Limit(2000),
            pids: Seen::Missing,
        };
        assert_eq!(
            statuses(&limits(&asked(), &none)),
            [
                (Capability::Memory, "unenforced"),
                (Capability::Cpus, "unenforced"),
                (Capability::Pids, "unenforced"),
                (Capability::Memory, "partial"),
            ]
        );
        let swap = Limits {
            memory_and_swap: Seen::Unlimited,
            ..whole()
        };
        assert_eq!(
            statuses(&limits(&asked(), &swap)),
            [(Capability::Memory, "partial")]
        );
    }

    #[test]
    fn every_privilege_that_is_left_is_found() {
        for seen in [
            Process {
                seccomp: Some(false),
                ..process_of(TABLE)
            },
            Process {
                no_new_privileges: Some(false),
                ..process_of(TABLE)
            },
            Process {
                bounding_set: Some(0x3f),
                ..process_of(TABLE)
            },
        ] {
            assert_eq!(
                statuses(&process(&asked(), &seen)),
                [(Capability::Privileges, "partial")]
            );
        }
    }

    #[test]
    fn every_namespace_that_is_shared_is_found() {
        for (name, capability) in [
            ("net", Capability::NetworkAccess),
            ("mnt", Capability::FilesystemReadRoots),
            ("pid", Capability::Processes),
            ("ipc", Capability::Processes),
        ] {
            let seen = Process {
                shared_namespaces: vec![name],
                ..process_of(TABLE)
            };
            let found = statuses(&process(&asked(), &seen));
            assert!(
                found.contains(&(capability, "unenforced")),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn what_an_engine_mounts_by_itself_is_found() {
        let table = TABLE.replace("/ / ro", "/ / rw");
        let found = statuses(&process(&asked(), &process_of(&table)));
        assert_eq!(found[0], (Capability::FilesystemWriteRoots, "unenforced"));
        let table = format!("{TABLE}602 600 254:1 /home /home ro - ext4 /dev/vda rw\n");
        let found = statuses(&process(&asked(), &process_of(&table)));
        assert_eq!(found, [(Capability::FilesystemReadRoots, "unenforced")]);
        let found = statuses(&process(
            &asked(),
            &process_of(&table.replace("/home ro", "/home rw")),
        ));
        assert!(
            found.contains(&(Capability::Disk, "unenforced")),
            "{found:?}"
        );
    }
}
