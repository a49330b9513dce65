//! Switching to the code's identity.

use crate::runtime::{
    Errno,
    credentials::{Capabilities, set_group, set_groups, set_user},
};

/// Switches to `user` and `group` and drops all capabilities. The bounding set is already empty, so
/// a set-user-ID program gains none.
///
/// # Errors
///
/// `EINVAL` if an ID is not mapped in the user namespace, `EAGAIN` at the limit of processes.
pub(super) fn become_identity(user: u32, group: u32) -> Result<(), Errno> {
    set_groups(&[])?;
    set_group(group)?;
    set_user(user)?;
    // User 0 keeps its capabilities otherwise.
    Capabilities::default().apply()
}
