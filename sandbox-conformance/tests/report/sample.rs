//! A report with every kind of result, in which a sandbox's output tries to inject markup.

use sandbox_conformance::report::RunResults;
use sandbox_conformance::{
    Attempt, Evidence, Finding, HostCheck, Repetition, Report, Step, probes,
};
use sandbox_core::matrix::Verdict;
use sandbox_core::{Capability, Demand, Enforcement, Level, Unmet};

/// Hostile output of a sandbox.
pub const HOSTILE: &str = "</pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u{1b}[2J\u{202e}]]>";

/// Appears only in the evidence of first runs, with which later runs disagree.
pub const FIRST_RUN: &str = "what the first run saw";

fn step() -> Step {
    let attempt = Attempt::Succeeded {
        value: HOSTILE.into(),
    };
    let mut step = Step::new(HOSTILE, attempt);
    step.outcome = Some("exited with code 0".into());
    step.stdout = format!("{HOSTILE}\nsecond line {}", "x".repeat(400));
    step.stderr = HOSTILE.into();
    step
}

fn evidence() -> Evidence {
    Evidence {
        host_control: Some(step()),
        allow_control: Some(step()),
        attack: Some(Step::new("an attack", Attempt::blocked(["EPERM", HOSTILE]))),
        host_checks: vec![
            HostCheck::Clean {
                watched: HOSTILE.into(),
            },
            HostCheck::Dirty {
                watched: HOSTILE.into(),
            },
            HostCheck::Nothing {
                reason: HOSTILE.into(),
            },
        ],
        declared: Some(Enforcement::partial("a mechanism", HOSTILE)),
        gated: true,
        waived: vec![Unmet {
            demand: Demand {
                capability: Capability::Memory,
                level: Level::Required,
                value: HOSTILE.into(),
            },
            enforcement: Enforcement::unenforced(HOSTILE),
        }],
        broken_claims: Vec::new(),
        refused: Some(HOSTILE.into()),
        not_run: Some(HOSTILE.into()),
        error: Some(HOSTILE.into()),
    }
}

/// A finding with its disagreeing runs.
fn repeated(mut finding: Finding) -> Finding {
    if finding.verdict == Verdict::Flaky {
        let mut first = finding.clone();
        first.verdict = Verdict::Leaked;
        first.evidence.attack = Some(Step::new(FIRST_RUN, Attempt::succeeded()));
        finding.repetitions = vec![Repetition::from(&first), Repetition::from(&finding)];
    }
    finding
}

/// Two tiers, one of them unavailable, with every verdict.
pub fn results() -> RunResults {
    let tier = |name: &str, unavailable: Option<&str>| {
        let verdicts = Verdict::ALL.iter().cycle();
        let mut report = Report::new(name, vec![("user".into(), HOSTILE.into())]);
        report.unavailable = unavailable.map(str::to_owned);
        report.findings = probes::all()
            .into_iter()
            .zip(verdicts)
            .map(|(probe, verdict)| repeated(Finding::new(probe, *verdict, evidence(), 7)))
            .collect();
        report
    };
    RunResults::of(vec![tier("local", None), tier("docker", Some(HOSTILE))])
}
