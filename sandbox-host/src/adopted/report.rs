//! The enforcement that all foreign containers share, with any engine.

use sandbox_core::{Capability, Enforcement, Mechanism};

use crate::confinement::{self, Kernel, Mode};

/// The gap of all executions there.
const NEIGHBORS: &str = "code runs beside the container's own processes and as the agent's user: both can disturb the agent";

/// The enforcement of a capability by the agent alone. What the container enforces (files, network,
/// its limits) must come from its engine.
#[must_use]
pub fn entry(capability: Capability, kernel: &Kernel) -> Enforcement {
    match capability {
        Capability::EnvVarAccess => Enforcement::partial(
            Mechanism::FreshEnvironment,
            "the variables of the container's own processes can be read by the same user",
        ),
        Capability::Privileges => confinement::privileges(kernel, Mode::Shared),
        Capability::Timeout => {
            Enforcement::partial([Mechanism::Agent, Mechanism::HostClock], NEIGHBORS)
        }
        Capability::OpenFiles => Enforcement::partial(Mechanism::RlimitNofile, NEIGHBORS),
        Capability::Disk => Enforcement::unenforced("the container's storage is not bounded by us"),
        Capability::SubprocessExecution
        | Capability::StdoutMaxBytes
        | Capability::StderrMaxBytes
        | Capability::ArtifactExportPaths => {
            confinement::by_agent(capability, kernel, Mode::Shared)
        }
        _ => Enforcement::unenforced("not done in an adopted container"),
    }
}
