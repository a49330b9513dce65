//! The differences between two reports.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::RunResults;
use crate::evidence::Attempt;
use crate::finding::{Finding, Report};
use crate::probe::ProbeError;

/// A probe whose result changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultChange {
    /// The tier.
    pub tier: String,
    /// The probe.
    pub probe: String,
    /// Verdict and signature before; `None` if the probe was missing.
    pub before: Option<String>,
    /// Verdict and signature now; `None` if the probe is missing.
    pub now: Option<String>,
}

/// The changes since an earlier report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportDiff {
    /// The changes on tiers that both reports have, sorted by tier and probe.
    pub changes: Vec<ResultChange>,
    /// The tiers that only the current report has.
    pub tiers_only_now: Vec<String>,
}

impl ReportDiff {
    /// A summary in one sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let changed = format!("{} probes found something else", self.changes.len());
        match self.tiers_only_now.as_slice() {
            [] => changed,
            tiers => format!("{changed}; not in the earlier report: {}", tiers.join(", ")),
        }
    }
}

/// The needed part of an earlier `report.json`, of any version.
#[derive(Debug, Deserialize)]
pub struct EarlierReport {
    tiers: Vec<EarlierTier>,
}

#[derive(Debug, Deserialize)]
struct EarlierTier {
    tier: String,
    findings: Vec<EarlierFinding>,
}

#[derive(Debug, Deserialize)]
struct EarlierFinding {
    id: String,
    verdict: String,
    evidence: EarlierEvidence,
}

#[derive(Debug, Deserialize)]
struct EarlierEvidence {
    attack: Option<EarlierStep>,
}

#[derive(Debug, Deserialize)]
struct EarlierStep {
    attempt: EarlierAttempt,
}

#[derive(Debug, Deserialize)]
struct EarlierAttempt {
    #[serde(default)]
    signature: Vec<String>,
}

type Results = BTreeMap<(String, String), String>;

impl EarlierReport {
    /// Reads a report.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a report.
    pub fn load(path: &Path) -> Result<Self, ProbeError> {
        let named = |error: &dyn std::fmt::Display| {
            ProbeError::new(format!(
                "cannot read the earlier report {}: {error}; name a report.json of this suite",
                path.display()
            ))
        };
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        serde_json::from_str(&text).map_err(|error| named(&error))
    }

    /// The changes since this report.
    #[must_use]
    pub fn compare(self, results: &RunResults) -> ReportDiff {
        let only_now = |report: &&Report| !self.tiers.iter().any(|had| had.tier == report.tier);
        let tiers_only_now = results.tiers.iter().filter(only_now);
        let tiers_only_now = tiers_only_now.map(|report| report.tier.clone()).collect();
        let mut changes = differing(&earlier_results(self), &current_results(results));
        // A filter left out a probe of this suite that is missing.
        let left_out = |change: &ResultChange| {
            let all = crate::probes::all();
            change.now.is_none() && all.iter().any(|probe| probe.id == change.probe)
        };
        changes.retain(|change| !left_out(change));
        ReportDiff {
            changes,
            tiers_only_now,
        }
    }
}

fn earlier_results(earlier: EarlierReport) -> Results {
    let mut results = Results::new();
    for tier in earlier.tiers {
        for finding in tier.findings {
            let signature = finding
                .evidence
                .attack
                .map(|step| step.attempt.signature)
                .unwrap_or_default();
            let key = (tier.tier.clone(), finding.id);
            results.insert(key, describe(&finding.verdict, &signature));
        }
    }
    results
}

fn current_results(results: &RunResults) -> Results {
    let of = |tier: &str, finding: &Finding| {
        let attempt = finding.evidence.attack.as_ref().map(|step| &step.attempt);
        let signature = match attempt {
            Some(Attempt::Blocked { signature }) => signature.as_slice(),
            _ => &[],
        };
        let key = (tier.to_owned(), finding.id.to_owned());
        (key, describe(finding.verdict.as_str(), signature))
    };
    let tiers = results.tiers.iter();
    tiers
        .flat_map(|report| report.findings.iter().map(|f| of(&report.tier, f)))
        .collect()
}

fn describe(verdict: &str, signature: &[String]) -> String {
    match signature {
        [] => verdict.to_owned(),
        signs => format!("{verdict} ({})", signs.join(", ")),
    }
}

fn differing(before: &Results, now: &Results) -> Vec<ResultChange> {
    let has = |results: &Results, tier: &str| results.keys().any(|(name, _)| name == tier);
    let keys: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    keys.into_iter()
        .filter(|key| has(before, &key.0) && has(now, &key.0) && before.get(key) != now.get(key))
        .map(|key| ResultChange {
            tier: key.0.clone(),
            probe: key.1.clone(),
            before: before.get(key).cloned(),
            now: now.get(key).cloned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(entries: &[(&str, &str, &str)]) -> Results {
        let entry = |(tier, probe, describe): &(&str, &str, &str)| {
            (
                ((*tier).to_owned(), (*probe).to_owned()),
                (*describe).to_owned(),
            )
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn changes_are_listed_for_tiers_in_both_reports() {
        let before = results(&[
            ("local", "a", "enforced (EPERM)"),
            ("local", "b", "enforced"),
            ("docker", "a", "leaked"),
        ]);
        let now = results(&[
            ("local", "a", "enforced (EACCES)"),
            ("local", "b", "enforced"),
            ("local", "c", "leaked"),
        ]);
        let changes = differing(&before, &now);
        let names: Vec<_> = changes.iter().map(|one| one.probe.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(changes[1].before, None);
    }

    #[test]
    fn tier_missing_from_the_earlier_report_is_named() {
        let earlier: EarlierReport =
            serde_json::from_str(r#"{"tiers": [{"tier": "local", "findings": []}]}"#)
                .expect("a report");
        let now = ["local", "docker"].map(|tier| Report::new(tier, Vec::new()));
        let diff = earlier.compare(&RunResults::of(now.into()));
        assert_eq!(diff.tiers_only_now, ["docker"]);
        assert!(
            diff.summary()
                .ends_with("not in the earlier report: docker")
        );
    }

    #[test]
    fn probe_left_out_by_a_filter_is_no_change() {
        let [left_out, results] = [0, 1].map(|index| crate::probes::all()[index]);
        let earlier = serde_json::json!({"tiers": [{"tier": "local", "findings": [
            {"id": left_out.id, "verdict": "enforced", "evidence": {"attack": null}},
            {"id": "gone::from_the_suite", "verdict": "enforced", "evidence": {"attack": null}},
        ]}]});
        let earlier: EarlierReport = serde_json::from_value(earlier).expect("a report");
        let evidence = crate::evidence::Evidence::default();
        let verdict = sandbox_core::matrix::Verdict::Leaked;
        let mut now = Report::new("local", Vec::new());
        now.findings = vec![Finding::new(results, verdict, evidence, 1)];
        let changes = earlier.compare(&RunResults::of(vec![now])).changes;
        let probes: Vec<_> = changes.iter().map(|one| one.probe.as_str()).collect();
        assert_eq!(probes, [results.id, "gone::from_the_suite"]);
    }
}
