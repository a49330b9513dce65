//! Lies of a cluster's backend: something of the pod is claimed and left out. The run must turn red, and name the probe.

use sandbox_k8s::Mutation;

use super::alike;
use super::catalog::{Change, Mutant, PLAIN};

const fn pod(name: &'static str, mutation: Mutation, own: &'static [&'static str]) -> Mutant {
    of(mutation, Mutant { name, own, ..PLAIN })
}

const fn of(mutation: Mutation, mutant: Mutant) -> Mutant {
    Mutant {
        change: Change::Pod(mutation),
        ..mutant
    }
}

/// Whether a probe finds something else, and no failure: a limit that is declared as partial is not claimed in whole.
pub(super) fn is_quiet(mutation: Mutation) -> bool {
    matches!(mutation, Mutation::Processes | Mutation::Storage)
}

/// Every lie.
pub(super) const PODS: &[Mutant] = &[
    pod(
        "the pod's network",
        Mutation::Network,
        &["network::tcp4_host_listener"],
    )
    .may(&["network::", "denials::network"]),
    of(Mutation::Seccomp, alike::SECCOMP),
    of(Mutation::Memory, alike::MEMORY),
    pod(
        "no processor limit",
        Mutation::Processors,
        &["cpus::spinners"],
    ),
    of(Mutation::Processes, alike::PROCESSES),
    pod(
        "unbounded storage",
        Mutation::Storage,
        &["disk::many_files"],
    )
    .may(&["disk::"]),
    of(Mutation::Filter, alike::CONTAINER_FILTER),
    of(Mutation::ReadOnly, alike::ROOT),
    pod("no Landlock", Mutation::Landlock, &["layers::landlock"]),
    pod(
        "the node's processes",
        Mutation::HostProcesses,
        &["processes::host_invisible"],
    )
    .may(&["processes::", "environment::others_variables"]),
    pod(
        "a service account's token",
        Mutation::Token,
        &["filesystem::cluster_token"],
    ),
    of(Mutation::User, alike::USER),
    pod(
        "addresses of services",
        Mutation::Environment,
        &["environment::exact_set"],
    )
    .may(&["environment::"]),
];
