//! The Podman tier on Podman without root: its tests and the conformance suite, as the user whose
//! Podman it is.

use super::requirements::{Requirement, Requirements};
use super::staged::Programme;
use super::{Outcome, Run};
use crate::engines;
use crate::failure::Result;
use crate::programs;

/// For that user, the rootless service is what the tier finds.
const PROGRAMME: Programme = Programme {
    label: "rootless podman",
    packages: &["sandbox-podman"],
    also: &[("sandbox-conformance", "interrupts", "podman::")],
    tier: "podman",
    proves_itself: false,
    requirement: Requirement::PodmanRootless,
    tell: Requirements::tell_rootless,
};

/// Runs them where root has started rootless Podman.
///
/// # Errors
/// When they cannot be built, copied or started.
pub fn run(run: &Run<'_>) -> Result<Outcome> {
    if !programs::is_root() {
        let reason = "not root: what is tested as podman is this user's own already";
        return Ok(Outcome::NotRun(reason.to_owned()));
    }
    match engines::rootless_owner() {
        Ok(owner) => PROGRAMME.run(run, Some(owner)),
        Err(failure) if run.requirements.requires(Requirement::PodmanRootless) => Err(failure),
        Err(failure) => Ok(Outcome::NotRun(failure.to_string())),
    }
}
