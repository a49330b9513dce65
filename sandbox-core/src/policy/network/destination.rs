//! Where a connection goes, and which destinations a rule has.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{HostName, IpNetwork};

/// The destinations of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination {
    /// One name.
    Name(HostName),
    /// All names with one or more labels before this suffix.
    Suffix(HostName),
    /// Addresses, for code that connects without a name.
    Network(IpNetwork),
}

impl Destination {
    /// Whether a target is one of the destinations.
    #[must_use]
    pub fn matches(&self, target: &EgressTarget) -> bool {
        match (self, target) {
            (Self::Name(name), EgressTarget::Name(target)) => name == target,
            (Self::Suffix(suffix), EgressTarget::Name(target)) => target.below(suffix).is_some(),
            (Self::Network(network), EgressTarget::Address(address)) => network.contains(*address),
            _ => false,
        }
    }

    /// Whether all destinations of another one are destinations of this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(this), Self::Name(other)) => this == other,
            (Self::Suffix(suffix), Self::Name(name)) => name.below(suffix).is_some(),
            (Self::Suffix(this), Self::Suffix(other)) => {
                this == other || other.below(this).is_some()
            }
            (Self::Network(this), Self::Network(other)) => this.covers(other),
            _ => false,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Suffix(suffix) => write!(f, "*.{suffix}"),
            Self::Network(network) => write!(f, "{network}"),
        }
    }
}

/// What code connects to, without the port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EgressTarget {
    /// A host by its name.
    Name(HostName),
    /// An address that the code wrote itself.
    Address(IpAddr),
}

impl EgressTarget {
    /// Reads a name or an address. An IPv6 address can stand in brackets.
    ///
    /// # Errors
    ///
    /// What is wrong, as the end of a sentence.
    pub fn new(text: &str) -> Result<Self, String> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Self::Address(address.into()));
        }
        match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(Self::Address(address.into())),
            Err(_) => HostName::new(text).map(Self::Name),
        }
    }
}

impl fmt::Display for EgressTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Address(address) => write!(f, "{}", IpNetwork::single(*address)),
        }
    }
}
