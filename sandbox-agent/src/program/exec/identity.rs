//! Becoming the identity that code runs as.

use crate::runtime::{
    Result,
    credentials::{Capabilities, set_group, set_groups, set_user},
};

/// Gives up the agent's identity and capabilities for `user` and `group`. The bounding set is empty already, so that not
/// even a program of root gives any back.
///
/// # Errors
///
/// `EINVAL` when one is not mapped in the user namespace, `EAGAIN` at a limit of processes.
pub(super) fn become_identity(user: u32, group: u32) -> Result<()> {
    set_groups(&[])?;
    set_group(group)?;
    set_user(user)?;
    // For user 0, which keeps what it had.
    Capabilities::default().apply()
}
