//! Mutants whose egress rules allow more than the plan's. The host then decides by these rules.

use sandbox_core::Plan;
use sandbox_core::policy::{NetworkPolicy, NetworkRule, RuleLevel};

use super::altered::Alteration;
use super::catalog::{Mutant, MutantChange, PLAIN};

pub(super) const NAMES: Mutant = loosened(
    "denied names allowed",
    |plan| {
        replace(plan, |rule, ports| match rule.is_deny() {
            true => opened(rule, ports),
            false => vec![rule.clone()],
        })
    },
    &["egress::other_name"],
);

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
    &["egress::private_address"],
);

pub(super) const REQUESTS: Mutant = loosened(
    "requests unchecked",
    |plan| {
        replace(plan, |rule, _| {
            with(rule, Some(RuleLevel::Tcp), rule.is_private())
        })
    },
    &[
        "egress::climbing_path",
        "egress::encrypted_hello",
        "egress::later_host",
        "egress::no_server_name",
        "egress::other_host",
        "egress::other_method",
        "egress::other_path",
        "egress::other_server_name",
    ],
);

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
);

pub(super) const METHODS: Mutant = loosened(
    "every method allowed",
    |plan| {
        replace(plan, |rule, _| {
            vec![parsed(rule.to_string().replace(" GET ", " "))]
        })
    },
    &["egress::other_method"],
);

pub(super) const PATHS: Mutant = loosened(
    "every path allowed",
    |plan| {
        replace(plan, |rule, _| {
            vec![parsed(rule.to_string().replace(" /allowed/*", ""))]
        })
    },
    &["egress::climbing_path", "egress::other_path"],
);

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
