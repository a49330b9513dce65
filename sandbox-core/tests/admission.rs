//! Admission: demands of a plan compared with a report.

mod common;

use sandbox_core::admission::{admit, unmet};
use sandbox_core::{Capability, CapabilityPolicy, Enforcement, EnforcementReport, ErrorKind};

fn refused(policy: &CapabilityPolicy, report: &EnforcementReport) -> Vec<Capability> {
    let plan = common::plan(policy).unwrap();
    let unmet = unmet(&plan, policy, report);
    assert_eq!(
        admit("test", &plan, policy, report).is_ok(),
        unmet.is_empty()
    );
    unmet
        .into_iter()
        .map(|unmet| unmet.demand.capability)
        .collect()
}

fn partial() -> Enforcement {
    Enforcement::partial("sampler", "sampled")
}

fn unenforced() -> Enforcement {
    Enforcement::unenforced("no cgroup rights")
}

#[test]
fn everything_enforced_is_admitted() {
    assert_eq!(refused(&CapabilityPolicy::new(), &common::report(&[])), []);
}

#[test]
fn required_and_not_enforced_is_refused() {
    let policy = CapabilityPolicy::new();
    for enforcement in [partial(), unenforced()] {
        let report = common::report(&[(Capability::NetworkAccess, enforcement)]);
        assert_eq!(refused(&policy, &report), [Capability::NetworkAccess]);
    }
}

#[test]
fn wanted_and_not_enforced_is_admitted() {
    let report = common::report(&[
        (Capability::Memory, partial()),
        (Capability::Cpus, unenforced()),
    ]);
    let mut policy = CapabilityPolicy::new();
    assert_eq!(refused(&policy, &report), []);
    policy.require_all = true;
    assert_eq!(
        refused(&policy, &report),
        [Capability::Memory, Capability::Cpus]
    );
}

#[test]
fn allow_partial_accepts_partial_only() {
    let policy = CapabilityPolicy::new().allow_partial(Capability::Processes);
    let report = |enforcement| common::report(&[(Capability::Processes, enforcement)]);
    assert_eq!(refused(&policy, &report(partial())), []);
    assert_eq!(
        refused(&policy, &report(unenforced())),
        [Capability::Processes]
    );
    let other = common::report(&[(Capability::Privileges, partial())]);
    assert_eq!(refused(&policy, &other), [Capability::Privileges]);
}

#[test]
fn allow_unenforced_accepts_both() {
    let policy = CapabilityPolicy::new().allow_unenforced(Capability::Processes);
    for enforcement in [partial(), unenforced()] {
        assert_eq!(
            refused(
                &policy,
                &common::report(&[(Capability::Processes, enforcement)])
            ),
            []
        );
    }
}

#[test]
fn missing_report_entry_counts_as_unenforced() {
    let policy = CapabilityPolicy::new();
    let required = common::plan(&policy).unwrap().demands.len() - 8;
    assert_eq!(refused(&policy, &EnforcementReport::new()).len(), required);
}

#[test]
fn refusal_names_every_demand_and_how_to_accept_it() {
    let policy = CapabilityPolicy::new();
    let report = common::report(&[
        (Capability::NetworkAccess, unenforced()),
        (Capability::Processes, partial()),
    ]);
    let plan = common::plan(&policy).unwrap();
    let error = admit("test", &plan, &policy, &report).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEnforceable);
    assert_eq!(error.unmet().len(), 2);
    insta::assert_snapshot!(error, @r#"create sandbox failed on test: network_access = none is not enforced (no cgroup rights); allow_unenforced = ["network_access"] accepts that; processes = own is partial (sampler; gap: sampled); allow_partial = ["processes"] accepts that"#);
}
