//! A lowered plan as text.

use std::fmt::Write as _;

use sandbox_agent::protocol::Mount;
use sandbox_host::confinement::{PLATFORM_ETC, PLATFORM_READ_ROOTS};

use super::super::{EtcEntry, LocalPlan};

pub(super) fn render(plan: &LocalPlan) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
    line(format!("isolation: {:?} {:?}", plan.isolation, plan.mode));
    line(format!(
        "namespaces: {}, network beside: {}",
        namespaces(plan.namespaces),
        plan.network
    ));
    for mount in &plan.setup.mounts {
        line(mount_line(mount));
    }
    let setup = &plan.setup;
    line(format!(
        "setup: hostname {:?}, loopback {}, user namespace {}, first process {}, dies with parent {}",
        String::from_utf8_lossy(&setup.hostname),
        setup.loopback,
        setup.user_namespace,
        setup.pid_one,
        setup.die_with_parent,
    ));
    for limit in &setup.user_limits {
        let name = String::from_utf8_lossy(&limit.name);
        line(format!("user limit {name} = {}", limit.most));
    }
    line(format!(
        "scratch: {} bytes, {} inodes",
        plan.scratch.size, plan.scratch.inodes
    ));
    for folder in &plan.scratch.folders {
        line(format!(
            "scratch {}: {:o}, owned {}",
            folder.name, folder.mode, folder.owned
        ));
    }
    for (path, entry) in plan.etc.iter().flat_map(|etc| &etc.entries) {
        match entry {
            EtcEntry::File(content) => {
                line(format!(
                    "etc {} {:?}",
                    path.display(),
                    String::from_utf8_lossy(content)
                ));
            }
            EtcEntry::Copy(_) => line(format!("etc {} copied", path.display())),
            entry => line(format!("etc {} {entry:?}", path.display())),
        }
    }
    for mapped in &plan.mapped {
        line(format!(
            "mapped {} of {:?}",
            mapped.path.display(),
            mapped.from
        ));
    }
    line(format!("groups: {:?}", plan.groups));
    line(format!("sampled memory: {:?}", plan.sampled_memory));
    line(format!("work folder: {:?}", plan.workdir));
    let confinement = &plan.confinement;
    line(format!(
        "identity {:?}, seccomp {}, exec once {}, umask {:o}",
        confinement.identity,
        !confinement.seccomp.is_empty(),
        confinement.exec_once,
        confinement.umask
    ));
    for limit in &confinement.limits {
        line(format!("rlimit {} = {}", limit.resource, limit.value));
    }
    if let Some(rules) = &confinement.landlock {
        line(format!(
            "landlock fs {:#x} net {:#x} scoped {:#x}",
            rules.handled_fs, rules.handled_net, rules.scoped
        ));
        // The platform's rules are tested elsewhere.
        let platform = [PLATFORM_READ_ROOTS, PLATFORM_ETC].concat();
        let known = |path: &[u8]| platform.iter().any(|known| known.as_bytes() == path);
        for rule in rules.paths.iter().filter(|rule| !known(&rule.path)) {
            line(format!(
                "landlock {:#06x} {}",
                rule.access,
                String::from_utf8_lossy(&rule.path)
            ));
        }
    }
    for (capability, enforcement) in plan.report.iter() {
        line(format!("{capability}: {enforcement}"));
    }
    text
}

fn mount_line(mount: &Mount) -> String {
    // The key of the prepared `/etc` is a hash that depends on the compiler version.
    let path = |path: &[u8]| match std::str::from_utf8(path).expect("samples are text") {
        path if path.starts_with("/run/sandbox/etc/") => "/run/sandbox/etc/KEY".to_owned(),
        path => path.to_owned(),
    };
    match mount {
        Mount::Bind {
            source,
            target,
            read_only,
            devices,
            optional,
            // The samples have none.
            object: _,
        } => {
            let mut line = if *read_only {
                "ro ".to_owned()
            } else {
                "rw ".to_owned()
            };
            if *devices {
                line += "devices ";
            }
            if *optional {
                line += "optional ";
            }
            line += &path(source);
            if source != target {
                line += " -> ";
                line += &path(target);
            }
            line
        }
        Mount::Terminals { target, most } => format!("terminals {} max {most}", path(target)),
        Mount::Proc { target } => format!("proc {}", path(target)),
        Mount::Symlink { points_to, target } => {
            format!("link {} -> {}", path(target), path(points_to))
        }
        Mount::Dir { target } => format!("folder {}", path(target)),
        Mount::File {
            target,
            content,
            mode,
        } => {
            format!(
                "file {} {mode:o} {:?}",
                path(target),
                String::from_utf8_lossy(content)
            )
        }
        Mount::ReadOnly { target } => format!("read-only {}", path(target)),
        Mount::Mask { target, .. } => format!("mask {}", path(target)),
        Mount::Pin { target } => format!("pin {}", path(target)),
        Mount::ReadOnlyPart { target } => format!("read-only part {}", path(target)),
        other => format!("{other:?}"),
    }
}

fn namespaces(flags: u64) -> String {
    let names = [
        (0x0002_0000, "mount"),
        (0x0200_0000, "cgroup"),
        (0x0400_0000, "uts"),
        (0x0800_0000, "ipc"),
        (0x1000_0000, "user"),
        (0x2000_0000, "pid"),
        (0x4000_0000, "net"),
    ];
    let there = names
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .map(|(_, name)| *name);
    there.collect::<Vec<_>>().join(" ")
}
