//! Constructors of [`Failure`].

use alloc::string::{String, ToString};

use crate::runtime::{Errno, stat::Stat};

use crate::protocol::{FailStep, Failure, HostObject, ProtocolError};

/// The failure of a system call.
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

/// The failure for a host path that leads to another object than the client checked.
pub(super) fn replaced_failure(step: FailStep, path: &[u8]) -> Failure {
    let detail = text(path) + " was replaced while the sandbox was being made; nothing was run";
    refusal(step, detail)
}

/// Whether a file is this object.
pub(super) fn is_object(metadata: &Stat, object: HostObject) -> bool {
    (metadata.device, metadata.inode) == (object.device, object.inode)
}

/// The failure for a protocol violation.
pub(super) fn protocol_failure(error: ProtocolError) -> Failure {
    refusal(FailStep::Protocol, error.to_string())
}

/// A path as text for a failure's detail, lossy.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
