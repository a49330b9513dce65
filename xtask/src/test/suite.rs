//! All tests of the workspace, as the present user.

use std::time::Duration;

use super::requirements::Requirements;
use super::tally::Reader;
use super::{Counted, Run, supervise};
use crate::cargo::SCOPE;
use crate::failure::{Failure, Result};

/// Most time to build all tests from nothing on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Most time for all tests together; ten minutes of it are the cluster's.
const TEST_LIMIT: Duration = Duration::from_secs(45 * 60);

/// Tells tests that run themselves again as an ordinary user that a later step does that.
const USER_FOLLOWS: &str = "SANDBOX_TEST_USER_FOLLOWS";

/// Builds and runs every test, doctests included, with their output on stdout.
///
/// # Errors
/// When they cannot be built.
pub fn run(run: &Run<'_>) -> Result<Counted> {
    // Apart, because a build may take long and its progress belongs on a terminal.
    let mut build = run.workspace.cargo();
    build.arg("test").args(SCOPE).arg("--no-run");
    supervise::run(&mut build, BUILD_LIMIT)?.into_result("cargo test --no-run")?;

    let mut command = run.workspace.cargo();
    command
        .arg("test")
        .args(SCOPE)
        .args(["--no-fail-fast", "--", "--show-output"]);
    // A snapshot that differs is a failure, never a new file in the checkout.
    command.env("INSTA_UPDATE", "no");
    run.requirements.tell(&mut command);
    Requirements::leave_out(&mut command, &run.measured_after_tests());
    if run.user_follows {
        command.env(USER_FOLLOWS, "1");
    }
    let mut reader = Reader::new("tests", "");
    let ended = supervise::run_and_read(&mut command, TEST_LIMIT, &mut |line| {
        if reader.line(line) {
            println!("{line}");
        }
    })?;
    let tally = reader.finish();
    let trouble = match ended.into_result("cargo test") {
        Ok(()) if tally.results.is_empty() => Some(Failure::new(
            "cargo test succeeded without the result of any test",
        )),
        Ok(()) => None,
        Err(failure) => Some(failure),
    };
    Ok(Counted { tally, trouble })
}
