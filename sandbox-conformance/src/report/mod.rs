//! Reports: JSON with all evidence, JUnit XML, Markdown, a page, badges, and tables for a terminal.

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

pub use compare::{Change, Compared, Earlier};
pub use escape::printable;
pub use html::page;
pub use junit::junit;
pub use markdown::markdown;
pub use text::{line, summary};

use crate::finding::{Report, Standing};
use crate::probe::Trouble;
use crate::selfcheck::{MutantCheck, SelfCheck};

/// The version of `report.json`.
pub const VERSION: u32 = 4;

/// Everything of one run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Whole {
    /// How the suite has proved itself; empty where that was left out.
    pub self_checks: Vec<SelfCheck>,
    /// The mutants; empty where they were left out.
    pub mutants: Vec<MutantCheck>,
    /// What was measured.
    pub tiers: Vec<Report>,
}

impl Whole {
    /// A run of these tiers, without any proof of the suite itself.
    #[must_use]
    pub fn of(tiers: Vec<Report>) -> Self {
        Self {
            tiers,
            ..Self::default()
        }
    }

    /// Whether everything that was found is as claimed, the suite's own proof included.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.tiers.iter().all(|report| report.counts().1 == 0)
            && self.self_checks.iter().all(|check| check.wrong.is_empty())
            && !self.mutants.iter().any(MutantCheck::is_wrong)
    }

    /// In a line, that no probe of a run told anything: such a run shows nothing, although nothing failed. `None` where one did, and
    /// where no tier was to be measured.
    #[must_use]
    pub fn told_nothing(&self) -> Option<String> {
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
            "no probe told anything: {open} inconclusive, {not_run} not run"
        ))
    }

    /// How many probes and proofs passed, failed and were skipped.
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

    /// Whether the suite has proved itself in this run, as a word behind "the suite's own proof".
    fn proof_counted(&self) -> &'static str {
        match self.proofs().is_empty() {
            true => "left out",
            false => "included",
        }
    }

    /// Every proof.
    fn proofs(&self) -> Vec<Proof<'_>> {
        let checks = self.self_checks.iter().map(|check| Proof {
            name: check.name.to_owned(),
            wrong: check.wrong.clone(),
            impossible: None,
        });
        let mutants = self.mutants.iter().map(|mutant| Proof {
            name: format!("mutant: {}", mutant.name),
            wrong: mutant.wrong(),
            impossible: mutant.impossible.as_deref(),
        });
        checks.chain(mutants).collect()
    }

    /// How many mutants were caught, and of how many that could be built here.
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

/// One way in which the suite proves itself.
struct Proof<'a> {
    name: String,
    /// What is wrong with it.
    wrong: Vec<String>,
    /// Why this host cannot tell.
    impossible: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    version: u32,
    suite: &'a str,
    self_checks: &'a [SelfCheck],
    mutants: &'a [MutantCheck],
    tiers: &'a [Report],
}

/// Everything of one run as JSON.
///
/// # Errors
///
/// When it cannot be serialised.
pub fn json(whole: &Whole) -> Result<String, Trouble> {
    let document = Document {
        version: VERSION,
        suite: &crate::suite::id(),
        self_checks: &whole.self_checks,
        mutants: &whole.mutants,
        tiers: &whole.tiers,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Writes `report.json`, `junit.xml`, `report.md`, `report.html`, `badge.json`, and a `badge-TIER.json` for each tier into the
/// folder. `compared` is what has changed since an earlier report, for the page.
///
/// # Errors
///
/// When the disk refuses.
pub fn write(folder: &Path, whole: &Whole, compared: Option<&Compared>) -> Result<(), Trouble> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("report.json"), json(whole)?)?;
    fs::write(folder.join("junit.xml"), junit(whole))?;
    fs::write(folder.join("report.md"), markdown(whole))?;
    fs::write(folder.join("report.html"), page(whole, compared))?;
    let badge = |name: &str, badge: &badge::Badge| -> Result<(), Trouble> {
        Ok(fs::write(folder.join(name), serde_json::to_string(badge)?)?)
    };
    badge("badge.json", &badge::whole(whole))?;
    for report in &whole.tiers {
        badge(&format!("badge-{}.json", report.tier), &badge::tier(report))?;
    }
    Ok(())
}

/// How a finding stands, in words, and why.
fn standing_word(standing: &Standing) -> (&'static str, &str) {
    match standing {
        Standing::Passed => ("ok", ""),
        Standing::Modest(why) => ("better than declared", why),
        Standing::Admitted(why) => ("admitted", why),
        Standing::Open(why) => ("open", why),
        Standing::Failed(why) => ("FAILED", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::finding::Finding;

    fn whole(verdicts: &[Verdict]) -> Whole {
        let probe = crate::suite::selected(&[])[0];
        let found = |verdict: &Verdict| Finding::new(probe, *verdict, Evidence::default(), 1);
        let mut report = Report::new("local", Vec::new());
        report.findings = verdicts.iter().map(found).collect();
        Whole::of(vec![report])
    }

    #[test]
    fn a_run_in_which_no_probe_told_anything_says_so() {
        let open = whole(&[Verdict::Inconclusive, Verdict::NotRun, Verdict::NotRun]);
        let told = open.told_nothing().expect("nothing was told");
        assert_eq!(told, "no probe told anything: 1 inconclusive, 2 not run");
        let measured = whole(&[Verdict::Inconclusive, Verdict::Refused]);
        assert_eq!(measured.told_nothing(), None);
        // Only the suite itself was tested.
        assert_eq!(Whole::default().told_nothing(), None);
    }
}
