//! Many sandboxes, many times, and owners that are killed: what is left of them on the host is counted. Each test runs alone, in a
//! process of its own, so that nobody else's sandboxes count; as root, `users` runs them again, in smaller numbers.

#[path = "../local/support.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod support;
#[path = "../local/users.rs"]
mod users;

mod census;
mod crowd;
mod cycles;
mod owners;

/// Set by `cargo xtask test --full`: tests run at full size.
const FULL: &str = "SANDBOX_TEST_FULL";

/// How often to repeat, of the `full` number: all of it as root in a full run, a tenth of that as another user, and a twentieth
/// in every other run.
fn scaled(full: usize) -> usize {
    match std::env::var_os(FULL) {
        None => full / 20,
        Some(_) if support::is_root() && support::namespaces() => full,
        Some(_) => full / 10,
    }
}

/// How many tests there are, for those who run them again.
const LEAST_TESTS: u32 = 5;
