//! Mutants of a cluster: a part of the pod that is claimed and left out. The run must fail and name
//! the probe.

use sandbox_k8s::Mutation;

use super::catalog::{Mutant, MutantChange, PLAIN};
use super::shared_mutants;

const fn pod(name: &'static str, mutation: Mutation, own: &'static [&'static str]) -> Mutant {
    of(mutation, Mutant { name, own, ..PLAIN })
}

const fn of(mutation: Mutation, mutant: Mutant) -> Mutant {
    Mutant {
        change: MutantChange::Pod(mutation),
        ..mutant
    }
}

/// Whether the probe's result changes without a failure, because the limit is declared as partial.
pub(super) fn is_quiet(mutation: Mutation) -> bool {
    matches!(mutation, Mutation::Processes | Mutation::Storage)
}

/// Every mutant of a cluster.
pub(super) const POD_MUTANTS: &[Mutant] = &[
    pod(
        "the pod's network",
        Mutation::Network,
        &["network::tcp4_host_listener"],
    )
    .may(&["network::", "denials::network"]),
    of(Mutation::Seccomp, shared_mutants::SECCOMP),
    of(Mutation::Memory, shared_mutants::MEMORY),
    pod(
        "no processor limit",
        Mutation::Processors,
        &["cpus::spinners"],
    ),
    of(Mutation::Processes, shared_mutants::PROCESSES),
    pod(
        "unbounded storage",
        Mutation::Storage,
        &["disk::many_files"],
    )
    .may(&["disk::"]),
    of(Mutation::Filter, shared_mutants::CONTAINER_FILTER),
    of(Mutation::ReadOnly, shared_mutants::ROOT),
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
    of(Mutation::User, shared_mutants::USER),
    pod(
        "addresses of services",
        Mutation::Environment,
        &["environment::exact_set"],
    )
    .may(&["environment::"]),
];
