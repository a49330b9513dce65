//! Backends with one thing wrong, by which the suite shows that it would notice.
//!
//! Each is the local backend with one mechanism left out, or with its results changed on their way, and claims what the local
//! backend claims. Its own probes must find something else on it than on the local backend; a sample of the others must not.
//! Those of engines and clusters are fewer: an option that is claimed and not set, by which a whole run must fail.

#[cfg(any(feature = "engines", feature = "k8s"))]
mod alike;
mod altered;
mod base;
mod catalog;
mod instance;
#[cfg(feature = "engines")]
mod lies;
#[cfg(feature = "k8s")]
mod pods;
mod sinks;

use std::collections::BTreeMap;

use sandbox_core::matrix::Verdict;

use super::MutantCheck;
use crate::evidence::Attempt;
use crate::finding::{Finding, Standing};
use crate::probe::Trouble;
use crate::runner::{Options, run_exactly};
use crate::suite;
use crate::target::Target;
use base::Base;
use catalog::Mutant;

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

/// Which mutants to run, and on what.
#[derive(Debug, Clone, Copy)]
pub struct Mutants<'a> {
    /// Those alone whose names hold this text.
    pub named: Option<&'a str>,
    /// The tiers of engines whose mutants run beside those of the local tier; `None` is all that are linked.
    pub engines: Option<&'a [String]>,
    /// Tiers and the images of their sandboxes, where these are not the default ones.
    pub images: &'a [(String, String)],
    /// Which probes run on each.
    pub extent: Extent,
}

/// Runs mutants.
///
/// # Errors
///
/// When the suite's own means fail, or the local backend cannot run on this host. An engine that is not there has none.
pub async fn run_mutants(
    options: &Options,
    chosen: &Mutants<'_>,
) -> Result<Vec<MutantCheck>, Trouble> {
    let mut checks = Vec::new();
    for base in Base::ALL {
        let tier = base.tier();
        let wanted = |tiers: &[String]| tiers.iter().any(|named| named == tier);
        if *base == Base::Local || chosen.engines.is_none_or(wanted) {
            checks.extend(run_of(*base, options, chosen).await?);
        }
    }
    match chosen.named {
        Some(part) if checks.is_empty() => Err(Trouble::new(format!(
            "no mutant's name holds {part:?}; mutants of engines are there where these are linked"
        ))),
        _ => Ok(checks),
    }
}

async fn run_of(
    base: Base,
    options: &Options,
    chosen: &Mutants<'_>,
) -> Result<Vec<MutantCheck>, Trouble> {
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
    let impossible = |mutant: &Mutant, reason: String| MutantCheck {
        impossible: Some(reason),
        ..MutantCheck::new(base.name(mutant))
    };
    let right = Target::backend(base.backend(None));
    let key = match right.key().await {
        Ok(key) => key,
        Err(error) if base == Base::Local => return Err(error.into()),
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
            chosen.extent == Extent::Everything
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
            Some(reason) => impossible(mutant, reason),
            None => check(base, mutant, &options, &wanted(&[mutant]), &baseline).await?,
        });
    }
    Ok(checks)
}

async fn check(
    base: Base,
    mutant: &Mutant,
    options: &Options,
    probes: &[&'static str],
    baseline: &BTreeMap<&str, &Finding>,
) -> Result<MutantCheck, Trouble> {
    let target = Target::backend(base.backend(Some(mutant.change)));
    let report = run_exactly(&target, options, probes).await?;
    let mut check = MutantCheck::new(base.name(mutant));
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
            let failed = || matches!(found.standing(), Standing::Failed(_));
            match right.verdict {
                Verdict::Enforced if mutant.must_fail() && !failed() => check.missed.push(told()),
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
