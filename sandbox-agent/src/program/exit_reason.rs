//! Why the agent ends, and the code it exits with.

use super::failures::{protocol_failure, refusal};
use crate::protocol::{FailStep, Failure, ProtocolError};

/// The command line is wrong.
pub(super) const EXIT_USAGE: i32 = 64;

/// Nobody listens where a client was to be connected.
pub(super) const EXIT_UNREACHABLE: i32 = 68;

/// Something could not be set up.
pub(super) const EXIT_SETUP: i32 = 71;

/// Why the agent ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// The host asked for it.
    Stopped,
    /// The stream of the owner ended.
    OwnerGone,
    /// Nothing came from the host for as long as the lease says.
    LeaseOver,
    /// The time to live is over.
    LifetimeOver,
    /// The host broke the protocol.
    Protocol(ProtocolError),
    /// The sandbox could not be set up, or the settings not be applied.
    Refused(Failure),
    /// The kernel refused something that the agent cannot do without.
    Broken(Failure),
}

impl ExitReason {
    /// The exit code: 0 where the host wanted the end, 69 for the lease and the time to live, 70 for the protocol, 71 for a set-up that failed.
    pub(super) fn exit_code(&self) -> i32 {
        match self {
            Self::Stopped | Self::OwnerGone => 0,
            Self::LeaseOver | Self::LifetimeOver => 69,
            Self::Protocol(_) => 70,
            Self::Refused(_) | Self::Broken(_) => EXIT_SETUP,
        }
    }

    /// What the host is told, if it still listens.
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
