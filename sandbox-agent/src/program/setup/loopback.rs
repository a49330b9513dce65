//! The loopback interface of a new network namespace.

use crate::runtime::Result;

use super::super::interface;

/// Brings `lo` up.
///
/// # Errors
///
/// `EPERM` without power over the network namespace.
pub(super) fn bring_up() -> Result<()> {
    interface::set_up(b"lo", true)
}
