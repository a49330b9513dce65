//! The network of a policy: rules for destinations, and the decisions that follow from them.

mod address;
mod address_class;
mod decision;
mod destination;
mod egress;
mod host_name;
mod parse;
mod request_filter;
mod rule;
mod subset;

#[cfg(test)]
mod parse_tests;
#[cfg(test)]
mod strategies;

pub use address::IpNetwork;
pub use address_class::AddressClass;
pub use decision::{Decision, EgressDenial};
pub use destination::{Destination, EgressTarget};
pub use egress::EgressRules;
pub use host_name::HostName;
pub use request_filter::RequestFilter;
pub use rule::{NetworkRule, RuleLevel};
pub use subset::NotCovered;

use serde::{Deserialize, Serialize};

/// The most rules of a policy or specification.
pub const MAX_NETWORK_RULES: usize = 1024;

/// The most labels of a name below the suffix of a wildcard rule. Each label is up to 63 bytes that
/// code can choose and the name's owner can read; real names have few.
pub const MAX_WILDCARD_LABELS: usize = 8;

/// The most characters of a name below the suffix of a wildcard rule, for the same reason.
pub const MAX_WILDCARD_LENGTH: usize = 100;

/// What network a sandbox has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NetworkPolicy {
    /// Only the sandbox's own loopback.
    None,
    /// Only connections that the rules allow.
    Allow(Vec<NetworkRule>),
    /// The network of the host.
    Full,
}

impl NetworkPolicy {
    /// The network of a sandbox that asks for these rules under this policy: the asked rules, and
    /// the deny rules of the policy. Without any rule, it is [`NetworkPolicy::None`].
    ///
    /// # Errors
    ///
    /// [`NotCovered`] for a rule that allows more than the policy does.
    pub fn narrowed(&self, asked: &EgressRules) -> Result<Self, NotCovered> {
        if asked.is_empty() {
            return Ok(Self::None);
        }
        let rules = match self {
            Self::None => EgressRules::default().narrowed(asked)?,
            Self::Allow(rules) => EgressRules::new(rules.clone()).narrowed(asked)?,
            Self::Full => asked.clone(),
        };
        Ok(Self::Allow(rules.into_rules()))
    }
}
