//! Faults of terminals, sessions, lifetimes, mounts and secrets.

use std::time::Duration;

use sandbox_core::TerminalSize;

use super::altered::{Alteration, ExecAlteration, SecretAlteration};
use super::catalog::{Mutant, altered, exec};

pub(super) const DEAF: Mutant = exec(
    "signals and sizes do not arrive",
    ExecAlteration::Deaf,
    &["terminal::size"],
);

pub(super) const ONE_TERMINAL_SIZE: Mutant = altered(
    "terminals of one size",
    Alteration {
        request: |request| {
            request.terminal = request.terminal.map(|_| TerminalSize::new(24, 80));
        },
        ..Alteration::NONE
    },
    &["terminal::size"],
);

pub(super) const NO_TERMINALS: Mutant = altered(
    "pipes for terminals",
    Alteration {
        request: |request| request.terminal = None,
        ..Alteration::NONE
    },
    &["terminal::standard_streams", "terminal::interrupt"],
)
.may(&["terminal::"]);

pub(super) const WRITABLE_MOUNTS: Mutant = altered(
    "writable mounts",
    Alteration {
        plan: |plan| {
            for mount in &mut plan.mounts {
                mount.read_only = false;
            }
        },
        ..Alteration::NONE
    },
    &["filesystem::mounted_read_only"],
);

pub(super) const KEPT_VARIABLES: Mutant = exec(
    "variables of earlier executions",
    ExecAlteration::KeepsVariables,
    &["environment::secret_of_earlier"],
);

pub(super) const ENDED_BY_LIMITS: Mutant = exec(
    "an exceeded limit ends the sandbox",
    ExecAlteration::EndsSandbox,
    &["output::flood", "timeout::busy_tree"],
)
.may(&["output::", "timeout::", "memory::", "denials::"]);

pub(super) const LONG_LIFETIME: Mutant = altered(
    "time to live ignored",
    Alteration {
        plan: |plan| plan.lifetime = plan.lifetime.map(|_| Duration::from_secs(60)),
        ..Alteration::NONE
    },
    &["detached::ends_in_time"],
);

pub(super) const SECRETS_FOR_CODE: Mutant = altered(
    "code gets secrets for hosts",
    Alteration {
        secrets: SecretAlteration::Told,
        ..Alteration::NONE
    },
    SECRET_PROBES,
);

pub(super) const SECRETS_FOR_ALL: Mutant = altered(
    "all hosts get secrets for hosts",
    Alteration {
        secrets: SecretAlteration::ForAllHosts,
        ..Alteration::NONE
    },
    SECRET_PROBES,
);

const SECRET_PROBES: &[&str] = &["egress::secret_for_a_host", "egress::secret_for_signatures"];

/// Every sandbox of the run is the same one, whatever was asked for.
pub(super) const RECYCLED: Mutant = altered(
    "used sandboxes handed over",
    Alteration {
        recycled: true,
        ..Alteration::NONE
    },
    &["sessions::pool"],
)
.may(&[
    "processes::",
    "artifacts::",
    "environment::",
    "filesystem::",
]);
