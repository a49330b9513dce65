//! Reports: JSON with all evidence, JUnit XML, Markdown, an HTML page, badges, and text for a
//! terminal.

pub mod badge;
mod compare;
mod escape;
mod html;
mod junit;
mod markdown;
mod text;

use std::fs;
use std::path::Path;

use sandbox_core::matrix::Verdict;
use serde::Serialize;

pub use compare::{EarlierReport, ReportDiff, ResultChange};
pub use escape::printable;
pub use html::page;
pub use junit::junit;
pub use markdown::markdown;
pub use text::{line, summary};

use crate::finding::{ClaimStatus, Report};
use crate::probe::ProbeError;
use crate::selfcheck::{MutantCheck, SelfCheck};

/// The version of `report.json`.
pub const VERSION: u32 = 4;

/// The results of one run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunResults {
    /// The self-checks; empty if they were skipped.
    pub self_checks: Vec<SelfCheck>,
    /// The mutants; empty if they were skipped.
    pub mutants: Vec<MutantCheck>,
    /// The measured tiers.
    pub tiers: Vec<Report>,
}

impl RunResults {
    /// The results of these tiers, without self-checks and mutants.
    #[must_use]
    pub fn of(tiers: Vec<Report>) -> Self {
        Self {
            tiers,
            ..Self::default()
        }
    }

    /// Whether every claim holds and every self-check and mutant passed.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.tiers.iter().all(|report| report.counts().1 == 0)
            && self.self_checks.iter().all(|check| check.wrong.is_empty())
            && !self.mutants.iter().any(MutantCheck::is_wrong)
    }

    /// A message if no probe decided anything. Such a run proves nothing, although nothing failed.
    /// `None` if a probe did, or if no tier was measured.
    #[must_use]
    pub fn without_measurements(&self) -> Option<String> {
        let verdicts = || {
            let findings = self.tiers.iter().flat_map(|report| &report.findings);
            findings.map(|finding| finding.verdict)
        };
        if self.tiers.is_empty() || verdicts().any(Verdict::is_measured) {
            return None;
        }
        let count = |wanted| verdicts().filter(|verdict| *verdict == wanted).count();
        let (open, not_run) = (count(Verdict::Inconclusive), count(Verdict::NotRun));
        Some(format!(
            "no probe was conclusive: {open} inconclusive, {not_run} not run"
        ))
    }

    /// The number of probes, self-checks and mutants that passed, failed and were skipped.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let mut total = (0, 0, 0);
        for report in &self.tiers {
            let counts = report.counts();
            total = (total.0 + counts.0, total.1 + counts.1, total.2 + counts.2);
        }
        for proof in self.proofs() {
            match (proof.wrong.is_empty(), proof.impossible) {
                (false, _) => total.1 += 1,
                (true, Some(_)) => total.2 += 1,
                (true, None) => total.0 += 1,
            }
        }
        total
    }

    /// Whether the run includes self-checks or mutants, as a word after "the suite's own proof".
    fn proof_counted(&self) -> &'static str {
        match self.proofs().is_empty() {
            true => "left out",
            false => "included",
        }
    }

    /// All self-checks and mutants.
    fn proofs(&self) -> Vec<SelfProof<'_>> {
        let checks = self.self_checks.iter().map(|check| SelfProof {
            name: check.name.to_owned(),
            wrong: check.wrong.clone(),
            impossible: None,
        });
        let mutants = self.mutants.iter().map(|mutant| SelfProof {
            name: format!("mutant: {}", mutant.name),
            wrong: mutant.wrong(),
            impossible: mutant.impossible.as_deref(),
        });
        checks.chain(mutants).collect()
    }

    /// The number of mutants that were caught, and of those that could be built here.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let caught = self.mutants.iter().filter(|mutant| mutant.is_caught());
        let possible = self
            .mutants
            .iter()
            .filter(|mutant| mutant.impossible.is_none());
        (caught.count(), possible.count())
    }
}

/// A self-check or a mutant.
struct SelfProof<'a> {
    name: String,
    /// The errors.
    wrong: Vec<String>,
    /// Why this host cannot decide it.
    impossible: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    version: u32,
    suite: &'a str,
    self_checks: &'a [SelfCheck],
    mutants: &'a [MutantCheck],
    tiers: &'a [Report],
}

/// The results of a run as JSON.
///
/// # Errors
///
/// If they cannot be serialized.
pub fn json(results: &RunResults) -> Result<String, ProbeError> {
    let document = ReportJson {
        version: VERSION,
        suite: &crate::suite::id(),
        self_checks: &results.self_checks,
        mutants: &results.mutants,
        tiers: &results.tiers,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Writes `report.json`, `junit.xml`, `report.md`, `report.html`, `badge.json`, and a
/// `badge-TIER.json` for each tier into the folder. The page shows `diff`, the changes since an
/// earlier report.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(
    folder: &Path,
    results: &RunResults,
    diff: Option<&ReportDiff>,
) -> Result<(), ProbeError> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("report.json"), json(results)?)?;
    fs::write(folder.join("junit.xml"), junit(results))?;
    fs::write(folder.join("report.md"), markdown(results))?;
    fs::write(folder.join("report.html"), page(results, diff))?;
    let badge = |name: &str, badge: &badge::Badge| -> Result<(), ProbeError> {
        Ok(fs::write(folder.join(name), serde_json::to_string(badge)?)?)
    };
    badge("badge.json", &badge::results(results))?;
    for report in &results.tiers {
        badge(&format!("badge-{}.json", report.tier), &badge::tier(report))?;
    }
    Ok(())
}

/// A word for a claim status, and the reason.
fn claim_status_label(claim_status: &ClaimStatus) -> (&'static str, &str) {
    match claim_status {
        ClaimStatus::Passed => ("ok", ""),
        ClaimStatus::BetterThanClaimed(why) => ("better than declared", why),
        ClaimStatus::Admitted(why) => ("admitted", why),
        ClaimStatus::Undecided(why) => ("open", why),
        ClaimStatus::Failed(why) => ("FAILED", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::finding::Finding;

    fn results(verdicts: &[Verdict]) -> RunResults {
        let probe = crate::suite::selected(&[])[0];
        let found = |verdict: &Verdict| Finding::new(probe, *verdict, Evidence::default(), 1);
        let mut report = Report::new("local", Vec::new());
        report.findings = verdicts.iter().map(found).collect();
        RunResults::of(vec![report])
    }

    #[test]
    fn run_without_a_measured_verdict_is_reported() {
        let open = results(&[Verdict::Inconclusive, Verdict::NotRun, Verdict::NotRun]);
        let message = open.without_measurements().expect("a message");
        assert_eq!(
            message,
            "no probe was conclusive: 1 inconclusive, 2 not run"
        );
        let measured = results(&[Verdict::Inconclusive, Verdict::Refused]);
        assert_eq!(measured.without_measurements(), None);
        // Only the suite itself was tested.
        assert_eq!(RunResults::default().without_measurements(), None);
    }
}
