//! The mutants: the fault of each, and the probes that must notice it.

use std::time::Duration;

use sandbox_core::ExecEnd;
use sandbox_core::policy::NetworkPolicy;
use sandbox_local::LocalMutation;

use super::altered::{
    Alteration, ExecAlteration, ExportAlteration, inherit_environment, leave_open, lose_exit_code,
};
use super::{feature_mutants, loosened_rules};

/// A backend with one fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mutant {
    pub(super) name: &'static str,
    /// The probes whose result must change. A name that ends with `::` is an area, of which at
    /// least one must.
    pub(super) own: &'static [&'static str],
    /// The probes whose result may change, because they depend on the same mechanism.
    pub(super) may: &'static [&'static str],
    pub(super) change: MutantChange,
    /// The host property that the fault needs.
    pub(super) needs: Option<HostRequirement>,
}

/// A name in the profile's key, and the values that mean that the host lacks it.
type HostRequirement = (&'static str, &'static [&'static str]);

#[derive(Debug, Clone, Copy)]
pub(super) enum MutantChange {
    /// A mechanism of the local backend is left out.
    Mechanism(LocalMutation),
    /// Results of the local backend are altered.
    Alteration(Alteration),
    /// An engine option is left out.
    #[cfg(feature = "engines")]
    EngineOption(sandbox_container::ContainerMutation),
    /// A part of the pod is left out.
    #[cfg(feature = "k8s")]
    Pod(sandbox_k8s::PodMutation),
}

impl Mutant {
    /// Adds probes that may notice too.
    pub(super) const fn may(mut self, may: &'static [&'static str]) -> Self {
        self.may = may;
        self
    }

    /// Whether the run must fail. For the others, a worse verdict is enough: it fails the comparison
    /// with a committed profile.
    pub(super) fn must_fail(&self) -> bool {
        match self.change {
            MutantChange::Mechanism(_) | MutantChange::Alteration(_) => false,
            #[cfg(feature = "engines")]
            MutantChange::EngineOption(_) => true,
            #[cfg(feature = "k8s")]
            MutantChange::Pod(mutation) => !super::pod_mutants::is_quiet(mutation),
        }
    }

    /// Why this host has nothing to leave out.
    pub(super) fn impossible(&self, key: &[(String, String)]) -> Option<String> {
        let namespaces = matches!(self.change, MutantChange::Mechanism(_)).then_some(NAMESPACES);
        let lacks = |(name, absent): &HostRequirement| {
            key.iter()
                .any(|(key, value)| key == name && absent.contains(&value.as_str()))
        };
        let lacking = namespaces.into_iter().chain(self.needs).find(lacks)?;
        Some(format!("this host has no {}", lacking.0))
    }
}

const NAMESPACES: HostRequirement = ("user_namespaces", &["no"]);
const CONTROL_GROUPS: HostRequirement = ("cgroup", &["none"]);
const LANDLOCK: HostRequirement = ("landlock", &["0"]);
const LANDLOCK_SCOPES: HostRequirement = ("landlock", &["0", "1", "2", "3", "4", "5"]);
const SECCOMP: HostRequirement = ("seccomp", &["no"]);

/// A mutant without a fault.
pub(super) const PLAIN: Mutant = Mutant {
    name: "",
    own: &[],
    may: &[],
    change: MutantChange::Alteration(Alteration::NONE),
    needs: None,
};

const fn mechanism(
    name: &'static str,
    mutation: LocalMutation,
    own: &'static [&'static str],
) -> Mutant {
    Mutant {
        name,
        own,
        change: MutantChange::Mechanism(mutation),
        ..PLAIN
    }
}

pub(super) const fn altered(
    name: &'static str,
    alteration: Alteration,
    own: &'static [&'static str],
) -> Mutant {
    Mutant {
        name,
        own,
        change: MutantChange::Alteration(alteration),
        ..PLAIN
    }
}

const fn end(name: &'static str, end: fn(&mut ExecEnd), own: &'static [&'static str]) -> Mutant {
    let alteration = Alteration {
        end,
        ..Alteration::NONE
    };
    altered(name, alteration, own)
}

const fn exports(
    name: &'static str,
    exports: ExportAlteration,
    own: &'static [&'static str],
) -> Mutant {
    let alteration = Alteration {
        exports,
        ..Alteration::NONE
    };
    altered(name, alteration, own)
}

pub(super) const fn exec(
    name: &'static str,
    exec: ExecAlteration,
    own: &'static [&'static str],
) -> Mutant {
    let alteration = Alteration {
        exec,
        ..Alteration::NONE
    };
    altered(name, alteration, own)
}

/// Every mutant.
pub(super) const MUTANTS: &[Mutant] = &[
    mechanism(
        "no network namespace",
        LocalMutation::NetworkNamespace,
        &["network::tcp4_host_listener", "network::udp4_host_listener"],
    )
    .may(&[
        "network::",
        "egress::",
        "neighbors::unix_abstract",
        "denials::network",
        "packages::no_registry",
    ]),
    mechanism(
        "no ipc namespace",
        LocalMutation::IpcNamespace,
        &["neighbors::system_v_memory"],
    )
    .may(&["neighbors::message_queue"]),
    Mutant {
        needs: Some(SECCOMP),
        ..mechanism(
            "no seccomp",
            LocalMutation::Seccomp,
            &[
                "kernel::io_uring",
                "kernel::keyring",
                "network::vsock",
                "layers::filter",
                "memory::huge_pages",
                "kernel::file_requests",
                "kernel::leases",
                "kernel::limits_of_another",
                "kernel::list_attributes",
                "kernel::list_personalities",
                "kernel::list_protocols",
                "kernel::list_requests",
                "kernel::memory_policy",
                "kernel::process_attributes",
                "kernel::refused_calls",
                "network::socket_families",
                "network::unix_pair_read_root",
                "filesystem::file_flags",
                "filesystem::set_group_id",
                "filesystem::whiteout",
            ],
        )
        .may(&[
            "kernel::",
            "network::",
            "subprocess::",
            "filesystem::unmount",
        ])
    },
    Mutant {
        needs: Some(CONTROL_GROUPS),
        ..mechanism(
            "no cgroup",
            LocalMutation::ControlGroups,
            &[
                "memory::many_processes",
                "memory::measured",
                "cpus::spinners",
            ],
        )
        .may(&[
            "memory::",
            "denials::memory",
            "layers::group_pids",
            "layers::group_swap",
        ])
    },
    mechanism(
        "no resource limits",
        LocalMutation::ResourceLimits,
        &[
            "open_files::many",
            "open_files::measured",
            "layers::limit_pids",
            "kernel::crash_helper",
            "kernel::resource_limits",
        ],
    ),
    mechanism(
        "unbounded storage",
        LocalMutation::Storage,
        &["disk::one_file", "disk::many_files", "disk::measured"],
    )
    .may(&["disk::"]),
    mechanism(
        "writable root",
        LocalMutation::ReadOnly,
        // Landlock denies the writes, too.
        &["layers::read_only"],
    )
    .may(&["filesystem::"]),
    Mutant {
        needs: Some(LANDLOCK),
        ..mechanism(
            "no Landlock",
            LocalMutation::Landlock,
            &["layers::landlock"],
        )
        .may(&["filesystem::", "processes::", "network::unix_abstract_full"])
    },
    Mutant {
        needs: Some(LANDLOCK_SCOPES),
        ..mechanism(
            "no Landlock scopes",
            LocalMutation::LandlockScopes,
            &["network::unix_abstract_full"],
        )
        .may(&["processes::"])
    },
    mechanism(
        "writable kernel settings",
        LocalMutation::KernelSettings,
        &["layers::kernel_settings"],
    )
    .may(&["kernel::"]),
    Mutant {
        // Another user does not see root's keys.
        needs: Some(("user", &["root"])),
        ..mechanism(
            "keys shown",
            LocalMutation::KeyRings,
            &["kernel::key_names"],
        )
    },
    mechanism(
        "users without limits",
        LocalMutation::UserLimits,
        &["layers::user_limits"],
    ),
    mechanism(
        "host /proc",
        LocalMutation::Processes,
        &["processes::host_invisible"],
    ),
    mechanism(
        "host /dev",
        LocalMutation::Devices,
        // Landlock denies opening them.
        &["kernel::device_nodes"],
    )
    .may(&[
        "kernel::host_devices",
        "disk::shared_memory",
        "neighbors::shared_memory_folder",
    ]),
    mechanism(
        "roots by path",
        LocalMutation::RootsByPath,
        &["two_sandboxes::workspace_parent"],
    )
    .may(&["two_sandboxes::"]),
    mechanism(
        "links followed",
        LocalMutation::FollowLinks,
        &[
            "second_run::read_root",
            "second_run::read_root_other_policy",
            "second_run::read_root_parent",
            "second_run::write_root",
            "second_run::workspace",
        ],
    )
    .may(&["second_run::", "two_sandboxes::"]),
    mechanism(
        "movable mount points",
        LocalMutation::MovableMountPoints,
        &["second_run::nested_read_root"],
    )
    .may(&["packages::"]),
    altered(
        "inherited environment",
        Alteration {
            request: inherit_environment,
            ..Alteration::NONE
        },
        &["environment::host_variable", "environment::exact_set"],
    )
    .may(&["environment::"]),
    altered(
        "open descriptors",
        Alteration {
            request: leave_open,
            ..Alteration::NONE
        },
        &["environment::descriptors"],
    )
    .may(&["exec::missing_program", "subprocess::"]),
    altered(
        "children allowed",
        Alteration {
            plan: |plan| plan.subprocess = true,
            ..Alteration::NONE
        },
        &[
            "subprocess::fork",
            "subprocess::vfork",
            "subprocess::execute",
        ],
    )
    .may(&["subprocess::", "denials::process", "denials::program"]),
    altered(
        "network allowed",
        Alteration {
            plan: |plan| plan.network = NetworkPolicy::Full,
            ..Alteration::NONE
        },
        &[
            "network::tcp4_host_listener",
            "egress::address_literal",
            "egress::udp",
        ],
    )
    .may(&[
        "network::",
        "egress::",
        "neighbors::unix_abstract",
        "denials::network",
        "packages::no_registry",
    ]),
    loosened_rules::NAMES,
    loosened_rules::SUFFIXES,
    loosened_rules::KEPT,
    loosened_rules::PORTS,
    loosened_rules::PRIVATE,
    loosened_rules::REQUESTS,
    loosened_rules::FIRST_REQUESTS,
    loosened_rules::METHODS,
    loosened_rules::PATHS,
    altered(
        "timeouts ignored",
        Alteration {
            request: |request| request.timeout = Some(Duration::from_secs(30)),
            ..Alteration::NONE
        },
        &["timeout::stubborn", "timeout::busy_tree"],
    )
    .may(&["timeout::", "denials::timeout"]),
    exec(
        "killpg only",
        ExecAlteration::GroupKilled,
        &["timeout::detached_tree"],
    ),
    exec(
        "dropped executions go on",
        ExecAlteration::GoesOn,
        &["processes::dropped_execution"],
    )
    .may(&["output::flood", "timeout::"]),
    altered(
        "sandboxes never end",
        Alteration {
            immortal: true,
            ..Alteration::NONE
        },
        &["processes::end_of_sandbox"],
    ),
    exec(
        "output uncapped",
        ExecAlteration::Unstoppable,
        &["output::flood"],
    ),
    exec(
        "one stream for both",
        ExecAlteration::OneStream,
        &["streams::separate"],
    )
    .may(&["streams::", "output::"]),
    exec(
        "output cut short",
        ExecAlteration::CutShort,
        &["streams::binary_integrity", "files::round_trip"],
    )
    .may(&["streams::", "output::", "denials::output", "files::"]),
    exec(
        "no input",
        ExecAlteration::NoInput,
        &["sessions::state", "streams::binary_integrity"],
    )
    .may(&["sessions::", "streams::", "terminal::"]),
    end(
        "exit code defaulted to 0",
        lose_exit_code,
        &["exec::exit_codes", "exec::signals"],
    )
    .may(&[
        "exec::",
        "kernel::compat_calls",
        "subprocess::compat_fork",
        "streams::many_writes",
    ]),
    end(
        "denials not reported",
        |end| end.refused.clear(),
        &["denials::network"],
    ),
    exports(
        "stale artifacts",
        ExportAlteration::Stale,
        &["artifacts::exported_again"],
    ),
    exports(
        "artifacts without the limit of their number",
        ExportAlteration::TwiceAsMany,
        &["artifacts::limits"],
    ),
    exports(
        "hidden artifacts left out",
        ExportAlteration::NotHidden,
        &["artifacts::names"],
    ),
    end(
        "memory not reported",
        |end| end.max_rss = Some(0),
        &["exec::usage"],
    ),
    end(
        "missing output not told",
        |end| end.incomplete = None,
        &["output::incomplete"],
    ),
    exec(
        "longer time limits with input",
        ExecAlteration::PatientWithInput,
        &["timeout::with_input"],
    ),
    exec(
        "one mode for all files",
        ExecAlteration::SameMode,
        &["files::modes"],
    ),
    feature_mutants::ENDED_BY_LIMITS,
    feature_mutants::LONG_LIFETIME,
    feature_mutants::DEAF,
    feature_mutants::ONE_TERMINAL_SIZE,
    feature_mutants::NO_TERMINALS,
    feature_mutants::WRITABLE_MOUNTS,
    feature_mutants::KEPT_VARIABLES,
    feature_mutants::SECRETS_FOR_CODE,
    feature_mutants::SECRETS_FOR_ALL,
    feature_mutants::RECYCLED,
];
