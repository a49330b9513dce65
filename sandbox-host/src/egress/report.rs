//! What rules leave open, for reports.

use sandbox_core::policy::{Destination, EgressRules, NetworkRule, RuleLevel};
use sandbox_core::{Enforcement, Mechanism};

/// What level `name` leaves open.
const LEVEL_NAME_GAP: &str =
    "a server of an allowed name may reach its other names, in later requests of a connection";

/// What a rule with a wildcard leaves open.
const WILDCARD_GAP: &str = "the owner of a wildcard's suffix learns the names that code \
                            connects to, 4096 in a sandbox's life";

/// What these rules leave open where they are enforced, as gaps of a report.
#[must_use]
pub fn gaps(rules: &EgressRules) -> Vec<&'static str> {
    let checks_names = |rule: &NetworkRule| {
        let mut ports = rule.ports().unwrap_or_default().into_iter();
        ports.any(|port| rule.level(port) == RuleLevel::Name)
    };
    let is_wildcard = |rule: &NetworkRule| matches!(rule.destination(), Destination::Suffix(_));
    let mut gaps = Vec::new();
    if rules.allowing().any(checks_names) {
        gaps.push(LEVEL_NAME_GAP);
    }
    if rules.allowing().any(is_wildcard) {
        gaps.push(WILDCARD_GAP);
    }
    gaps
}

/// Why a build has no level `http`.
pub(super) const NO_HTTP: &str = "this build leaves out rules at level http (the feature http)";

/// The report of a network that is `isolated`, with these rules for connections out of it.
#[must_use]
pub fn with_rules(isolated: Enforcement, rules: &[NetworkRule]) -> Enforcement {
    let rules = EgressRules::new(rules.to_vec());
    let reads_requests = rules.rules().iter().any(NetworkRule::reads_requests);
    if reads_requests && !cfg!(feature = "http") {
        return Enforcement::unenforced(NO_HTTP);
    }
    let remarks = gaps(&rules).into_iter().map(|gap| match gap {
        WILDCARD_GAP => Mechanism::WildcardNames,
        _ => Mechanism::FirstRequestChecked,
    });
    let mut enforced = isolated.and(Mechanism::HostDialsAllowedNames);
    if reads_requests {
        enforced = enforced.and(Mechanism::RequestsChecked);
    }
    remarks.fold(enforced, Enforcement::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_of_the_rules() {
        let of = |rule: &str| gaps(&EgressRules::parse([rule]).unwrap());
        assert_eq!(of("a.org"), [LEVEL_NAME_GAP]);
        assert_eq!(of("a.org:22"), <[&str; 0]>::default());
        assert_eq!(of("*.a.org tcp"), [WILDCARD_GAP]);
        assert_eq!(of("*.a.org"), [LEVEL_NAME_GAP, WILDCARD_GAP]);
    }
}
