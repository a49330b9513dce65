//! Two reports beside each other.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::Whole;
use crate::evidence::Attempt;
use crate::finding::{Finding, Report};
use crate::probe::Trouble;

/// A probe that found something else than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The tier.
    pub tier: String,
    /// The probe.
    pub probe: String,
    /// Verdict and signature before; `None` where it was not there.
    pub before: Option<String>,
    /// Verdict and signature now; `None` where it is not there any more.
    pub now: Option<String>,
}

/// What has changed since an earlier report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// What differs, of the tiers that both have. Sorted by tier and probe.
    pub changes: Vec<Change>,
    /// The tiers of now that the earlier report does not have.
    pub tiers_only_now: Vec<String>,
}

impl Compared {
    /// How much, in a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        let changed = format!("{} probes found something else", self.changes.len());
        match self.tiers_only_now.as_slice() {
            [] => changed,
            tiers => format!("{changed}; not in the earlier report: {}", tiers.join(", ")),
        }
    }
}

/// What is needed of an earlier `report.json`, of whichever version.
#[derive(Debug, Deserialize)]
pub struct Earlier {
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

type Found = BTreeMap<(String, String), String>;

impl Earlier {
    /// The report in this file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is no report.
    pub fn load(path: &Path) -> Result<Self, Trouble> {
        let named = |error: &dyn std::fmt::Display| {
            Trouble::new(format!(
                "{}: {error}; name a report.json of this suite",
                path.display()
            ))
        };
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        serde_json::from_str(&text).map_err(|error| named(&error))
    }

    /// What differs now.
    #[must_use]
    pub fn compare(self, whole: &Whole) -> Compared {
        let only_now = |report: &&Report| !self.tiers.iter().any(|had| had.tier == report.tier);
        let tiers_only_now = whole.tiers.iter().filter(only_now);
        let tiers_only_now = tiers_only_now.map(|report| report.tier.clone()).collect();
        let mut changes = differing(&of_earlier(self), &of_now(whole));
        // A probe of this suite that is not there was left out by whoever ran it.
        let left_out = |change: &Change| {
            let all = crate::probes::all();
            change.now.is_none() && all.iter().any(|probe| probe.id == change.probe)
        };
        changes.retain(|change| !left_out(change));
        Compared {
            changes,
            tiers_only_now,
        }
    }
}

fn of_earlier(earlier: Earlier) -> Found {
    let mut found = Found::new();
    for tier in earlier.tiers {
        for finding in tier.findings {
            let signature = finding
                .evidence
                .attack
                .map(|step| step.attempt.signature)
                .unwrap_or_default();
            let key = (tier.tier.clone(), finding.id);
            found.insert(key, told(&finding.verdict, &signature));
        }
    }
    found
}

fn of_now(whole: &Whole) -> Found {
    let of = |tier: &str, finding: &Finding| {
        let attempt = finding.evidence.attack.as_ref().map(|step| &step.attempt);
        let signature = match attempt {
            Some(Attempt::Blocked { signature }) => signature.as_slice(),
            _ => &[],
        };
        let key = (tier.to_owned(), finding.id.to_owned());
        (key, told(finding.verdict.as_str(), signature))
    };
    let tiers = whole.tiers.iter();
    tiers
        .flat_map(|report| report.findings.iter().map(|f| of(&report.tier, f)))
        .collect()
}

fn told(verdict: &str, signature: &[String]) -> String {
    match signature {
        [] => verdict.to_owned(),
        signs => format!("{verdict} ({})", signs.join(", ")),
    }
}

fn differing(before: &Found, now: &Found) -> Vec<Change> {
    let has = |found: &Found, tier: &str| found.keys().any(|(name, _)| name == tier);
    let keys: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    keys.into_iter()
        .filter(|key| has(before, &key.0) && has(now, &key.0) && before.get(key) != now.get(key))
        .map(|key| Change {
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

    fn found(entries: &[(&str, &str, &str)]) -> Found {
        let entry = |(tier, probe, told): &(&str, &str, &str)| {
            (
                ((*tier).to_owned(), (*probe).to_owned()),
                (*told).to_owned(),
            )
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn only_what_differs_of_tiers_that_both_have() {
        let before = found(&[
            ("local", "a", "enforced (EPERM)"),
            ("local", "b", "enforced"),
            ("docker", "a", "leaked"),
        ]);
        let now = found(&[
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
    fn a_tier_that_was_not_there_is_named() {
        let earlier: Earlier =
            serde_json::from_str(r#"{"tiers": [{"tier": "local", "findings": []}]}"#)
                .expect("a report");
        let now = ["local", "docker"].map(|tier| Report::new(tier, Vec::new()));
        let compared = earlier.compare(&Whole::of(now.into()));
        assert_eq!(compared.tiers_only_now, ["docker"]);
        assert!(
            compared
                .told()
                .ends_with("not in the earlier report: docker")
        );
    }

    #[test]
    fn a_probe_that_a_filter_leaves_out_is_no_change() {
        let [left_out, found] = [0, 1].map(|index| crate::probes::all()[index]);
        let earlier = serde_json::json!({"tiers": [{"tier": "local", "findings": [
            {"id": left_out.id, "verdict": "enforced", "evidence": {"attack": null}},
            {"id": "gone::from_the_suite", "verdict": "enforced", "evidence": {"attack": null}},
        ]}]});
        let earlier: Earlier = serde_json::from_value(earlier).expect("a report");
        let evidence = crate::evidence::Evidence::default();
        let verdict = sandbox_core::matrix::Verdict::Leaked;
        let mut now = Report::new("local", Vec::new());
        now.findings = vec![Finding::new(found, verdict, evidence, 1)];
        let changes = earlier.compare(&Whole::of(vec![now])).changes;
        let probes: Vec<_> = changes.iter().map(|one| one.probe.as_str()).collect();
        assert_eq!(probes, [found.id, "gone::from_the_suite"]);
    }
}
