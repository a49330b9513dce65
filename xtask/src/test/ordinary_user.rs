//! The tests that need no rights, run again as a user who has none, and the conformance suite with
//! them.

use super::requirements::{Requirement, Requirements};
use super::staged::Programme;
use super::{Outcome, Run};
use crate::failure::Result;
use crate::programs;

/// What does something else for root than for others, and the one tier that needs no rights.
const PROGRAMME: Programme = Programme {
    label: "ordinary user",
    packages: &[
        "sandbox-agent",
        "sandbox-host",
        "sandbox-local",
        "sandbox-cli",
        "sandbox-conformance",
    ],
    also: &[],
    tier: "local",
    proves_itself: true,
    requirement: Requirement::Local,
    tell: Requirements::tell_ordinary_user,
};

/// Runs them as a user with an empty home.
///
/// # Errors
/// When they cannot be built, copied or started.
pub fn run(run: &Run<'_>) -> Result<Outcome> {
    if programs::is_root() {
        return PROGRAMME.run(run, None);
    }
    let reason = "not root: the step before has run as an ordinary user already";
    Ok(Outcome::NotRun(reason.to_owned()))
}
