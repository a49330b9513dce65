//! What is assumed of the kernels of nodes.

use sandbox_agent::protocol::LandlockRules;
use sandbox_core::{Error, Plan, Result};
use sandbox_host::confinement::{self, Kernel, Profile};
use sandbox_host::seccomp::Arch;

use crate::TIER;

/// The newest Landlock ABI whose rights are used.
const NEWEST_LANDLOCK: u32 = 7;

/// The Landlock domain of executions, behind the pod's mounts and users. The agent drops the rights
/// that its node's kernel does not know.
pub(crate) fn landlock(plan: &Plan, kernel: &Kernel, profile: &Profile) -> Option<LandlockRules> {
    let newest = Kernel {
        landlock_abi: NEWEST_LANDLOCK,
        ..*kernel
    };
    let rules = confinement::landlock(plan, &newest, profile)?;
    Some(LandlockRules {
        adapts: true,
        ..rules
    })
}

/// What every node that can run our pods supports. A pod selects this process's architecture, and a
/// runtime without seccomp would refuse it. An ordinary account cannot query anything else about a
/// node's kernel.
pub(crate) fn kernel() -> Result<Kernel> {
    let arch = Arch::native().ok_or_else(|| {
        let fix = "use a machine with x86_64 or aarch64";
        Error::unavailable(TIER, "this machine's architecture has no agent", fix)
    })?;
    Ok(Kernel {
        arch,
        landlock_abi: 0,
        seccomp: true,
        seccomp_notify: false,
    })
}
