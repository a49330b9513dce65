//! What a run of the tests requires to be present.

use std::process::ExitCode;

/// Whether the list in the environment variable `SANDBOX_REQUIRE` names this tier, so that a test
/// fails where it cannot run.
pub fn is_required(tier: &str) -> bool {
    std::env::var("SANDBOX_REQUIRE")
        .is_ok_and(|list| list.split(',').any(|name| name.trim() == tier))
}

/// The exit code of a test program without what its tests need, if `SANDBOX_REQUIRE` names the
/// tier. Prints what is missing.
pub fn fail_if_required(tier: &str, missing: Option<&str>) -> Option<ExitCode> {
    let reason = missing.filter(|_| is_required(tier))?;
    eprintln!("SANDBOX_REQUIRE names {tier}, but its tests cannot run: {reason}");
    Some(ExitCode::FAILURE)
}
