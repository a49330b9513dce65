//! Faults that containers and pods have in common, with the same probes.

use super::catalog::{Mutant, PLAIN};

const fn alike(
    name: &'static str,
    own: &'static [&'static str],
    may: &'static [&'static str],
) -> Mutant {
    Mutant {
        name,
        own,
        may,
        ..PLAIN
    }
}

pub(super) const SECCOMP: Mutant = alike(
    "no seccomp",
    &[
        "kernel::keyring",
        "network::vsock",
        "memory::huge_pages",
        "kernel::file_requests",
        "kernel::limits_of_another",
    ],
    &[
        "kernel::",
        "network::",
        "subprocess::",
        "filesystem::",
        "layers::filter",
        "layers::container_filter",
    ],
);

pub(super) const MEMORY: Mutant = alike(
    "no memory limit",
    &["memory::one_process"],
    &["memory::", "denials::memory", "layers::group_swap"],
);

pub(super) const PROCESSES: Mutant = alike(
    "no process limit",
    &["pids::fork_bomb"],
    &[
        "denials::process_limit",
        "layers::group_pids",
        "layers::limit_pids",
    ],
);

pub(super) const CONTAINER_FILTER: Mutant = alike(
    "no seccomp of the container's own",
    &["layers::container_filter"],
    &[],
);

/// Code cannot write files of root even on a writable root, so only the layer probe notices.
pub(super) const ROOT: Mutant = alike("writable root", &["layers::read_only"], &["filesystem::"]);

pub(super) const USER: Mutant = alike(
    "code is the agent's user",
    &["layers::own_user"],
    &["neighbors::user", "processes::"],
);
