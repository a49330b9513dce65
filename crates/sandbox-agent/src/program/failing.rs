//! Making failures.

use alloc::string::String;

use sandbox_freestanding::Errno;

use crate::protocol::{FailStep, Failure};

/// A failure of a system call.
pub(super) fn failure(step: FailStep, errno: Errno, detail: impl Into<String>) -> Failure {
    Failure {
        step,
        errno: errno.0,
        detail: detail.into(),
    }
}

/// A failure without an error number.
pub(super) fn refusal(step: FailStep, detail: impl Into<String>) -> Failure {
    Failure {
        step,
        errno: 0,
        detail: detail.into(),
    }
}

/// Bytes of a path as text, for the detail of a failure.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
