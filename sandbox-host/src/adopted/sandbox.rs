//! The settings of an agent in a foreign container, with any engine.

use sandbox_agent::protocol::Confinement;
use sandbox_core::{EnforcementReport, Plan, Result};

use crate::Sandbox;
use crate::confinement::{self, Isolation, Kernel, Mode, Paths, Profile};

/// The confinement of code there: it runs as the agent's user.
#[must_use]
pub fn confinement(plan: &Plan, kernel: &Kernel) -> Confinement {
    let paths = Paths::of(plan, Isolation::Container);
    let profile = Profile::new(Isolation::Container, paths);
    confinement::confinement(plan, kernel, Mode::Shared, &profile)
}

/// The sandbox there. Code starts in the plan's folder, or else in `workdir`.
///
/// # Errors
///
/// As [`Sandbox::new`].
pub fn sandbox(
    plan: &Plan,
    confinement: Confinement,
    report: EnforcementReport,
    workdir: &str,
) -> Result<Sandbox> {
    let mut sandbox = Sandbox::new(plan, confinement, report)?;
    // A foreign container gets no new folders.
    sandbox.settings.make_dirs = Vec::new();
    if plan.workdir.is_none() {
        sandbox.settings.workdir = workdir.as_bytes().to_vec();
    }
    Ok(sandbox)
}
