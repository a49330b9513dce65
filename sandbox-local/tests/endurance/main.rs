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

/// `full` where sandboxes cost what they cost on a server, a tenth of it where the same is tried again.
fn scaled(full: usize) -> usize {
    if support::is_root() && support::namespaces() {
        full
    } else {
        full / 10
    }
}

/// How many tests there are, for those who run them again.
const LEAST_TESTS: u32 = 5;
