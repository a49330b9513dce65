//! Mutants whose egress rules allow more than the plan's. The host then decides by these rules.

use sandbox_core::Plan;
use sandbox_core::policy::{NetworkPolicy, NetworkRule, RuleLevel};

use super::altered::Alteration;
use super::catalog::{Mutant, MutantChange, PLAIN};

/// These compare many cases, of which some depend on what a mutant changes.
const COMPARED: &[&str] = &[
    "egress::addresses",
    "egress::answers",
    "egress::destinations",
    "egress::first_requests",
    "egress::judged_requests",
    "egress::narrowed",
    "egress::own_addresses",
    "egress::records",
];

pub(super) const NAMES: Mutant = loosened(
    "denied names allowed",
    |plan| {
        replace(plan, |rule, ports| match rule.is_deny() {
            true => opened(rule, ports),
            false => vec![rule.clone()],
        })
    },
    &["egress::other_name", "egress::rebound_name"],
)
.may(COMPARED);

/// Every name of the suite is below this suffix.
pub(super) const SUFFIXES: Mutant = loosened(
    "wildcards of the suffix above",
    |plan| {
        replace(plan, |rule, _| {
            let text = rule.to_string();
            let suffix = text
                .strip_prefix("*.")
                .and_then(|rest| rest.split_once('.'));
            vec![match suffix {
                Some((_, above)) => parsed(format!("*.{above}")),
                None => rule.clone(),
            }]
        })
    },
    &["egress::denied_lookup"],
)
.may(&["egress::"]);

pub(super) const KEPT: Mutant = Mutant {
    name: "rules never revoked",
    own: &["egress::revoked_rule"],
    change: MutantChange::Alteration(Alteration {
        keeps_rules: true,
        ..Alteration::NONE
    }),
    may: &["egress::narrowed"],
    ..PLAIN
};

pub(super) const PORTS: Mutant = loosened(
    "every rule's port for every name",
    |plan| {
        replace(plan, |rule, ports| match rule.is_deny() {
            true => vec![rule.clone()],
            false => [vec![rule.clone()], opened(rule, ports)].concat(),
        })
    },
    &["egress::other_port"],
)
.may(&["egress::"]);

pub(super) const PRIVATE: Mutant = loosened(
    "private addresses allowed",
    |plan| replace(plan, |rule, _| with(rule, None, true)),
    &[
        "egress::other_forms",
        "egress::private_address",
        "egress::redirection",
    ],
)
.may(COMPARED);

pub(super) const REQUESTS: Mutant = loosened(
    "requests unchecked",
    |plan| {
        replace(plan, |rule, _| {
            with(rule, Some(RuleLevel::Tcp), rule.is_private())
        })
    },
    &[
        "egress::climbing_path",
        "egress::connect_method",
        "egress::encrypted_hello",
        "egress::http2_authority",
        "egress::http2_request",
        "egress::later_host",
        "egress::no_server_name",
        "egress::other_host",
        "egress::other_method",
        "egress::other_path",
        "egress::other_server_name",
    ],
)
.may(COMPARED);

pub(super) const FIRST_REQUESTS: Mutant = loosened(
    "only the first request of a connection checked",
    |plan| {
        replace(plan, |rule, _| match rule.reads_requests() {
            true => with(rule, Some(RuleLevel::Name), rule.is_private()),
            false => vec![rule.clone()],
        })
    },
    &[
        "egress::climbing_path",
        "egress::later_host",
        "egress::other_method",
        "egress::other_path",
    ],
)
.may(COMPARED);

pub(super) const METHODS: Mutant = loosened(
    "every method allowed",
    |plan| {
        replace(plan, |rule, _| {
            vec![parsed(rule.to_string().replace(" GET ", " "))]
        })
    },
    &["egress::other_method"],
)
.may(COMPARED);

pub(super) const PATHS: Mutant = loosened(
    "every path allowed",
    |plan| {
        replace(plan, |rule, _| {
            vec![parsed(rule.to_string().replace(" /allowed/*", ""))]
        })
    },
    &["egress::climbing_path", "egress::other_path"],
)
.may(COMPARED);

const fn loosened(name: &'static str, plan: fn(&mut Plan), own: &'static [&'static str]) -> Mutant {
    Mutant {
        name,
        own,
        change: MutantChange::Alteration(Alteration {
            plan,
            ..Alteration::NONE
        }),
        ..PLAIN
    }
}

/// Replaces each rule of a plan. The function also gets the ports of all rules.
fn replace(plan: &mut Plan, change: impl Fn(&NetworkRule, &[u16]) -> Vec<NetworkRule>) {
    let NetworkPolicy::Allow(rules) = &mut plan.network else {
        return;
    };
    let ports = rules.iter().filter_map(NetworkRule::ports).flatten();
    let ports: Vec<u16> = ports.collect();
    *rules = rules.iter().flat_map(|rule| change(rule, &ports)).collect();
}

/// Rules that allow a rule's destination on these ports.
fn opened(rule: &NetworkRule, ports: &[u16]) -> Vec<NetworkRule> {
    let destination = rule.destination();
    let rules = ports
        .iter()
        .map(|port| parsed(format!("{destination}:{port} tcp private")));
    rules.collect()
}

/// A rule that allows, at another level or for private addresses. One that denies stays.
fn with(rule: &NetworkRule, level: Option<RuleLevel>, private: bool) -> Vec<NetworkRule> {
    if rule.is_deny() {
        return vec![rule.clone()];
    }
    let ports = rule.ports().unwrap_or_default().into_iter();
    let changed = ports.map(|port| {
        let level = level.unwrap_or(rule.level(port));
        let requests = match level {
            RuleLevel::Http => rule.requests().to_string(),
            _ => String::new(),
        };
        let private = if private { " private" } else { "" };
        let destination = rule.destination();
        parsed(format!("{destination}:{port} {level}{requests}{private}"))
    });
    changed.collect()
}

fn parsed(text: String) -> NetworkRule {
    NetworkRule::try_from(text).expect("made of a valid rule")
}
