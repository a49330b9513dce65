//! How the connections of code end.

use std::io;
use std::net::SocketAddr;

use sandbox_core::Denial;
use sandbox_core::policy::{EgressDenial, NetworkRule};
use sandbox_core::spi::denied_connection;

use super::CodeTarget;

/// How a connection ended.
#[derive(Debug)]
pub enum CarryEnd {
    /// It was denied. Nothing was sent to a server.
    Denied(ConnectionDenial),
    /// It is allowed, and no address could be found or connected to. The error belongs to the
    /// host's network.
    Unreachable(io::Error),
    /// The code closed it before it was connected.
    Closed,
    /// It was connected.
    Carried(Carried),
}

/// What happens on a connection before it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarryEvent {
    /// It is connected to this server.
    Connected(SocketAddr),
    /// A rule at level `http` has allowed a request.
    Requested {
        /// The method.
        method: String,
        /// The path without its query. Code chose it, so it must be escaped.
        path: String,
        /// The names of the secrets that were put into it, or that signed it.
        secrets: Vec<String>,
        /// The rule.
        rule: NetworkRule,
    },
    /// A request at level `http` was denied. Code got status 403, and the connection lives on.
    Denied(ConnectionDenial),
}

/// How a connection at level `http` ended.
#[cfg_attr(not(feature = "http"), expect(dead_code))]
pub(super) enum HttpEnd {
    /// Both sides ended it.
    Finished,
    /// One side broke it off.
    Reset,
    /// The server cannot be trusted or does not speak TLS. Code was told in an answer.
    NoServer(io::Error),
}

/// What was carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The server.
    pub address: SocketAddr,
    /// The rule that allowed it.
    pub rule: NetworkRule,
    /// Bytes from the code to the server.
    pub sent: u64,
    /// Bytes from the server to the code.
    pub received: u64,
    /// Why it ended.
    pub reason: EndReason,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Both sides ended it.
    Finished,
    /// One side broke it off.
    Reset,
    /// It carried nothing for too long.
    Idle,
    /// Its rule was revoked.
    Revoked,
}

/// Why a connection was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionDenial {
    /// The host that the code named. Code chose it, so a text of it must be escaped.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Why, as the end of a sentence.
    pub why: String,
    /// The rule that denies, or that does not suffice; `None` if no rule allows the destination.
    pub rule: Option<NetworkRule>,
}

impl ConnectionDenial {
    pub(super) fn new(
        target: &CodeTarget,
        why: impl Into<String>,
        rule: Option<NetworkRule>,
    ) -> Self {
        Self {
            host: target.host.to_string(),
            port: target.port,
            why: why.into(),
            rule,
        }
    }

    pub(super) fn of_rules(target: &CodeTarget, denial: &EgressDenial) -> Self {
        Self::new(target, denial.to_string(), denial.rule().cloned())
    }

    /// The denial for a person or a model.
    #[must_use]
    pub fn to_denial(&self) -> Denial {
        denied_connection(&self.host, self.port, &self.why, self.rule.as_ref())
    }
}
