//! The lines that `doctor` shows for this host.

use sandbox_core::spi::Finding;

use super::cgroup::Swap;
use super::{Availability, Cgroups, Host, Isolation};

/// One line for each host feature that changes what is enforced.
pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let mut findings = vec![
        isolation(host),
        support("namespaces", "a mount was made in them", &host.namespaces),
        support(
            "own /proc",
            "a procfs was mounted in a new process namespace",
            &host.proc_mount,
        ),
        support(
            "mapped mounts",
            "mount_setattr is there",
            &host.id_mapped_mounts,
        ),
        landlock(host),
        flag(
            "seccomp filters",
            host.seccomp.filters,
            "use a kernel with CONFIG_SECCOMP_FILTER",
        ),
        flag(
            "seccomp notification",
            host.seccomp.notification,
            "use Linux 5.5 or later",
        ),
    ];
    findings.extend(cgroups(&host.cgroups));
    findings
}

fn finding(name: &str, present: bool, detail: impl Into<String>, fix: &str) -> Finding {
    let fix = if present {
        String::new()
    } else {
        fix.to_owned()
    };
    Finding {
        name: name.to_owned(),
        present,
        detail: detail.into(),
        fix,
    }
}

fn flag(name: &str, present: bool, fix: &str) -> Finding {
    finding(
        name,
        present,
        if present {
            "available"
        } else {
            "not available"
        },
        fix,
    )
}

fn support(name: &str, there: &str, support: &Availability) -> Finding {
    match support {
        Availability::Present => finding(name, true, there, ""),
        Availability::Missing { reason, fix } => finding(name, false, reason.clone(), fix),
    }
}

fn isolation(host: &Host) -> Finding {
    let (present, detail) = match host.isolation() {
        Some(Isolation::Privileged) => (true, "root: code runs as a subordinate user of its own"),
        Some(Isolation::UserNamespace) => (
            true,
            "user namespace: code runs as the caller, without capabilities",
        ),
        Some(Isolation::Landlock) => (
            false,
            "no namespaces: Landlock, seccomp and limits, with gaps",
        ),
        None => (
            false,
            "none: code would run as root of the host without namespaces",
        ),
    };
    let fix = match &host.namespaces {
        Availability::Missing { fix, .. } => fix,
        Availability::Present => "",
    };
    finding("isolation", present, detail, fix)
}

fn landlock(host: &Host) -> Finding {
    match host.landlock_abi {
        0 => finding(
            "Landlock",
            false,
            "not available",
            "use Linux 5.13 or later, with landlock in the kernel's list of security modules (lsm=)",
        ),
        abi => finding("Landlock", true, format!("ABI {abi}"), ""),
    }
}

fn cgroups(cgroups: &Cgroups) -> Vec<Finding> {
    if let Cgroups::None { reason, fix } = cgroups {
        return vec![finding("control groups", false, reason.clone(), fix)];
    }
    let (there, missing, fix) = match cgroups.scope() {
        Some(scope) => (
            format!("in a scope of {}", scope.manager()),
            format!("{} has no such controller to give", scope.manager()),
            scope.fix(),
        ),
        None => (
            cgroups.summary(),
            "not writable here".to_owned(),
            "have the administrator hand the controller down to this process' cgroup",
        ),
    };
    let detail = |has: bool| if has { there.clone() } else { missing.clone() };
    let controllers = [
        ("control group: memory", cgroups.has_memory()),
        ("control group: cpu", cgroups.has_cpu()),
        ("control group: pids", cgroups.has_pids()),
    ];
    let mut findings = controllers
        .map(|(name, there)| finding(name, there, detail(there), fix))
        .to_vec();
    if cgroups.has_memory() {
        let (present, detail) = match cgroups.swap() {
            Swap::Limited => (true, "counted with memory"),
            Swap::Absent => (true, "the host has none"),
            Swap::Uncounted => (false, "not counted by the kernel"),
        };
        findings.push(finding(
            "limit of swap",
            present,
            detail,
            "boot with swapaccount=1",
        ));
    }
    findings
}
