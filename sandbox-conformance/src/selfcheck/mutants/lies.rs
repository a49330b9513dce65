//! Lies of engines' backends: an option that is claimed and not set. The run must turn red, and name the probe.

use sandbox_container::Mutation;

use super::alike;
use super::catalog::{Change, Mutant, PLAIN};

const fn lie(name: &'static str, mutation: Mutation, own: &'static [&'static str]) -> Mutant {
    of(mutation, Mutant { name, own, ..PLAIN })
}

const fn of(mutation: Mutation, mutant: Mutant) -> Mutant {
    Mutant {
        change: Change::Lie(mutation),
        ..mutant
    }
}

/// Every lie, on each engine.
pub(super) const LIES: &[Mutant] = &[
    lie(
        "the host's network",
        Mutation::Network,
        &["network::tcp4_host_listener"],
    )
    .may(&["network::", "neighbors::unix_abstract", "denials::network"]),
    of(Mutation::Seccomp, alike::SECCOMP),
    of(Mutation::EngineFilter, alike::CONTAINER_FILTER),
    of(Mutation::Root, alike::ROOT),
    of(Mutation::User, alike::USER),
    of(Mutation::Memory, alike::MEMORY),
    lie("no swap limit", Mutation::Swap, &["layers::group_swap"]).may(&["memory::"]),
    of(Mutation::Processes, alike::PROCESSES),
    lie(
        "writable read roots",
        Mutation::ReadOnly,
        &["filesystem::write_read_root"],
    )
    .may(&["filesystem::"]),
    // Whose caller cannot vouch for the suite's folders, as root beside a user of theirs, has nothing to compare.
    lie(
        "folders that nobody compares",
        Mutation::Folders,
        &["two_sandboxes::read_root"],
    )
    .may(&["two_sandboxes::"]),
    lie(
        "the image's environment",
        Mutation::Environment,
        &["environment::exact_set"],
    )
    .may(&["environment::"]),
];
