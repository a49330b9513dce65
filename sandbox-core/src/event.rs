//! What happens in an execution.

use bytes::Bytes;

use crate::{Denial, ExecResult};

/// Something that happened in an execution, in the order in which it became known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecEvent {
    /// The program runs. Always first.
    Started,
    /// Bytes of standard output, as they came: a piece can end in the middle of a line or a character.
    Stdout(Bytes),
    /// Bytes of standard error.
    Stderr(Bytes),
    /// Something was denied. Most denials become known at the end, and come right before it.
    Denied(Denial),
    /// The end, always last. The output went into the events before: of it, the result only tells how much there was
    /// ([`crate::Captured::total`]).
    Exited(Box<ExecResult>),
}
