//! Mutants of engines: an option that is claimed and not set. The run must fail and name the probe.

use sandbox_container::ContainerMutation;

use super::catalog::{Mutant, MutantChange, PLAIN};
use super::shared_mutants;

const fn engine_mutant(
    name: &'static str,
    mutation: ContainerMutation,
    own: &'static [&'static str],
) -> Mutant {
    of(mutation, Mutant { name, own, ..PLAIN })
}

const fn of(mutation: ContainerMutation, mutant: Mutant) -> Mutant {
    Mutant {
        change: MutantChange::EngineOption(mutation),
        ..mutant
    }
}

/// Every mutant of an engine.
pub(super) const ENGINE_MUTANTS: &[Mutant] = &[
    engine_mutant(
        "the host's network",
        ContainerMutation::Network,
        &["network::tcp4_host_listener"],
    )
    .may(&[
        "network::",
        "egress::",
        "neighbors::unix_abstract",
        "denials::network",
    ]),
    of(ContainerMutation::Seccomp, shared_mutants::SECCOMP),
    of(
        ContainerMutation::EngineFilter,
        shared_mutants::CONTAINER_FILTER,
    ),
    of(ContainerMutation::Root, shared_mutants::ROOT),
    of(ContainerMutation::User, shared_mutants::USER),
    of(ContainerMutation::Memory, shared_mutants::MEMORY),
    engine_mutant(
        "no swap limit",
        ContainerMutation::Swap,
        &["layers::group_swap"],
    )
    .may(&["memory::"]),
    of(ContainerMutation::Processes, shared_mutants::PROCESSES),
    engine_mutant(
        "writable read roots",
        ContainerMutation::ReadOnly,
        &["filesystem::write_read_root"],
    )
    .may(&["filesystem::"]),
    // Nothing is compared if the caller is root and the suite's folders belong to another user.
    engine_mutant(
        "folders not compared",
        ContainerMutation::Folders,
        &["two_sandboxes::read_root"],
    )
    .may(&["two_sandboxes::"]),
    engine_mutant(
        "the image's environment",
        ContainerMutation::Environment,
        &["environment::exact_set"],
    )
    .may(&["environment::"]),
    engine_mutant(
        "an opened container not noticed",
        ContainerMutation::Adoption,
        &["adoption::holes"],
    ),
];
