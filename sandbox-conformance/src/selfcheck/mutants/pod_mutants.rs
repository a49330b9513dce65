//! Mutants of a cluster: a part of the pod that is claimed and left out. The run must fail and name
//! the probe.

use sandbox_k8s::PodMutation;

use super::catalog::{Mutant, MutantChange, PLAIN};
use super::shared_mutants;

const fn pod(name: &'static str, mutation: PodMutation, own: &'static [&'static str]) -> Mutant {
    of(mutation, Mutant { name, own, ..PLAIN })
}

const fn of(mutation: PodMutation, mutant: Mutant) -> Mutant {
    Mutant {
        change: MutantChange::Pod(mutation),
        ..mutant
    }
}

/// Whether the probe's result changes without a failure, because the limit is declared as partial.
pub(super) fn is_quiet(mutation: PodMutation) -> bool {
    matches!(mutation, PodMutation::Processes | PodMutation::Storage)
}

/// Every mutant of a cluster.
pub(super) const POD_MUTANTS: &[Mutant] = &[
    pod(
        "the pod's network",
        PodMutation::Network,
        &["network::tcp4_host_listener"],
    )
    .may(&["network::", "egress::", "denials::network"]),
    of(PodMutation::Seccomp, shared_mutants::SECCOMP),
    of(PodMutation::Memory, shared_mutants::MEMORY),
    pod(
        "no processor limit",
        PodMutation::Processors,
        &["cpus::spinners"],
    ),
    of(PodMutation::Processes, shared_mutants::PROCESSES),
    pod(
        "unbounded storage",
        PodMutation::Storage,
        &["disk::many_files"],
    )
    .may(&["disk::"]),
    of(PodMutation::Filter, shared_mutants::CONTAINER_FILTER),
    of(PodMutation::ReadOnly, shared_mutants::ROOT),
    pod("no Landlock", PodMutation::Landlock, &["layers::landlock"]),
    pod(
        "the node's processes",
        PodMutation::HostProcesses,
        &["processes::host_invisible"],
    )
    .may(&["processes::", "environment::others_variables"]),
    pod(
        "a service account's token",
        PodMutation::Token,
        &["filesystem::cluster_token"],
    ),
    of(PodMutation::User, shared_mutants::USER),
    pod(
        "addresses of services",
        PodMutation::Environment,
        &["environment::exact_set"],
    )
    .may(&["environment::"]),
];
