//! Lies of engines' backends: an option that is claimed and not set. The run must turn red, and name the probe.

use sandbox_container::Mutation;

use super::catalog::{Change, Mutant, PLAIN};

const fn lie(name: &'static str, mutation: Mutation, own: &'static [&'static str]) -> Mutant {
    Mutant {
        name,
        own,
        change: Change::Lie(mutation),
        ..PLAIN
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
    lie(
        "no seccomp",
        Mutation::Seccomp,
        &["kernel::keyring", "network::vsock"],
    )
    .may(&[
        "kernel::",
        "network::",
        "subprocess::",
        "filesystem::unmount",
    ]),
    lie(
        "no memory limit",
        Mutation::Memory,
        &["memory::one_process"],
    )
    .may(&["memory::", "denials::memory"]),
    lie(
        "no process limit",
        Mutation::Processes,
        &["pids::fork_bomb"],
    )
    .may(&["denials::process_limit"]),
    lie(
        "writable read roots",
        Mutation::ReadOnly,
        &["filesystem::write_read_root"],
    )
    .may(&["filesystem::"]),
    lie(
        "the image's environment",
        Mutation::Environment,
        &["environment::exact_set"],
    )
    .may(&["environment::"]),
];
