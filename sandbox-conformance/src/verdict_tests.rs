use sandbox_core::{Capability, Demand, Enforcement, Level, Unmet};

use super::*;
use crate::evidence::Step;

const SUBJECT: Subject = Subject::Capability(Capability::Memory);
const DENIALS: &[ExpectedDenial] = &[ExpectedDenial {
    sign: "EACCES",
    means: "permission",
}];

fn step(attempt: &Attempt) -> Option<Step> {
    Some(Step::new("step", attempt.clone()))
}

fn controls() -> Vec<Option<Step>> {
    vec![
        None,
        step(&Attempt::succeeded()),
        step(&Attempt::blocked(["EACCES"])),
        step(&Attempt::unclear("?")),
    ]
}

fn attacks() -> Vec<Option<Step>> {
    let mut attacks = controls();
    attacks.push(step(&Attempt::blocked(["ENOENT"])));
    attacks.push(step(&Attempt::blocked(["EACCES", "ENOENT"])));
    attacks.push(step(&Attempt::blocked(Vec::<String>::new())));
    attacks
}

fn host_checks() -> Vec<Vec<HostCheck>> {
    let clean = HostCheck::Clean {
        watched: "canary".into(),
    };
    let dirty = HostCheck::Dirty {
        watched: "canary".into(),
    };
    let nothing = HostCheck::Nothing {
        reason: "no trace".into(),
    };
    vec![
        vec![],
        vec![clean.clone()],
        vec![nothing],
        vec![clean, dirty],
    ]
}

fn waivers() -> Vec<Vec<Unmet>> {
    let of = |capability| Unmet {
        demand: Demand {
            capability,
            level: Level::Required,
            value: "64MiB".into(),
        },
        enforcement: Enforcement::unenforced("no cgroup"),
    };
    vec![
        vec![],
        vec![of(Capability::Memory)],
        vec![of(Capability::Cpus)],
    ]
}

/// Every combination of every kind of evidence.
fn all() -> Vec<Evidence> {
    let mut all = Vec::new();
    let reasons = [None, Some("why".to_owned())];
    for host_control in controls() {
        for allow_control in controls() {
            for attack in attacks() {
                for host_checks in host_checks() {
                    for waived in waivers() {
                        for bits in 0..8 {
                            all.push(Evidence {
                                host_control: host_control.clone(),
                                allow_control: allow_control.clone(),
                                attack: attack.clone(),
                                host_checks: host_checks.clone(),
                                declared: None,
                                gated: true,
                                waived: waived.clone(),
                                broken_claims: Vec::new(),
                                refused: reasons[bits & 1].clone(),
                                not_run: reasons[bits >> 1 & 1].clone(),
                                error: reasons[bits >> 2 & 1].clone(),
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

fn ok(step: &Option<Step>) -> bool {
    step.as_ref().is_some_and(|s| s.attempt.is_success())
}

fn touched(evidence: &Evidence) -> bool {
    ok(&evidence.attack)
        || evidence
            .host_checks
            .iter()
            .any(|o| matches!(o, HostCheck::Dirty { .. }))
}

fn silent(evidence: &Evidence) -> bool {
    evidence.refused.is_none() && evidence.not_run.is_none() && evidence.error.is_none()
}

/// One test for each rule, independent of the order in which `judge` applies them.
fn rule(verdict: Verdict, e: &Evidence) -> bool {
    let own_waiver = e
        .waived
        .iter()
        .any(|u| u.demand.capability == Capability::Memory);
    let a_and_b = ok(&e.host_control) && ok(&e.allow_control);
    let known = step(&Attempt::blocked(["EACCES"]));
    match verdict {
        Verdict::Leaked => touched(e) && !own_waiver,
        Verdict::Refused => touched(e) && own_waiver || !touched(e) && e.refused.is_some(),
        Verdict::NotRun => !touched(e) && e.refused.is_none() && e.not_run.is_some(),
        Verdict::Inconclusive => {
            !touched(e)
                && e.refused.is_none()
                && e.not_run.is_none()
                && (e.error.is_some()
                    || !ok(&e.host_control)
                    || ok(&e.allow_control) && (e.attack.is_none() || e.host_checks.is_empty()))
        }
        Verdict::Overblocked => {
            !touched(e) && silent(e) && ok(&e.host_control) && !ok(&e.allow_control)
        }
        Verdict::Enforced => {
            !touched(e) && silent(e) && a_and_b && !e.host_checks.is_empty() && e.attack == known
        }
        Verdict::Unexplained => {
            !touched(e)
                && silent(e)
                && a_and_b
                && !e.host_checks.is_empty()
                && e.attack.is_some()
                && e.attack != known
        }
        Verdict::Flaky => false,
    }
}

#[test]
fn every_combination_has_exactly_the_verdict_of_its_rule() {
    let all = all();
    assert_eq!(all.len(), 4 * 4 * 7 * 4 * 3 * 8);
    for evidence in &all {
        let verdict = judge(SUBJECT, evidence, DENIALS);
        let ruled: Vec<_> = Verdict::ALL
            .iter()
            .filter(|v| rule(**v, evidence))
            .collect();
        assert_eq!(ruled, vec![&verdict], "{evidence:?}");
    }
}

#[test]
fn enforced_needs_all_evidence() {
    let enforced: Vec<Evidence> = all()
        .into_iter()
        .filter(|e| judge(SUBJECT, e, DENIALS) == Verdict::Enforced)
        .collect();
    // One host control, one allow control, one attack, two clean host checks, three waivers,
    // nothing else.
    assert_eq!(enforced.len(), 2 * 3);
}

#[test]
fn denial_with_an_unknown_sign_is_not_enforced() {
    assert!(
        all()
            .iter()
            .all(|e| judge(SUBJECT, e, &[]) != Verdict::Enforced)
    );
}

#[test]
fn leaked_behavior_with_a_waiver_is_refused() {
    let leaked = |waived| Evidence {
        host_control: step(&Attempt::succeeded()),
        allow_control: step(&Attempt::succeeded()),
        attack: step(&Attempt::succeeded()),
        waived,
        ..Evidence::default()
    };
    let behavior = Subject::Feature(sandbox_core::matrix::Feature::Denials);
    let verdicts = waivers().into_iter().map(|waived| {
        let waivers = waived.len();
        (waivers, judge(behavior, &leaked(waived), DENIALS))
    });
    let expected = [
        (0, Verdict::Leaked),
        (1, Verdict::Refused),
        (1, Verdict::Refused),
    ];
    assert_eq!(verdicts.collect::<Vec<_>>(), expected);
}
