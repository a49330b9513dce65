//! Why the agent exits, and its exit code.

use super::failures::{protocol_failure, refusal};
use crate::protocol::{FailStep, Failure, ProtocolError};

/// Exit code for a usage error.
pub(super) const EXIT_USAGE: i32 = 64;

/// Exit code of `connect` where no agent listens.
pub(super) const EXIT_UNREACHABLE: i32 = 68;

/// Exit code for a failed setup.
pub(super) const EXIT_SETUP: i32 = 71;

/// Why the agent exits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// A client asked for it.
    Stopped,
    /// The owner's stream ended.
    OwnerGone,
    /// No client sent anything for the length of the lease.
    LeaseOver,
    /// The time to live is over.
    LifetimeOver,
    /// The first client violated the protocol.
    Protocol(ProtocolError),
    /// The sandbox could not be set up, or its settings could not be applied.
    Refused(Failure),
    /// A system call failed that the agent cannot do without.
    Broken(Failure),
}

impl ExitReason {
    /// The exit code: 0 for an expected end, 69 for lease and time to live, 70 for the protocol, 71
    /// for setup.
    pub(super) fn exit_code(&self) -> i32 {
        match self {
            Self::Stopped | Self::OwnerGone => 0,
            Self::LeaseOver | Self::LifetimeOver => 69,
            Self::Protocol(_) => 70,
            Self::Refused(_) | Self::Broken(_) => EXIT_SETUP,
        }
    }

    /// The failure to send to clients.
    pub(super) fn failure(&self) -> Option<Failure> {
        match self {
            Self::Stopped | Self::OwnerGone | Self::LeaseOver => None,
            Self::LifetimeOver => Some(refusal(FailStep::Ended, "its time to live is over")),
            Self::Protocol(error) => Some(protocol_failure(*error)),
            Self::Refused(failure) | Self::Broken(failure) => Some(failure.clone()),
        }
    }
}

impl From<ProtocolError> for ExitReason {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}
