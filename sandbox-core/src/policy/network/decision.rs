//! What the rules say about a connection.

use std::fmt;
use std::net::IpAddr;

use super::{AddressClass, NetworkRule, RuleLevel};

/// Whether a connection is allowed, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It is allowed.
    Allowed {
        /// The rule.
        rule: NetworkRule,
        /// What must be checked of it.
        level: RuleLevel,
        /// Whether addresses that are not public are allowed.
        private: bool,
    },
    /// It is denied.
    Denied(EgressDenial),
}

impl Decision {
    /// Whether it is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    /// What must be checked of it, if it is allowed.
    #[must_use]
    pub fn level(&self) -> Option<RuleLevel> {
        match self {
            Self::Allowed { level, .. } => Some(*level),
            Self::Denied(_) => None,
        }
    }
}

/// Why a connection is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EgressDenial {
    /// No rule allows the destination.
    NoRule,
    /// This rule allows the destination, and no rule allows the port.
    OtherPort(NetworkRule),
    /// A rule denies it.
    Rule(NetworkRule),
    /// The name has more labels or characters below the suffix than a wildcard rule takes.
    WildcardLength(NetworkRule),
    /// No rule at level `http` allows this request.
    Request {
        /// The method and the path, as the client wrote them.
        request: String,
        /// A rule that allows the destination.
        rule: NetworkRule,
    },
    /// The rule does not open addresses of this class.
    Address {
        /// The address.
        address: IpAddr,
        /// Its class.
        class: AddressClass,
        /// The rule that allows the destination.
        rule: NetworkRule,
    },
}

impl EgressDenial {
    /// The rule that denies, or that does not suffice.
    #[must_use]
    pub fn rule(&self) -> Option<&NetworkRule> {
        match self {
            Self::NoRule => None,
            Self::OtherPort(rule)
            | Self::Rule(rule)
            | Self::WildcardLength(rule)
            | Self::Request { rule, .. }
            | Self::Address { rule, .. } => Some(rule),
        }
    }
}

impl fmt::Display for EgressDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("no rule allows it"),
            Self::OtherPort(rule) => write!(f, "the rule {rule} is for other ports"),
            Self::Rule(rule) => write!(f, "the rule {rule} denies it"),
            Self::WildcardLength(rule) => write!(
                f,
                "the rule {rule} takes at most {} labels and {} characters before its suffix",
                super::MAX_WILDCARD_LABELS,
                super::MAX_WILDCARD_LENGTH
            ),
            Self::Request { request, rule } => {
                write!(f, "the rule {rule} does not allow the request {request}")
            }
            Self::Address {
                address,
                class: AddressClass::Metadata,
                ..
            } => write!(
                f,
                "{address} is {}, which only a rule for exactly this address with `private` opens",
                AddressClass::Metadata
            ),
            Self::Address {
                address,
                class,
                rule,
            } => write!(
                f,
                "{address} is {class}, and the rule {rule} does not say `private`"
            ),
        }
    }
}
