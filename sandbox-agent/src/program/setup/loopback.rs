//! The loopback interface of a new network namespace.

use crate::runtime::Errno;

use super::super::interface;

/// Brings `lo` up.
///
/// # Errors
///
/// `EPERM` without power over the network namespace.
pub(super) fn bring_up() -> Result<(), Errno> {
    interface::set_up(b"lo", true)
}
