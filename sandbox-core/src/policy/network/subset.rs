//! Which rules ask for no more than others allow.

use std::error::Error as StdError;
use std::fmt;

use super::egress::{is_short_below, names_exactly};
use super::{AddressClass, Destination, EgressRules, NetworkRule, RuleLevel};

/// A rule that asks for more than the policy allows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotCovered {
    /// The rule that was asked for.
    pub asked: NetworkRule,
    /// The policy's rule that denies it; `None` if no rule allows it.
    pub denied_by: Option<NetworkRule>,
}

impl fmt::Display for NotCovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.denied_by {
            Some(rule) => write!(f, "{}, which the policy's rule {rule} denies", self.asked),
            None => write!(f, "{}, which no rule of the policy allows", self.asked),
        }
    }
}

impl StdError for NotCovered {}

impl EgressRules {
    /// The rules of a sandbox that asks for `asked` where these rules are the most: the asked ones,
    /// and the rules here that deny.
    ///
    /// A name within a wildcard's suffix, one of several ports, an address in a network and a
    /// stricter level ask for less. Rules that deny can always be asked for.
    ///
    /// # Errors
    ///
    /// [`NotCovered`] for a rule that allows more than the rules here do.
    pub fn narrowed(&self, asked: &Self) -> Result<Self, NotCovered> {
        for rule in asked.allowing() {
            let ports = rule.ports().unwrap_or_default();
            for port in ports {
                if let Some(denied_by) = self.denying().find(|own| denies(own, rule, port)) {
                    return Err(NotCovered {
                        asked: rule.clone(),
                        denied_by: Some(denied_by.clone()),
                    });
                }
                if !self.allowing().any(|own| covers(own, rule, port)) {
                    return Err(NotCovered {
                        asked: rule.clone(),
                        denied_by: None,
                    });
                }
            }
        }
        let mut rules = asked.rules().to_vec();
        for rule in self.denying() {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        Ok(Self::new(rules))
    }
}

/// Whether a rule that denies leaves nothing of another one on this port.
fn denies(own: &NetworkRule, asked: &NetworkRule, port: u16) -> bool {
    own.has_port(port) && own.destination.covers(&asked.destination)
}

/// Whether a rule allows all that another one asks for on this port.
fn covers(own: &NetworkRule, asked: &NetworkRule, port: u16) -> bool {
    let is_covered = own.has_port(port)
        && own.destination.covers(&asked.destination)
        && own.level(port) <= asked.level(port)
        && (own.level(port) < RuleLevel::Http || own.requests().covers(asked.requests()))
        && (own.private || !asked.private);
    is_covered
        && match (&own.destination, &asked.destination) {
            (Destination::Suffix(suffix), Destination::Name(name)) => is_short_below(name, suffix),
            // A network never opens the metadata services in it.
            (Destination::Network(_), Destination::Network(network)) if network.is_single() => {
                names_exactly(&own.destination)
                    || AddressClass::of(network.address()) != AddressClass::Metadata
            }
            _ => true,
        }
}

#[cfg(test)]
#[path = "subset_tests.rs"]
mod tests;
