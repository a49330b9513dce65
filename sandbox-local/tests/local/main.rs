//! Real sandboxes on this machine. The tests run as whoever runs them; as root, `users` runs them again as an ordinary user, and
//! both run them again as if user namespaces were denied.

mod artifacts;
mod cancellation;
mod denials;
mod detached;
mod isolation;
mod kernel_objects;
mod lifetime;
mod limits;
mod packages;
mod paths;
mod residue;
mod roots;
mod streams;
mod support;
mod users;
mod workspace;

/// How many tests there are at least, for those who run them again.
const LEAST_TESTS: u32 = 20;
