use std::fmt::Write as _;
use std::path::PathBuf;

use sandbox_agent::protocol::Confinement;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{
    CapabilityPolicy, HostMount, Plan, SandboxSpec, Storage, StorageMount, Workspace,
};

use super::*;
use crate::seccomp::{Action, Arch, EngineProfile, Errno, Syscall};

const SPLIT: Mode = Mode::Split {
    uid: 1000,
    gid: 1000,
};
const ISOLATIONS: [Isolation; 3] = [Isolation::Namespaces, Isolation::Container, Isolation::Host];

fn kernel(arch: Arch) -> Kernel {
    Kernel {
        arch,
        landlock_abi: 7,
        seccomp: true,
        seccomp_notify: true,
    }
}

fn plan(policy: &CapabilityPolicy) -> Plan {
    let mut spec = SandboxSpec::new("any");
    spec.workspace = Some(Workspace::read_write("/home/user/project"));
    Plan::resolve(&spec, policy).expect("a plan within its policy")
}

fn profile(plan: &Plan, isolation: Isolation) -> Profile {
    Profile::new(isolation, Paths::of(plan, isolation))
}

/// The readable confinement of a plan on a kernel of this architecture.
fn confined(plan: &Plan, arch: Arch, mode: Mode, profile: &Profile) -> String {
    text(&confinement(plan, &kernel(arch), mode, profile))
}

/// A readable confinement: shows the program's size instead of its bytes, since the rules are
/// shown, too.
fn text(confinement: &Confinement) -> String {
    let mut text = String::new();
    let Confinement {
        identity,
        limits,
        landlock,
        seccomp,
        exec_once,
        umask,
    } = confinement;
    let mut line =
        |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes it");
    line(format_args!("identity {identity:?}"));
    line(format_args!("umask {umask:03o}, exec_once {exec_once}"));
    line(format_args!("seccomp: {} instructions", seccomp.len() / 8));
    for limit in limits {
        line(format_args!("limit {} = {}", limit.resource, limit.value));
    }
    match landlock {
        None => line(format_args!("no landlock")),
        Some(rules) => {
            let (fs, net, scoped) = (rules.handled_fs, rules.handled_net, rules.scoped);
            line(format_args!(
                "landlock handles {fs:#x}, network {net:#x}, scoped {scoped:#x}"
            ));
            for rule in &rules.paths {
                line(format_args!(
                    "  {:#06x} {}",
                    rule.access,
                    rule.path.escape_ascii()
                ));
            }
        }
    }
    text
}

#[test]
fn rules_of_each_profile() {
    let open = plan(&CapabilityPolicy::new());
    let mut policy = CapabilityPolicy::new();
    policy.subprocess_execution = Some(false);
    let single = plan(&policy);
    for arch in Arch::ALL {
        let kernel = kernel(arch);
        for (name, plan, mode, isolation) in [
            ("namespaces", &open, SPLIT, Isolation::Namespaces),
            (
                "container_shared",
                &open,
                Mode::Shared,
                Isolation::Container,
            ),
            ("host_shared", &open, Mode::Shared, Isolation::Host),
        ] {
            let filter = filter(plan, &kernel, mode, &profile(plan, isolation));
            insta::assert_snapshot!(format!("rules_{name}_{arch}"), filter);
        }
        // The agent's notification handler or the filter refuses processes, never both.
        let filter = |plan, kernel: &Kernel| {
            filter(plan, kernel, SPLIT, &profile(plan, Isolation::Namespaces))
        };
        let (asked, all) = (filter(&single, &kernel), filter(&open, &kernel));
        assert_eq!(asked.to_string(), all.to_string());
        let kernel = Kernel {
            seccomp_notify: false,
            ..kernel
        };
        insta::assert_snapshot!(
            format!("rules_single_process_{arch}"),
            filter(&single, &kernel)
        );
    }
}

#[test]
fn container_profile() {
    for arch in Arch::ALL {
        let profile = EngineProfile::new(&container_filter(arch)).to_json();
        // One line per group; still valid JSON.
        let lines = profile.replace("{\"names\"", "\n{\"names\"");
        insta::assert_snapshot!(format!("profile_{arch}"), lines);
    }
}

/// A profile that is given to an engine replaces the engine's own.
#[test]
fn profile_allows_nothing_that_engines_deny() {
    const DENIED: &[&str] = &[
        "acct",
        "add_key",
        "bpf",
        "clock_adjtime",
        "clock_settime",
        "clone3",
        "create_module",
        "delete_module",
        "fanotify_init",
        "fanotify_mark",
        "file_setattr",
        "finit_module",
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "get_kernel_syms",
        "get_mempolicy",
        "init_module",
        "ioperm",
        "iopl",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "kcmp",
        "kexec_file_load",
        "kexec_load",
        "keyctl",
        "lookup_dcookie",
        "lsm_set_self_attr",
        "mbind",
        "migrate_pages",
        "mount",
        "mount_setattr",
        "move_mount",
        "move_pages",
        "name_to_handle_at",
        "nfsservctl",
        "open_by_handle_at",
        "open_tree",
        "perf_event_open",
        "pidfd_getfd",
        "pivot_root",
        "process_madvise",
        "process_vm_readv",
        "process_vm_writev",
        "ptrace",
        "query_module",
        "quotactl",
        "quotactl_fd",
        "reboot",
        "request_key",
        "set_mempolicy",
        "set_mempolicy_home_node",
        "setdomainname",
        "sethostname",
        "setns",
        "settimeofday",
        "swapoff",
        "swapon",
        "_sysctl",
        "sysfs",
        "syslog",
        "umount2",
        "unshare",
        "uselib",
        "userfaultfd",
        "ustat",
        "vhangup",
    ];
    for arch in Arch::ALL {
        let profile = serde_json::to_value(EngineProfile::new(&container_filter(arch)));
        let profile = profile.expect("plain data");
        let allowed = profile["syscalls"].as_array().expect("groups").iter();
        let allowed = allowed.filter(|group| group["action"] == "SCMP_ACT_ALLOW");
        let names = allowed.flat_map(|group| group["names"].as_array().expect("names"));
        for name in names {
            let name = name.as_str().expect("a name");
            assert!(!DENIED.contains(&name), "{name} on {arch}");
        }
    }
}

/// The container's filter refuses everything that the executions' filters refuse for every plan.
/// What it refuses beyond that is listed.
#[test]
fn container_filter_covers_execution_filters() {
    // Without folders of the host, whose sockets concern only some plans.
    let plan = Plan::resolve(&SandboxSpec::new("any"), &CapabilityPolicy::new());
    let plan = plan.expect("a plan within its policy");
    // The agent sets limits of executions.
    let agents = [
        Syscall::IOPRIO_SET,
        Syscall::SCHED_SETAFFINITY,
        Syscall::SCHED_SETPARAM,
        Syscall::SCHED_SETSCHEDULER,
        Syscall::SETPRIORITY,
    ];
    for arch in Arch::ALL {
        let agents = agents.map(|syscall| syscall.number(arch));
        let own = filter(
            &plan,
            &kernel(arch),
            SPLIT,
            &profile(&plan, Isolation::Container),
        );
        let all = container_filter(arch);
        let mut beyond = Vec::new();
        for number in 0..480 {
            // These arguments are typical of calls whose decision depends on arguments.
            let arguments = [1, 1, 0, 0, 0, 0];
            let decided = (
                own.decide(number, &arguments),
                all.decide(number, &arguments),
            );
            match decided {
                (Action::Allow, Action::Allow) => {}
                (Action::Allow, _) => beyond.push(number),
                (_, Action::Allow) => assert!(agents.contains(&Some(number)), "{number} on {arch}"),
                _ => {}
            }
        }
        assert!(beyond.len() <= 8, "{beyond:?}");
    }
}

#[test]
fn confinement_of_a_default_plan() {
    let plan = plan(&CapabilityPolicy::new());
    let profile = profile(&plan, Isolation::Namespaces);
    insta::assert_snapshot!(confined(&plan, Arch::X86_64, SPLIT, &profile));
}

#[test]
fn confinement_in_shared_mode() {
    let plan = plan(&CapabilityPolicy::new());
    let profile = profile(&plan, Isolation::Container);
    insta::assert_snapshot!(confined(&plan, Arch::Aarch64, Mode::Shared, &profile));
}

#[test]
fn confinement_without_subprocesses() {
    let mut policy = CapabilityPolicy::new();
    policy.subprocess_execution = Some(false);
    policy.filesystem_read_roots = Some(vec![PathBuf::from("/usr"), PathBuf::from("/data")]);
    policy.artifact_export_paths = vec!["/output/*.csv".into()];
    let plan = plan(&policy);
    let profile = profile(&plan, Isolation::Namespaces);
    insta::assert_snapshot!(confined(&plan, Arch::X86_64, SPLIT, &profile));
}

#[test]
fn confinement_in_the_hosts_namespaces() {
    let plan = plan(&CapabilityPolicy::new());
    let mut profile = profile(&plan, Isolation::Host);
    profile.agent = 4321;
    profile.memory_by_rlimit = true;
    profile.pids_by_rlimit = true;
    profile.disk_by_rlimit = true;
    insta::assert_snapshot!(confined(&plan, Arch::X86_64, Mode::Shared, &profile));
}

#[test]
fn every_combination_compiles_to_the_same_bytes_twice() {
    let networks = [NetworkPolicy::None, NetworkPolicy::Full];
    for arch in Arch::ALL {
        for isolation in ISOLATIONS {
            for mode in [SPLIT, Mode::Shared] {
                for (network, subprocess) in networks.iter().zip([true, false]) {
                    let mut policy = CapabilityPolicy::new();
                    policy.network = Some(network.clone());
                    policy.subprocess_execution = Some(subprocess);
                    let plan = plan(&policy);
                    let mut profile = profile(&plan, isolation);
                    for agent in [1, 4321, u32::MAX] {
                        profile.agent = agent;
                        let first = confinement(&plan, &kernel(arch), mode, &profile);
                        assert!(!first.seccomp.is_empty() && first.seccomp.len() < 8 * 1000);
                        assert_eq!(first.exec_once, !subprocess);
                        assert_eq!(first, confinement(&plan, &kernel(arch), mode, &profile));
                    }
                }
            }
        }
    }
}

#[test]
fn missing_kernel_mechanisms_are_reported() {
    let plan = plan(&CapabilityPolicy::new());
    let bare = Kernel {
        landlock_abi: 0,
        seccomp: false,
        seccomp_notify: false,
        ..kernel(Arch::X86_64)
    };
    let confinement = confinement(&plan, &bare, SPLIT, &profile(&plan, Isolation::Namespaces));
    assert!(confinement.seccomp.is_empty() && confinement.landlock.is_none());
    assert_eq!(privileges(&bare, SPLIT).status(), "partial");
    assert_eq!(subprocess_execution(&bare).status(), "unenforced");
}

#[test]
fn enforcement_by_kernel() {
    let mut text = String::new();
    for (seccomp, seccomp_notify) in [(true, true), (true, false), (false, false)] {
        for landlock_abi in [6, 5] {
            let kernel = Kernel {
                landlock_abi,
                seccomp,
                seccomp_notify,
                ..kernel(Arch::X86_64)
            };
            writeln!(
                text,
                "seccomp {seccomp}, notify {seccomp_notify}, landlock {landlock_abi}"
            )
            .expect("a string takes it");
            for (name, mode) in [("split", SPLIT), ("shared", Mode::Shared)] {
                let disturbance = disturbance(&kernel, mode).unwrap_or_else(|| "none".into());
                writeln!(text, "  {name}: privileges {}", privileges(&kernel, mode)).expect("fits");
                writeln!(text, "  {name}: disturbance {disturbance}").expect("fits");
            }
            writeln!(text, "  subprocesses {}", subprocess_execution(&kernel)).expect("fits");
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn landlock_uses_only_rights_of_the_abi() {
    let expected = [
        (0, 0, 0, 0),
        (1, 0x1fff, 0, 0),
        (2, 0x3fff, 0, 0),
        (3, 0x7fff, 0, 0),
        (4, 0x7fff, 3, 0),
        (5, 0xffff, 3, 0),
        (6, 0xffff, 3, 3),
        (7, 0xffff, 3, 3),
        (99, 0xffff, 3, 3),
    ];
    for (abi, fs, net, scopes) in expected {
        assert_eq!((handled_fs(abi), handled_net(abi)), (fs, net), "ABI {abi}");
        let (none, full) = (&NetworkPolicy::None, &NetworkPolicy::Full);
        assert_eq!(scoped(abi, Isolation::Host, none), scopes, "ABI {abi}");
        for isolation in ISOLATIONS {
            assert_eq!(scoped(abi, isolation, full), scopes, "ABI {abi}");
        }
    }
    let plan = plan(&CapabilityPolicy::new());
    for isolation in ISOLATIONS {
        for landlock_abi in 1..8 {
            let kernel = Kernel {
                landlock_abi,
                ..kernel(Arch::X86_64)
            };
            let rules = landlock(&plan, &kernel, &profile(&plan, isolation)).expect("Landlock");
            // The kernel refuses rules without rights, or with unhandled rights.
            assert!(
                rules
                    .paths
                    .iter()
                    .all(|rule| rule.access != 0 && rule.access & !rules.handled_fs == 0)
            );
        }
    }
}

/// Abstract sockets belong to the network namespace, which is the host's with the full network.
#[test]
fn full_network_without_landlock_scopes_has_no_unix_sockets() {
    let mut policy = CapabilityPolicy::new();
    policy.network = Some(NetworkPolicy::Full);
    let plan = plan(&policy);
    let socket = |isolation, landlock_abi| {
        let kernel = Kernel {
            landlock_abi,
            ..kernel(Arch::X86_64)
        };
        let filter = filter(&plan, &kernel, SPLIT, &profile(&plan, isolation));
        // socket(AF_UNIX, SOCK_STREAM, 0)
        filter.decide(41, &[1, 1, 0, 0, 0, 0])
    };
    let refused = Action::Errno(Errno::EAFNOSUPPORT);
    assert_eq!(socket(Isolation::Namespaces, 6), Action::Allow);
    assert_eq!(socket(Isolation::Namespaces, 5), refused);
    assert_eq!(socket(Isolation::Namespaces, 0), refused);
    // A container has a network namespace of its own.
    assert_eq!(socket(Isolation::Container, 0), Action::Allow);
}

/// A host's daemon may listen in each of them, and a read-only mount does not hinder `connect`.
#[test]
fn visible_folders_and_storage_leave_no_unix_sockets() {
    let policy = || {
        let storage = Storage::volume("shared");
        CapabilityPolicy::new().storage("lab", storage)
    };
    let decision = |spec: SandboxSpec, policy: &CapabilityPolicy| {
        let plan = Plan::resolve(&spec, policy).expect("a plan");
        let profile = profile(&plan, Isolation::Container);
        let filter = filter(&plan, &kernel(Arch::X86_64), SPLIT, &profile);
        // socket(AF_UNIX, SOCK_STREAM, 0)
        filter.decide(41, &[1, 1, 0, 0, 0, 0])
    };
    let spec = || SandboxSpec::new("any");
    assert_eq!(decision(spec(), &policy()), Action::Allow);
    let mut roots = policy();
    roots.filesystem_read_roots = Some(vec!["/srv/data".into()]);
    for (spec, policy) in [
        (spec(), roots),
        (
            spec().workspace(Workspace::read_only("/srv/data")),
            policy(),
        ),
        (
            spec().mount(HostMount::read_only("/srv/data", "/data")),
            policy(),
        ),
        (
            spec().storage(StorageMount::read_only("lab", "/lab")),
            policy(),
        ),
    ] {
        let refused = Action::Errno(Errno::EAFNOSUPPORT);
        assert_eq!(decision(spec.clone(), &policy), refused, "{spec:?}");
    }
}

#[test]
fn folders_of_exported_files() {
    let folders = |patterns: &[&str]| {
        let patterns = patterns
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect::<Vec<_>>();
        let folders = export_folders(&patterns);
        folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        folders(&["/output/*.json", "/output/report.csv"]),
        ["/output"]
    );
    assert_eq!(folders(&["/output"]), ["/output"]);
    assert_eq!(
        folders(&["/output/**/*.png", "/output/plots/[ab].svg"]),
        ["/output"]
    );
    assert_eq!(
        folders(&["/b/c/?", "/a/x", "/ab/{x,y}"]),
        ["/a", "/ab", "/b/c"]
    );
    assert_eq!(folders(&["/*.csv", "/"]), Vec::<String>::new());
    assert_eq!(folders(&["//output//result.txt"]), ["/output"]);
}
