//! Backends with one thing wrong, by which the suite shows that it would notice.
//!
//! Each is the local backend with one mechanism left out, or with its results changed on their way, and claims what the local
//! backend claims. Its own probes must find something else on it than on the local backend; a sample of the others must not.

mod altered;
mod catalog;
mod instance;
mod sinks;

use std::collections::BTreeMap;
use std::sync::Arc;

use sandbox_core::matrix::Verdict;
use sandbox_local::LocalBackend;

use super::MutantCheck;
use crate::evidence::Attempt;
use crate::finding::Finding;
use crate::probe::Trouble;
use crate::runner::{Options, run_exactly};
use crate::suite;
use crate::target::Target;
use catalog::{MUTANTS, Mutant};

/// What no mutant may change unless it says so: quick probes of many areas.
const SAMPLE: [&str; 8] = [
    "artifacts::unlisted",
    "environment::exact_set",
    "exec::exit_codes",
    "files::round_trip",
    "filesystem::read_outside",
    "kernel::mount",
    "network::tcp4_host_listener",
    "streams::separate",
];

/// Which probes run on mutants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A mutant's own, and a sample of the others.
    Sample,
    /// Every one, on every mutant.
    Everything,
}

/// Runs the mutants of the local backend, those alone whose names hold `named` where it is given.
///
/// # Errors
///
/// When the suite's own means fail, or the local backend cannot run on this host.
pub async fn run_mutants(
    options: &Options,
    extent: Extent,
    named: Option<&str>,
) -> Result<Vec<MutantCheck>, Trouble> {
    let options = Options {
        image: None,
        progress: None,
        ..options.clone()
    };
    let right = Target::backend(Arc::new(LocalBackend::default()));
    let key = right.key().await?;
    let mutants: Vec<&Mutant> = MUTANTS
        .iter()
        .filter(|mutant| named.is_none_or(|part| mutant.name.contains(part)))
        .collect();
    let wanted = |mutants: &[&Mutant]| -> Vec<&'static str> {
        let all = suite::selected(&[]);
        let ids = all.iter().map(|probe| probe.id);
        ids.filter(|id| {
            extent == Extent::Everything
                || SAMPLE.contains(id)
                || mutants.iter().any(|mutant| names(mutant.own, id))
        })
        .collect()
    };
    let baseline = run_exactly(&right, &options, &wanted(&mutants)).await?;
    let baseline: BTreeMap<&str, &Finding> = baseline.findings.iter().map(|f| (f.id, f)).collect();
    let mut checks = Vec::new();
    for mutant in mutants {
        checks.push(match mutant.impossible(&key) {
            Some(reason) => MutantCheck {
                impossible: Some(reason),
                ..MutantCheck::new(mutant.name)
            },
            None => check(mutant, &options, &wanted(&[mutant]), &baseline).await?,
        });
    }
    Ok(checks)
}

async fn check(
    mutant: &Mutant,
    options: &Options,
    probes: &[&'static str],
    baseline: &BTreeMap<&str, &Finding>,
) -> Result<MutantCheck, Trouble> {
    let target = Target::backend(mutant.backend());
    let report = run_exactly(&target, options, probes).await?;
    let mut check = MutantCheck::new(mutant.name);
    for found in &report.findings {
        let Some(right) = baseline.get(found.id) else {
            continue;
        };
        let told = || {
            format!(
                "{}: {} instead of {} ({})",
                found.id,
                found.verdict,
                right.verdict,
                found.detail()
            )
        };
        if names(mutant.own, found.id) {
            // What this host cannot decide without the mutation, it cannot with it.
            match right.verdict {
                Verdict::Enforced if is_changed(right, found) => check.noticed.push(told()),
                Verdict::Enforced => check.missed.push(told()),
                _ => {}
            }
        } else if !names(mutant.may, found.id) && found.verdict != right.verdict {
            // A busy host may be to blame: once more, alone.
            let again = run_exactly(&target, options, &[found.id]).await?;
            if again.findings.iter().any(|f| f.verdict != right.verdict) {
                check.elsewhere.push(told());
            }
        }
    }
    if check.noticed.is_empty() && check.missed.is_empty() {
        check.impossible = Some("this host cannot decide its probes".into());
    }
    Ok(check)
}

fn names(list: &[&str], id: &str) -> bool {
    list.iter()
        .any(|name| *name == id || name.ends_with("::") && id.starts_with(name))
}

/// Whether the verdict, or the signs by which the attack was stopped, are others.
fn is_changed(right: &Finding, found: &Finding) -> bool {
    let signature = |finding: &Finding| match finding.evidence.attack.as_ref().map(|s| &s.attempt) {
        Some(Attempt::Blocked { signature }) => signature.clone(),
        _ => Vec::new(),
    };
    right.verdict != found.verdict || signature(right) != signature(found)
}
