//! Many sandboxes, many cycles, and killed owners: counts their leftovers on the host. Each test
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

/// The number of repetitions: `full` as root in a full run, a tenth of it as another user, and a
/// twentieth in every other run.
fn scaled(full: usize) -> usize {
    match std::env::var_os(FULL) {
        None => full / 20,
        Some(_) if sandbox_testing::users::is_root() && support::namespaces() => full,
        Some(_) => full / 10,
    }
}

/// The minimum number of tests that must pass when they run again as another user.
const MIN_REPEATED_TESTS: u32 = 3;

fn main() -> ExitCode {
    harness::main(&[crowd::TESTS, cycles::TESTS, owners::TESTS, users::TESTS])
}
