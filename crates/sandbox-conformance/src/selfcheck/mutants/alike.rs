//! What is left out in the same way of containers and of pods, and is noticed by the same probes.

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
    &["kernel::keyring", "network::vsock"],
    &[
        "kernel::",
        "network::",
        "subprocess::",
        "filesystem::unmount",
    ],
);

pub(super) const MEMORY: Mutant = alike(
    "no memory limit",
    &["memory::one_process"],
    &["memory::", "denials::memory"],
);

pub(super) const PROCESSES: Mutant = alike(
    "no process limit",
    &["pids::fork_bomb"],
    &["denials::process_limit"],
);
