//! Compares the requested with the observed state.

use sandbox_core::{Capability, Enforcement, Mechanism};

use super::limits::{ObservedLimit, ObservedLimits};
use super::mounts::{root_is_read_only, unexpected_mounts};
use super::process::ObservedProcess;
use super::requested::RequestedState;

type Findings = Vec<(Capability, Enforcement)>;

/// Limits are rounded up to pages; this is the largest page size of the supported
/// architectures.
const PAGE: u64 = 64 << 10;

/// Finds limits that are missing or too high.
pub(super) fn limits(requested: &RequestedState, observed: &ObservedLimits) -> Findings {
    let mut findings = Vec::new();
    let mut missing = |capability, requested: Option<u64>, observed, room, unit: &str| {
        if let Some(requested) = requested
            && let Some(excess) = excess(requested, observed, room)
        {
            let reason =
                format!("{requested} {unit} were asked for, and the container has {excess}");
            findings.push((capability, Enforcement::unenforced(reason)));
        }
    };
    missing(
        Capability::Memory,
        requested.memory,
        observed.memory,
        PAGE,
        "bytes",
    );
    // A quota has a resolution of 1/100000, so up to a thousandth is lost.
    missing(
        Capability::Cpus,
        requested.cpus,
        observed.cpus,
        1,
        "thousandths of a processor",
    );
    missing(
        Capability::Pids,
        requested.pids,
        observed.pids,
        0,
        "processes",
    );
    if let Some(requested) = requested.memory_and_swap
        && let Some(excess) = excess(requested, observed.memory_and_swap, PAGE)
    {
        let gap = format!(
            "swap is not limited: {requested} bytes with memory were asked for, and the container has {excess}"
        );
        findings.push((
            Capability::Memory,
            Enforcement::partial(Mechanism::ControlGroup, gap),
        ));
    }
    findings
}

/// Describes the observed limit if it is above the requested one.
fn excess(requested: u64, observed: ObservedLimit, room: u64) -> Option<String> {
    match observed {
        ObservedLimit::Limit(limit) if limit > requested.saturating_add(room) => {
            Some(limit.to_string())
        }
        ObservedLimit::Unlimited => Some("no limit".into()),
        ObservedLimit::Missing => Some("none, which its kernel does not count".into()),
        ObservedLimit::Limit(_) | ObservedLimit::Unknown => None,
    }
}

/// Finds isolation that is missing.
pub(super) fn process(requested: &RequestedState, observed: &ObservedProcess) -> Findings {
    let mut findings = Vec::new();
    let mut gaps = Vec::new();
    if requested.seccomp && observed.seccomp == Some(false) {
        gaps.push("the engine has not applied the seccomp profile".to_owned());
    }
    if observed.no_new_privileges == Some(false) {
        gaps.push("the engine has not set no_new_privs".to_owned());
    }
    if let Some(more) = observed
        .bounding_set
        .map(|set| set & !requested.capabilities)
        && more != 0
    {
        gaps.push(format!("the engine has left capabilities ({more:#x})"));
    }
    if !gaps.is_empty() {
        let gap = format!(
            "{}: code that takes over the agent has them",
            gaps.join(", ")
        );
        let partial = Enforcement::partial(Mechanism::ExecutionConfinement, gap);
        findings.push((Capability::Privileges, partial));
    }
    for namespace in &observed.shared_namespaces {
        let reason = format!(
            "the container shares the host's {namespace} namespace, by the engine's configuration"
        );
        let of = |capability| (capability, Enforcement::unenforced(reason.clone()));
        match *namespace {
            "net" => findings.extend([of(Capability::NetworkAccess), of(Capability::Egress)]),
            "mnt" => findings.extend([
                of(Capability::FilesystemReadRoots),
                of(Capability::FilesystemWriteRoots),
            ]),
            _ => findings.push(of(Capability::Processes)),
        }
    }
    if let Some(mounts) = &observed.mounts {
        if requested.read_only_root && root_is_read_only(mounts) == Some(false) {
            let reason = "the container's root can be written";
            findings.push((
                Capability::FilesystemWriteRoots,
                Enforcement::unenforced(reason),
            ));
            findings.push((Capability::Disk, Enforcement::unenforced(reason)));
        }
        for mount in unexpected_mounts(mounts, &requested.targets) {
            let (root, target) = (mount.root.escape_debug(), mount.target.escape_debug());
            let reason = format!(
                "the engine's configuration mounts {root} at {target}, which the request does not name"
            );
            let of = |capability| (capability, Enforcement::unenforced(reason.clone()));
            findings.push(of(Capability::FilesystemReadRoots));
            if !mount.read_only {
                findings.extend([of(Capability::FilesystemWriteRoots), of(Capability::Disk)]);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::mounts::parse_mounts;

    fn requested() -> RequestedState {
        RequestedState {
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

    fn matching_limits() -> ObservedLimits {
        ObservedLimits {
            memory: ObservedLimit::Limit(64 << 20),
            memory_and_swap: ObservedLimit::Limit(64 << 20),
            cpus: ObservedLimit::Limit(1500),
            pids: ObservedLimit::Limit(20),
        }
    }

    fn process_of(table: &str) -> ObservedProcess {
        ObservedProcess {
            no_new_privileges: Some(true),
            seccomp: Some(true),
            bounding_set: Some(0x1e0),
            shared_namespaces: Vec::new(),
            mounts: Some(parse_mounts(table)),
        }
    }

    const TABLE: &str = "\
600 599 0:77 / / ro - overlay overlay rw
601 600 254:1 /volumes/agent /.sandbox-agent ro - ext4 /dev/vda rw
";

    fn statuses(findings: &Findings) -> Vec<(Capability, &'static str)> {
        findings
            .iter()
            .map(|(capability, entry)| (*capability, entry.status()))
            .collect()
    }

    #[test]
    fn matching_state_has_no_differences() {
        assert_eq!(limits(&requested(), &matching_limits()), []);
        assert_eq!(
            limits(&requested(), &ObservedLimits::default()),
            [],
            "what cannot be read says nothing"
        );
        assert_eq!(process(&requested(), &process_of(TABLE)), []);
        assert_eq!(process(&requested(), &ObservedProcess::default()), []);
    }

    #[test]
    fn missing_and_higher_limits_are_detected() {
        let none = ObservedLimits {
            memory: ObservedLimit::Unlimited,
            memory_and_swap: ObservedLimit::Missing,
            cpus: ObservedLimit::Limit(2000),
            pids: ObservedLimit::Missing,
        };
        assert_eq!(
            statuses(&limits(&requested(), &none)),
            [
                (Capability::Memory, "unenforced"),
                (Capability::Cpus, "unenforced"),
                (Capability::Pids, "unenforced"),
                (Capability::Memory, "partial"),
            ]
        );
        let swap = ObservedLimits {
            memory_and_swap: ObservedLimit::Unlimited,
            ..matching_limits()
        };
        assert_eq!(
            statuses(&limits(&requested(), &swap)),
            [(Capability::Memory, "partial")]
        );
    }

    #[test]
    fn missing_process_restrictions_make_privileges_partial() {
        for observed in [
            ObservedProcess {
                seccomp: Some(false),
                ..process_of(TABLE)
            },
            ObservedProcess {
                no_new_privileges: Some(false),
                ..process_of(TABLE)
            },
            ObservedProcess {
                bounding_set: Some(0x3f),
                ..process_of(TABLE)
            },
        ] {
            assert_eq!(
                statuses(&process(&requested(), &observed)),
                [(Capability::Privileges, "partial")]
            );
        }
    }

    #[test]
    fn shared_namespaces_are_detected() {
        for (name, capability) in [
            ("net", Capability::NetworkAccess),
            ("mnt", Capability::FilesystemReadRoots),
            ("pid", Capability::Processes),
            ("ipc", Capability::Processes),
        ] {
            let observed = ObservedProcess {
                shared_namespaces: vec![name],
                ..process_of(TABLE)
            };
            let findings = statuses(&process(&requested(), &observed));
            assert!(
                findings.contains(&(capability, "unenforced")),
                "{name}: {findings:?}"
            );
        }
    }

    #[test]
    fn writable_root_and_unrequested_mounts_are_detected() {
        let table = TABLE.replace("/ / ro", "/ / rw");
        let findings = statuses(&process(&requested(), &process_of(&table)));
        assert_eq!(
            findings[0],
            (Capability::FilesystemWriteRoots, "unenforced")
        );
        let table = format!("{TABLE}602 600 254:1 /home /home ro - ext4 /dev/vda rw\n");
        let findings = statuses(&process(&requested(), &process_of(&table)));
        assert_eq!(findings, [(Capability::FilesystemReadRoots, "unenforced")]);
        let findings = statuses(&process(
            &requested(),
            &process_of(&table.replace("/home ro", "/home rw")),
        ));
        assert!(
            findings.contains(&(Capability::Disk, "unenforced")),
            "{findings:?}"
        );
    }
}
