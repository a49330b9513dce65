//! Control groups that systemd provides: one transient scope for this process, with a group below it for each sandbox.
//!
//! Under systemd the hierarchy belongs to it, and so do all groups that it has made. A scope is a group that it hands over: to an
//! ordinary user by the user's own systemd, without any right of root's, to root by the machine's. It has the controllers that
//! its manager has itself, and it vanishes with its last process, so that nobody has to tidy up after one that was killed.
//!
//! A group that holds processes cannot have groups with controllers below it. So the one process that the scope begins with (the
//! [anchor](crate::spawn::anchor)) moves into a group of its own, where keepers of detached sandboxes are as well.

mod manager;
mod scope;
mod wire;

pub(crate) use scope::{Begun, Refusal, SUFFIX, Scope};
