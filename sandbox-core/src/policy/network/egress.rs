//! Decides about connections.

use std::net::IpAddr;

use super::address::embedded;
use super::{
    AddressClass, Decision, Destination, EgressDenial, EgressTarget, HostName, MAX_WILDCARD_LABELS,
    MAX_WILDCARD_LENGTH, NetworkRule, RuleLevel,
};

/// Rules for connections. A rule that denies wins over all that allow. If several allow a
/// connection, the one that checks the least applies. What no rule allows is denied.
///
/// ```
/// use sandbox_core::policy::{EgressRules, EgressTarget};
///
/// let rules = ["*.example.org", "!secret.example.org"];
/// let rules = EgressRules::parse(rules)?;
/// let target = |name| EgressTarget::new(name).expect("a name");
/// assert!(rules.decide(&target("www.example.org"), 443).is_allowed());
/// assert!(!rules.decide(&target("secret.example.org"), 443).is_allowed());
/// assert!(!rules.decide(&target("example.net"), 443).is_allowed());
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressRules {
    rules: Vec<NetworkRule>,
}

impl EgressRules {
    /// These rules.
    #[must_use]
    pub fn new(rules: Vec<NetworkRule>) -> Self {
        Self { rules }
    }

    /// Reads one rule from each text.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::InvalidPolicy`] for text that is not a rule, and for rules that only
    /// deny.
    pub fn parse<T: AsRef<str>>(rules: impl IntoIterator<Item = T>) -> crate::Result<Self> {
        let rules = rules.into_iter().map(|rule| rule.as_ref().parse());
        let rules = Self::new(rules.collect::<crate::Result<_>>()?);
        rules.validate()?;
        Ok(rules)
    }

    /// Checks that the rules are not too many, and that one allows something.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::InvalidPolicy`].
    pub fn validate(&self) -> crate::Result<()> {
        let bad = |context: String| {
            crate::Error::new(
                crate::ErrorKind::InvalidPolicy,
                "read network rules",
                context,
            )
        };
        if self.rules.len() > super::MAX_NETWORK_RULES {
            return Err(bad(format!(
                "egress: {} rules, at most {}",
                self.rules.len(),
                super::MAX_NETWORK_RULES
            )));
        }
        if !self.rules.is_empty() && self.allowing().next().is_none() {
            return Err(
                bad("egress: all rules deny, so nothing could be reached".into())
                    .with_fix("add a rule that allows something, or write egress = []"),
            );
        }
        Ok(())
    }

    /// The rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[NetworkRule] {
        &self.rules
    }

    /// The rules in their order.
    #[must_use]
    pub fn into_rules(self) -> Vec<NetworkRule> {
        self.rules
    }

    /// Whether there are no rules, which denies everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that allow.
    pub fn allowing(&self) -> impl Iterator<Item = &NetworkRule> {
        self.rules.iter().filter(|rule| !rule.denies)
    }

    /// The rules that deny.
    pub fn denying(&self) -> impl Iterator<Item = &NetworkRule> {
        self.rules.iter().filter(|rule| rule.denies)
    }

    /// Decides about a connection. For an address, this is the whole decision. For a name,
    /// [`EgressRules::judge`] must also accept each address that is dialed.
    #[must_use]
    pub fn decide(&self, target: &EgressTarget, port: u16) -> Decision {
        if let Some(rule) = self.denied_by(target, port) {
            return Decision::Denied(EgressDenial::Rule(rule.clone()));
        }
        let mut denial = None;
        let mut best: Option<&NetworkRule> = None;
        // The first of those that check the least, and of these one with `private`.
        let key = |rule: &NetworkRule| (rule.level(port), !rule.private);
        for rule in self.allowing().filter(|rule| rule.matches(target, port)) {
            if let Err(reason) = suffices(rule, target) {
                denial = Some(reason);
            } else if best.is_none_or(|best| key(rule) < key(best)) {
                best = Some(rule);
            }
        }
        match best {
            Some(rule) => Decision::Allowed {
                rule: rule.clone(),
                level: rule.level(port),
                private: rule.private,
            },
            None => Decision::Denied(denial.unwrap_or_else(|| self.closest(target))),
        }
    }

    /// Decides about an HTTP request on a connection to `address`. `target` is its path with its
    /// query. The rule of the decision is one that [`EgressRules::judge`] accepts for the address.
    ///
    /// Where [`EgressRules::decide`] allows the connection at a level below `http`, it allows every
    /// request.
    #[must_use]
    pub fn decide_request(
        &self,
        host: &EgressTarget,
        port: u16,
        address: IpAddr,
        method: &str,
        target: &str,
    ) -> Decision {
        let connection = self.decide(host, port);
        let rule = match &connection {
            Decision::Allowed { rule, level, .. } if *level == RuleLevel::Http => rule,
            _ => return connection,
        };
        let mut denial = EgressDenial::Request {
            request: format!("{method} {target}"),
            rule: rule.clone(),
        };
        for rule in self.allowing_request(host, port, method, target) {
            match self.judge(rule, address, port) {
                Ok(()) => {
                    return Decision::Allowed {
                        rule: rule.clone(),
                        level: RuleLevel::Http,
                        private: rule.private,
                    };
                }
                Err(reason) => denial = reason,
            }
        }
        Decision::Denied(denial)
    }

    /// The rules at level `http` that allow a request, those with `private` first.
    pub(in crate::policy) fn allowing_request(
        &self,
        host: &EgressTarget,
        port: u16,
        method: &str,
        target: &str,
    ) -> Vec<&NetworkRule> {
        let is_allowing = |rule: &&NetworkRule| {
            rule.reads_requests()
                && rule.matches(host, port)
                && suffices(rule, host).is_ok()
                && rule.requests().allows(method, target)
        };
        let mut rules: Vec<_> = self.allowing().filter(is_allowing).collect();
        // They open more addresses.
        rules.sort_by_key(|rule| !rule.private);
        rules
    }

    /// Decides about an address of a name that `rule` allows.
    ///
    /// # Errors
    ///
    /// Why the address must not be dialed.
    pub fn judge(
        &self,
        rule: &NetworkRule,
        address: IpAddr,
        port: u16,
    ) -> Result<(), EgressDenial> {
        match self.denied_by(&EgressTarget::Address(address), port) {
            Some(rule) => Err(EgressDenial::Rule(rule.clone())),
            None => opens(rule, address),
        }
    }

    /// Whether a name has a port that can be reached, so that it has an address in the sandbox. The
    /// decision is that for the first such port, or for the last one that is denied.
    #[must_use]
    pub fn decide_name(&self, name: &HostName) -> Decision {
        let target = EgressTarget::Name(name.clone());
        let matching = self.allowing();
        let matching = matching.filter(|rule| rule.destination.matches(&target));
        let ports = matching.flat_map(|rule| rule.ports().unwrap_or_default());
        let mut last = None;
        for port in ports {
            let decision = self.decide(&target, port);
            if decision.is_allowed() {
                return decision;
            }
            last = Some(decision);
        }
        let denied = || {
            let mut denying = self.denying();
            let rule = denying.find(|rule| rule.destination.matches(&target));
            rule.map_or(EgressDenial::NoRule, |rule| {
                EgressDenial::Rule(rule.clone())
            })
        };
        last.unwrap_or_else(|| Decision::Denied(denied()))
    }

    /// Why a connection is denied that no rule matches.
    fn closest(&self, target: &EgressTarget) -> EgressDenial {
        let mut allowing = self.allowing();
        match allowing.find(|rule| rule.destination.matches(target)) {
            Some(rule) => EgressDenial::OtherPort(rule.clone()),
            None => EgressDenial::NoRule,
        }
    }

    fn denied_by(&self, target: &EgressTarget, port: u16) -> Option<&NetworkRule> {
        // Packets for this IPv6 address end at this IPv4 address.
        let carried = match target {
            EgressTarget::Address(IpAddr::V6(address)) => embedded(*address),
            _ => None,
        };
        let carried = carried.map(|address| EgressTarget::Address(address.into()));
        self.denying().find(|rule| {
            rule.matches(target, port)
                || carried
                    .as_ref()
                    .is_some_and(|target| rule.matches(target, port))
        })
    }
}

/// Whether a rule that matches a target also allows it.
fn suffices(rule: &NetworkRule, target: &EgressTarget) -> Result<(), EgressDenial> {
    match (target, &rule.destination) {
        (EgressTarget::Address(address), _) => opens(rule, *address),
        (EgressTarget::Name(name), Destination::Suffix(suffix))
            if !is_short_below(name, suffix) =>
        {
            Err(EgressDenial::WildcardLength(rule.clone()))
        }
        _ => Ok(()),
    }
}

/// Whether a name is within the bounds of a wildcard rule.
pub(super) fn is_short_below(name: &HostName, suffix: &HostName) -> bool {
    name.below(suffix).is_some_and(|below| {
        below.len() <= MAX_WILDCARD_LENGTH && below.split('.').count() <= MAX_WILDCARD_LABELS
    })
}

/// Whether a rule opens an address of its class.
fn opens(rule: &NetworkRule, address: IpAddr) -> Result<(), EgressDenial> {
    let class = AddressClass::of(address);
    let is_open = match class {
        AddressClass::Global => true,
        AddressClass::Metadata => rule.private && names_exactly(&rule.destination),
        _ => rule.private,
    };
    if is_open {
        return Ok(());
    }
    Err(EgressDenial::Address {
        address,
        class,
        rule: rule.clone(),
    })
}

/// Whether a destination is a single address.
pub(super) fn names_exactly(destination: &Destination) -> bool {
    matches!(destination, Destination::Network(network) if network.is_single())
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
