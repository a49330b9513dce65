use sandbox_core::{Capability, Demand, Enforcement, Level, Unmet};

use super::*;
use crate::evidence::Step;

const SUBJECT: Subject = Subject::Capability(Capability::Memory);
const DENIALS: &[Denial] = &[Denial {
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

fn oracles() -> Vec<Vec<Oracle>> {
    let clean = Oracle::Clean {
        watched: "canary".into(),
    };
    let dirty = Oracle::Dirty {
        watched: "canary".into(),
    };
    let nothing = Oracle::Nothing {
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

/// Every combination of every kind of every piece.
fn all() -> Vec<Evidence> {
    let mut all = Vec::new();
    let said = [None, Some("why".to_owned())];
    for host_control in controls() {
        for allow_control in controls() {
            for attack in attacks() {
                for oracles in oracles() {
                    for waived in waivers() {
                        for bits in 0..8 {
                            all.push(Evidence {
                                host_control: host_control.clone(),
                                allow_control: allow_control.clone(),
                                attack: attack.clone(),
                                oracles: oracles.clone(),
                                declared: None,
                                gated: true,
                                waived: waived.clone(),
                                unkept: Vec::new(),
                                refused: said[bits & 1].clone(),
                                not_run: said[bits >> 1 & 1].clone(),
                                trouble: said[bits >> 2 & 1].clone(),
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
            .oracles
            .iter()
            .any(|o| matches!(o, Oracle::Dirty { .. }))
}

fn silent(evidence: &Evidence) -> bool {
    evidence.refused.is_none() && evidence.not_run.is_none() && evidence.trouble.is_none()
}

/// The rules once more, one for each verdict, none leaning on the order in which `judge` asks.
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
                && (e.trouble.is_some()
                    || !ok(&e.host_control)
                    || ok(&e.allow_control) && (e.attack.is_none() || e.oracles.is_empty()))
        }
        Verdict::Overblocked => {
            !touched(e) && silent(e) && ok(&e.host_control) && !ok(&e.allow_control)
        }
        Verdict::Enforced => {
            !touched(e) && silent(e) && a_and_b && !e.oracles.is_empty() && e.attack == known
        }
        Verdict::Unexplained => {
            !touched(e)
                && silent(e)
                && a_and_b
                && !e.oracles.is_empty()
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
fn enforcement_needs_all_five() {
    let enforced: Vec<Evidence> = all()
        .into_iter()
        .filter(|e| judge(SUBJECT, e, DENIALS) == Verdict::Enforced)
        .collect();
    // One host control, one allow control, one attack, two clean oracles, three waivers, nothing said.
    assert_eq!(enforced.len(), 2 * 3);
}

#[test]
fn without_known_signs_nothing_is_enforced() {
    assert!(
        all()
            .iter()
            .all(|e| judge(SUBJECT, e, &[]) != Verdict::Enforced)
    );
}

#[test]
fn a_behaviour_that_needed_any_waiver_was_refused_and_has_not_leaked() {
    let leaked = |waived| Evidence {
        host_control: step(&Attempt::succeeded()),
        allow_control: step(&Attempt::succeeded()),
        attack: step(&Attempt::succeeded()),
        waived,
        ..Evidence::default()
    };
    let behaviour = Subject::Feature(sandbox_core::matrix::Feature::Denials);
    let verdicts = waivers().into_iter().map(|waived| {
        let waivers = waived.len();
        (waivers, judge(behaviour, &leaked(waived), DENIALS))
    });
    let expected = [
        (0, Verdict::Leaked),
        (1, Verdict::Refused),
        (1, Verdict::Refused),
    ];
    assert_eq!(verdicts.collect::<Vec<_>>(), expected);
}
