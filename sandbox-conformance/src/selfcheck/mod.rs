//! The self-checks: the suite measures backends with a known result.
//!
//! On a backend without isolation every attack must leak. A backend that always fails, and one that
//! does nothing and reports success, must not pass. A backend that refuses must be reported as
//! refusing.

mod mutant_check;
#[cfg(feature = "mutants")]
mod mutants;
mod open;
mod scripted;

use std::sync::Arc;

use sandbox_core::matrix::Verdict;
use sandbox_core::spi::Backend;
use serde::Serialize;

use crate::evidence::Attempt;
use crate::finding::{Finding, Report};
use crate::probe::{ProbeError, ProbeKind};
use crate::runner::{Options, run};
use crate::target::Target;

pub use mutant_check::MutantCheck;
#[cfg(feature = "mutants")]
pub use mutants::{Mutants, ProbeSelection, run_mutants};
pub use open::OpenBackend;
pub use scripted::{Script, ScriptedBackend};

/// The result of one self-check.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SelfCheck {
    /// Its name.
    pub name: &'static str,
    /// The expected result.
    pub expectation: &'static str,
    /// The number of probes that ran.
    pub ran: usize,
    /// The probes with another result, and that result.
    pub wrong: Vec<String>,
    /// The probes that cannot decide, because this host cannot run the attack.
    pub open: Vec<String>,
}

/// Runs every self-check.
///
/// # Errors
///
/// If the suite itself fails.
pub async fn run_all(options: &Options) -> Result<Vec<SelfCheck>, ProbeError> {
    let mut checks = vec![open_leaks(options).await?];
    for (script, name, expectation, right) in SCRIPTED {
        let backend = Arc::new(ScriptedBackend::new(script));
        let options = Options {
            assume_host_controls: true,
            ..options.clone()
        };
        let report = measure(backend, &options).await?;
        let (open, ran): (Vec<_>, Vec<_>) = report
            .findings
            .iter()
            .partition(|f| f.evidence.error.is_some());
        checks.push(SelfCheck {
            name,
            expectation,
            ran: report.findings.len(),
            wrong: ran
                .into_iter()
                .filter(|finding| !right(finding.verdict))
                .map(describe)
                .collect(),
            open: open.into_iter().map(describe).collect(),
        });
    }
    Ok(checks)
}

type AcceptsVerdict = fn(Verdict) -> bool;

const SCRIPTED: [(Script, &str, &str, AcceptsVerdict); 3] = [
    (
        Script::Fail,
        "always fails",
        "no probe is enforced",
        |verdict| verdict != Verdict::Enforced,
    ),
    (
        Script::Idle,
        "does nothing and calls it success",
        "no probe is enforced",
        |verdict| verdict != Verdict::Enforced,
    ),
    (
        Script::Refuse,
        "refuses everything",
        "every probe is refused",
        |verdict| verdict == Verdict::Refused,
    ),
];

async fn open_leaks(options: &Options) -> Result<SelfCheck, ProbeError> {
    let report = measure(Arc::new(OpenBackend), options).await?;
    let attacks = || {
        report
            .findings
            .iter()
            .filter(|finding| finding.kind == ProbeKind::Isolation)
    };
    let impossible = |finding: &&Finding| {
        finding.verdict == Verdict::Inconclusive && !host_control_succeeded(finding)
    };
    let leaked = |finding: &&Finding| finding.verdict == Verdict::Leaked;
    Ok(SelfCheck {
        name: "no isolation",
        expectation: "every attack leaks that this host can carry out",
        ran: report.findings.len(),
        wrong: attacks()
            .filter(|f| !leaked(f) && !impossible(f))
            .map(describe)
            .collect(),
        open: attacks().filter(impossible).map(describe).collect(),
    })
}

fn host_control_succeeded(finding: &Finding) -> bool {
    let attempt = finding
        .evidence
        .host_control
        .as_ref()
        .map(|step| &step.attempt);
    matches!(attempt, Some(Attempt::Succeeded { .. }))
}

async fn measure(backend: Arc<dyn Backend>, options: &Options) -> Result<Report, ProbeError> {
    let options = Options {
        image: None,
        progress: None,
        ..options.clone()
    };
    run(&Target::backend(backend), &options).await
}

fn describe(finding: &Finding) -> String {
    format!("{}: {} ({})", finding.id, finding.verdict, finding.detail())
}
