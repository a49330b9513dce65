//! Events of an execution.

use bytes::Bytes;

use crate::{Denial, ExecResult};

/// An event of an execution, from [`crate::Execution::next_event`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecEvent {
    /// The program runs. Always the first event.
    Started,
    /// A piece of standard output. It can end in the middle of a line or a character.
    Stdout(Bytes),
    /// A piece of standard error.
    Stderr(Bytes),
    /// An operation was denied. Most denials become known at the end, right before `Exited`.
    Denied(Denial),
    /// The execution ended. Always the last event. The output is in the earlier events; the result
    /// has only its length ([`crate::Captured::total`]).
    Exited(Box<ExecResult>),
}
