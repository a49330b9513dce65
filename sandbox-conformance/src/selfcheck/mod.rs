//! The suite's proof against itself: backends of which it is known what the suite must find.
//!
//! One without any isolation must leak every attack, or the attack is none. One that always fails, and one that does
//! nothing and calls it success, must earn nothing. One that refuses must be found to refuse.

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
use crate::probe::{Kind, Trouble};
use crate::runner::{Options, run};
use crate::target::Target;

pub use mutant_check::MutantCheck;
#[cfg(feature = "mutants")]
pub use mutants::{Extent, Mutants, run_mutants};
pub use open::OpenBackend;
pub use scripted::{Script, ScriptedBackend};

/// What a self-check found.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SelfCheck {
    /// Its name.
    pub name: &'static str,
    /// What must be found.
    pub expectation: &'static str,
    /// How many probes were run.
    pub ran: usize,
    /// The probes that found something else, and what.
    pub wrong: Vec<String>,
    /// The probes that could not show what they must, because this host cannot carry out the attack.
    pub open: Vec<String>,
}

/// Runs every self-check.
///
/// # Errors
///
/// When the suite's own means fail.
pub async fn run_all(options: &Options) -> Result<Vec<SelfCheck>, Trouble> {
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
            .partition(|f| f.evidence.trouble.is_some());
        checks.push(SelfCheck {
            name,
            expectation,
            ran: report.findings.len(),
            wrong: ran
                .into_iter()
                .filter(|finding| !right(finding.verdict))
                .map(told)
                .collect(),
            open: open.into_iter().map(told).collect(),
        });
    }
    Ok(checks)
}

type Right = fn(Verdict) -> bool;

const SCRIPTED: [(Script, &str, &str, Right); 3] = [
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

async fn open_leaks(options: &Options) -> Result<SelfCheck, Trouble> {
    let report = measure(Arc::new(OpenBackend), options).await?;
    let attacks = || {
        report
            .findings
            .iter()
            .filter(|finding| finding.kind == Kind::Isolation)
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
            .map(told)
            .collect(),
        open: attacks().filter(impossible).map(told).collect(),
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

async fn measure(backend: Arc<dyn Backend>, options: &Options) -> Result<Report, Trouble> {
    let options = Options {
        image: None,
        progress: None,
        ..options.clone()
    };
    run(&Target::backend(backend), &options).await
}

fn told(finding: &Finding) -> String {
    format!("{}: {} ({})", finding.id, finding.verdict, finding.detail())
}
