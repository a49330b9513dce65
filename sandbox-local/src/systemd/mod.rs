//! Control groups from systemd: one transient scope for this process, with one group per sandbox
//! below it.
//!
//! Under systemd the cgroup hierarchy and all groups in it belong to systemd. A scope is a group
//! that systemd delegates: the user's instance to an ordinary user without root rights, the system
//! instance to root. It has the controllers of its manager. It vanishes with its last process, so a
//! killed process leaves no scope behind.
//!
//! A cgroup with processes cannot have child groups with controllers. So the scope's first process
//! (the [helper](crate::spawn::scope_helper)) moves into its own leaf group, which also holds
//! supervisors of detached sandboxes.

mod manager;
mod scope;
mod wire;

pub(crate) use scope::{PendingScope, SUFFIX, Scope, Unavailable};
