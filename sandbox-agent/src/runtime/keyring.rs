//! Kernel keyrings.

use crate::runtime::errno::Errno;
use crate::runtime::syscall::{check, nr, syscall2};

/// Replaces the inherited session keyring by a new, empty one.
///
/// # Errors
/// `EDQUOT` where the user may have no more keys, `ENOSYS` in a kernel without keys, `EPERM` or
/// `ENOSYS` by a filter.
pub fn join_new_session() -> Result<(), Errno> {
    const JOIN_SESSION_KEYRING: usize = 1;
    const WITHOUT_A_NAME: usize = 0;
    // SAFETY: the call takes no pointer but the name's, and there is none.
    check(unsafe { syscall2(nr::KEYCTL, JOIN_SESSION_KEYRING, WITHOUT_A_NAME) })
}
