//! Mutants: backends with one fault each. They show that the suite notices the fault.
//!
//! Most are the local backend with one mechanism left out or with altered results. They claim what
//! the local backend claims. The expected probes must have another verdict than on the local
//! backend; a sample of other probes must not. On engines and clusters, a mutant claims an option
//! and does not set it, and the run must fail.

mod altered;
mod base;
mod catalog;
#[cfg(feature = "engines")]
mod engine_mutants;
mod feature_mutants;
mod instance;
mod loosened_rules;
#[cfg(feature = "k8s")]
mod pod_mutants;
#[cfg(any(feature = "engines", feature = "k8s"))]
mod shared_mutants;
mod sinks;

use std::collections::BTreeMap;

use sandbox_core::matrix::Verdict;

use super::MutantCheck;
use crate::finding::{ClaimStatus, Finding};
use crate::probe::ProbeError;
use crate::runner::{Options, run_exactly};
use crate::suite;
use crate::target::Target;
use base::MutantBase;
use catalog::Mutant;

/// A sample of quick probes that no mutant may change, unless it says so.
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

/// The probes that run on mutants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeSelection {
    /// Only the expected probes of the mutant.
    Own,
    /// The expected probes, and a sample of the others.
    Sample,
    /// Every probe on every mutant.
    Everything,
}

/// The mutants to run.
#[derive(Debug, Clone, Copy)]
pub struct Mutants<'a> {
    /// Part of the name of the mutants to run; `None` runs all.
    pub named: Option<&'a str>,
    /// The engine tiers whose mutants run, besides the local tier's. `None` runs those of all
    /// linked engines.
    pub engines: Option<&'a [String]>,
    /// Tiers and their images, where these are not the default.
    pub images: &'a [(String, String)],
    /// The probes that run on each mutant.
    pub selection: ProbeSelection,
}

/// Runs mutants.
///
/// # Errors
///
/// If the suite itself fails, or if the local backend cannot run here. An unavailable engine is
/// skipped.
pub async fn run_mutants(
    options: &Options,
    chosen: &Mutants<'_>,
) -> Result<Vec<MutantCheck>, ProbeError> {
    let mut checks = Vec::new();
    for base in MutantBase::ALL {
        let tier = base.tier();
        let wanted = |tiers: &[String]| tiers.iter().any(|named| named == tier);
        if *base == MutantBase::Local || chosen.engines.is_none_or(wanted) {
            checks.extend(run_of(*base, options, chosen).await?);
        }
    }
    match chosen.named {
        Some(part) if checks.is_empty() => Err(ProbeError::new(format!(
            "--mutant matches no mutant: {part:?}; mutants of engines need their cargo features"
        ))),
        _ => Ok(checks),
    }
}

async fn run_of(
    base: MutantBase,
    options: &Options,
    chosen: &Mutants<'_>,
) -> Result<Vec<MutantCheck>, ProbeError> {
    let mut images = chosen.images.iter().rev();
    let image = images.find(|(tier, _)| tier == base.tier());
    let options = Options {
        image: image.map(|(_, image)| image.clone()),
        progress: None,
        ..options.clone()
    };
    let named = |mutant: &&Mutant| {
        let wanted = |part| base.name(mutant).contains(part);
        chosen.named.is_none_or(wanted)
    };
    let mutants: Vec<&Mutant> = base.mutants().iter().filter(named).collect();
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    let known: Vec<&str> = suite::selected(&[]).iter().map(|probe| probe.id).collect();
    for mutant in &mutants {
        check_names(mutant, &known)?;
    }
    let impossible = |mutant: &Mutant, reason: String| MutantCheck {
        impossible: Some(reason),
        ..MutantCheck::new(base.name(mutant))
    };
    let right = Target::backend(base.backend(None));
    let key = match right.key().await {
        Ok(key) => key,
        Err(error) if base == MutantBase::Local => return Err(error.into()),
        Err(error) => {
            let all = mutants.into_iter();
            return Ok(all
                .map(|mutant| impossible(mutant, error.to_string()))
                .collect());
        }
    };
    let wanted = |mutants: &[&Mutant]| -> Vec<&'static str> {
        let all = suite::selected(&[]);
        let ids = all.iter().map(|probe| probe.id);
        ids.filter(|id| {
            chosen.selection == ProbeSelection::Everything
                || chosen.selection == ProbeSelection::Sample && SAMPLE.contains(id)
                || mutants.iter().any(|mutant| names(mutant.own, id))
        })
        .collect()
    };
    let baseline = run_exactly(&right, &options, &wanted(&mutants)).await?;
    let baseline: BTreeMap<&str, &Finding> = baseline.findings.iter().map(|f| (f.id, f)).collect();
    let mut checks = Vec::new();
    for mutant in mutants {
        checks.push(match mutant.impossible(&key) {
            Some(reason) => impossible(mutant, reason),
            None => check(base, mutant, &options, &wanted(&[mutant]), &baseline).await?,
        });
    }
    Ok(checks)
}

async fn check(
    base: MutantBase,
    mutant: &Mutant,
    options: &Options,
    probes: &[&'static str],
    baseline: &BTreeMap<&str, &Finding>,
) -> Result<MutantCheck, ProbeError> {
    let target = Target::backend(base.backend(Some(mutant.change)));
    let report = run_exactly(&target, options, probes).await?;
    let mut check = MutantCheck::new(base.name(mutant));
    for found in &report.findings {
        let Some(right) = baseline.get(found.id) else {
            continue;
        };
        let describe = || {
            format!(
                "{}: {} instead of {} ({})",
                found.id,
                found.verdict,
                right.verdict,
                found.detail()
            )
        };
        if names(mutant.own, found.id) {
            // A probe that is undecided without the fault is undecided with it.
            let failed = || matches!(found.claim_status(), ClaimStatus::Failed(_));
            match right.verdict {
                Verdict::Enforced if mutant.must_fail() && !failed() => {
                    check.missed.push(describe())
                }
                Verdict::Enforced if found.verdict != right.verdict => {
                    check.noticed.push(describe());
                }
                Verdict::Enforced => check.missed.push(describe()),
                _ => {}
            }
        } else if !names(mutant.may, found.id) && found.verdict != right.verdict {
            // A busy host may be the cause, so the probe runs again, alone.
            let again = run_exactly(&target, options, &[found.id]).await?;
            if again.findings.iter().any(|f| f.verdict != right.verdict) {
                check.elsewhere.push(describe());
            }
        }
    }
    if check.noticed.is_empty() && check.missed.is_empty() {
        check.impossible = Some("this host cannot decide its probes".into());
    }
    Ok(check)
}

/// Fails if an expected probe does not exist. Otherwise a deleted probe would take its mutants with
/// it: they would count as undecided.
fn check_names(mutant: &Mutant, known: &[&str]) -> Result<(), ProbeError> {
    let unknown = |name: &&&str| !known.iter().any(|id| names(&[**name], id));
    match mutant.own.iter().find(unknown) {
        None => Ok(()),
        Some(name) => Err(ProbeError::new(format!(
            "the mutant {:?} expects the probe {name:?}, which the suite does not have: name the \
             probe that notices it",
            mutant.name
        ))),
    }
}

fn names(list: &[&str], id: &str) -> bool {
    list.iter()
        .any(|name| *name == id || name.ends_with("::") && id.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_probe_makes_its_mutants_an_error() {
        let all: Vec<&str> = suite::selected(&[]).iter().map(|probe| probe.id).collect();
        for base in MutantBase::ALL {
            for mutant in base.mutants() {
                assert!(!mutant.own.is_empty(), "{}", mutant.name);
                check_names(mutant, &all).expect("known names");
                let deleted = mutant.own[0];
                let left: Vec<&str> = all
                    .iter()
                    .copied()
                    .filter(|id| !names(&[deleted], id))
                    .collect();
                let error = check_names(mutant, &left).expect_err(deleted);
                assert!(error.to_string().contains(deleted), "{error}");
            }
        }
    }
}
