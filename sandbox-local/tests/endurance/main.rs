//! Many sandboxes, many cycles, and killed owners: counts what they leave on the host. Each test
//! runs in its own process, so that only its own sandboxes count. As root, `users` runs the tests
//! again in smaller numbers.

#[path = "../local/harness.rs"]
mod harness;
#[path = "../local/support.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod support;
#[path = "../local/users.rs"]
mod users;

mod census;
mod crowd;
mod cycles;
mod owners;

use std::process::ExitCode;

/// Set by `cargo xtask test --full`: tests run at full size.
const FULL: &str = "SANDBOX_TEST_FULL";

/// How often to repeat: `full` as root in a full run, a tenth of it as another user, and a
/// twentieth in every other run.
fn scaled(full: usize) -> usize {
    match std::env::var_os(FULL) {
        None => full / 20,
        Some(_) if support::is_root() && support::namespaces() => full,
        Some(_) => full / 10,
    }
}

/// The minimum number of tests that must pass when they run again as another user.
const MIN_REPEATED_TESTS: u32 = 3;

/// No test of this program installs packages.
fn has_pip() -> bool {
    false
}

fn main() -> ExitCode {
    harness::main(&[crowd::TESTS, cycles::TESTS, owners::TESTS, users::TESTS])
}
