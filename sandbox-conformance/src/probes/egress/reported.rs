//! What a report names for each kind of rule.

use sandbox_core::policy::{EgressRules, NetworkPolicy};
use sandbox_core::{Capability, Mechanism};

use super::offered;
use crate::probes::prelude::*;

/// What depends on the rules. Each level of a rule leaves something else open.
const BY_RULE: [Mechanism; 3] = [
    Mechanism::RequestsChecked,
    Mechanism::FirstRequestChecked,
    Mechanism::WildcardNames,
];

/// Rules, and what a report names for them. The level of a rule without one is `name` for the ports
/// of the web, and `tcp` for others.
const CASES: &[(&[&str], &[Mechanism])] = &[
    (&["a.test"], &[Mechanism::FirstRequestChecked]),
    (&["a.test:22"], &[]),
    (&["a.test tcp"], &[]),
    (&["10.1.2.3:22"], &[]),
    (&["a.test http"], &[Mechanism::RequestsChecked]),
    (&["*.a.test:22"], &[Mechanism::WildcardNames]),
    (
        &["*.a.test"],
        &[Mechanism::FirstRequestChecked, Mechanism::WildcardNames],
    ),
    (
        &["*.a.test:22", "b.test http"],
        &[Mechanism::RequestsChecked, Mechanism::WildcardNames],
    ),
    (
        &["a.test tcp", "b.test http", "c.test"],
        &[Mechanism::RequestsChecked, Mechanism::FirstRequestChecked],
    ),
    // A rule that denies leaves nothing open.
    (&["a.test tcp", "!*.b.test"], &[]),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    if !offered(context).await {
        return Ok(());
    }
    let deviation = match context.with_sandbox(async |_| ()).await {
        Err(declined) => Err(declined),
        Ok(()) => Ok(compared(context).await?),
    };
    context.record_attack(behavior("read the report of each rule", deviation));
    context.no_host_effect("nothing is created");
    Ok(())
}

/// The first report that is wrong.
async fn compared(context: &ProbeContext) -> Result<Option<String>, ProbeError> {
    for (rules, expected) in CASES {
        let rules = EgressRules::parse(rules.iter().copied())?.into_rules();
        let report = context
            .check(|policy, _| policy.network = Some(NetworkPolicy::Allow(rules)))
            .await?
            .report;
        let enforcement = report.get(Capability::Egress);
        let named = enforcement
            .map(sandbox_core::Enforcement::mechanisms)
            .unwrap_or_default();
        let found = BY_RULE.iter().filter(|mechanism| named.contains(mechanism));
        if !found.eq(*expected) || !named.contains(&Mechanism::HostDialsAllowedNames) {
            return Ok(Some(format!("reported for {expected:?}: {named:?}")));
        }
    }
    Ok(None)
}
