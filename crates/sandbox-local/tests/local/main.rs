//! Real sandboxes on this machine. The tests run as whoever runs them; as root, `users` runs them again as an ordinary user, and
//! both run them again as if user namespaces were denied.

mod cancellation;
mod denials;
mod isolation;
mod lifetime;
mod limits;
mod residue;
mod roots;
mod streams;
mod support;
mod users;
