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
        "egress::encrypted_hello",
        "egress::no_server_name",
        "egress::other_host",
        "egress::other_server_name",
    ],
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
        let private = if private { " private" } else { "" };
        parsed(format!("{}:{port} {level}{private}", rule.destination()))
    });
    changed.collect()
}

fn parsed(text: String) -> NetworkRule {
    NetworkRule::try_from(text).expect("made of a valid rule")
}
