//! The enforcement that all foreign containers share, with any engine.

use sandbox_core::{Capability, Enforcement};

use crate::confinement::{self, Kernel, Mode};

/// The gap of all executions there.
const NEIGHBORS: &str = "code runs beside the container's own processes and as the agent's user: both can disturb the agent";

/// The enforcement of a capability by the agent alone. What the container enforces (files, network,
/// its limits) must come from its engine.
#[must_use]
pub fn entry(capability: Capability, kernel: &Kernel) -> Enforcement {
    match capability {
        Capability::EnvVarAccess => Enforcement::partial(
            "environment made from nothing",
            "the variables of the container's own processes can be read by the same user",
        ),
        Capability::Privileges => confinement::privileges(kernel, Mode::Shared),
        Capability::SubprocessExecution => confinement::subprocess_execution(kernel),
        Capability::Timeout => Enforcement::partial("agent, host clock", NEIGHBORS),
        Capability::OpenFiles => Enforcement::partial("RLIMIT_NOFILE", NEIGHBORS),
        Capability::StdoutMaxBytes | Capability::StderrMaxBytes => {
            Enforcement::enforced("bounded capture")
        }
        Capability::Disk => Enforcement::unenforced("the container's storage is not bounded by us"),
        Capability::ArtifactExportPaths => Enforcement::enforced(
            "copied by the agent as the code's user, opened beneath the folder",
        ),
        _ => Enforcement::unenforced("not done in a container that somebody else has made"),
    }
}
