//! What the suite found, and whether that is fine.

use std::collections::BTreeMap;

use sandbox_core::Enforcement;
use sandbox_core::matrix::{Observation, Profile, ProfileKey, Subject, Verdict};
use serde::Serialize;

use crate::evidence::{Attempt, Evidence};
use crate::probe::{Kind, Probe};

/// What one probe found on one tier.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The probe's name.
    pub id: &'static str,
    /// The probe's version.
    pub version: u32,
    /// What it is about.
    pub subject: Subject,
    /// Who could fail it.
    pub kind: Kind,
    /// What is tried.
    pub summary: &'static str,
    /// What it found.
    pub verdict: Verdict,
    /// The mechanisms that the signs of the stopped attack stand for.
    pub explanation: Vec<&'static str>,
    /// Every run, where it was repeated: the first one, with which another may disagree, included.
    pub repetitions: Vec<Repetition>,
    /// The excuse of a leak that is known, and its last day; see [`crate::known`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// Everything that was seen.
    pub evidence: Evidence,
    /// How long it took.
    pub milliseconds: u64,
}

/// One run of a probe that was repeated.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Repetition {
    /// What this run found.
    pub verdict: Verdict,
    /// Everything that was seen in it.
    pub evidence: Evidence,
    /// How long it took.
    pub milliseconds: u64,
}

impl From<&Finding> for Repetition {
    fn from(finding: &Finding) -> Self {
        Self {
            verdict: finding.verdict,
            evidence: finding.evidence.clone(),
            milliseconds: finding.milliseconds,
        }
    }
}

/// What the suite found on one tier.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The tier.
    pub tier: String,
    /// Identity of the suite.
    pub suite: String,
    /// What of this host changes enforcement; empty where the tier cannot run here.
    pub key: ProfileKey,
    /// Why the tier cannot run here.
    pub unavailable: Option<String>,
    /// What was found, sorted by name.
    pub findings: Vec<Finding>,
}

/// Whether a finding is fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// As claimed.
    Passed,
    /// Better than claimed: said, and no failure.
    Modest(String),
    /// As bad as the backend itself says.
    Admitted(String),
    /// Nothing was found out.
    Open(String),
    /// Worse than claimed.
    Failed(String),
}

impl Finding {
    /// A finding out of what was seen.
    #[must_use]
    pub fn new(
        probe: &'static Probe,
        verdict: Verdict,
        evidence: Evidence,
        milliseconds: u64,
    ) -> Self {
        Self {
            id: probe.id,
            version: probe.version,
            subject: probe.subject,
            kind: probe.kind,
            summary: probe.summary,
            verdict,
            explanation: explanation(probe, &evidence),
            repetitions: Vec::new(),
            known: None,
            evidence,
            milliseconds,
        }
    }

    /// Whether it is fine.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let declared = self.evidence.declared.as_ref();
        if let Some(accepted) = self.accepted_in_silence() {
            return Standing::Failed(format!("declared {accepted}, and made all the same"));
        }
        if let Some(unkept) = self.unkept() {
            return Standing::Failed(format!(
                "declared enforced before the sandbox was made, and then {unkept}"
            ));
        }
        if let Some(known) = &self.known {
            match self.verdict {
                Verdict::Leaked => return Standing::Admitted(format!("known leak: {known}")),
                Verdict::Enforced => {
                    return Standing::Failed(format!(
                        "it does not leak any more: remove it from {}",
                        crate::known::FILE
                    ));
                }
                _ => {}
            }
        }
        match self.verdict {
            Verdict::Enforced => match declared {
                None | Some(Enforcement::Enforced { .. }) => Standing::Passed,
                Some(other) => Standing::Modest(format!("declared: {other}")),
            },
            Verdict::Leaked => match declared {
                Some(other) if !other.is_enforced() => Standing::Admitted(other.to_string()),
                Some(claim) => Standing::Failed(format!(
                    "declared {claim}, and it leaked: {}",
                    self.detail()
                )),
                None => Standing::Failed(self.detail()),
            },
            Verdict::Refused => Standing::Admitted(self.detail()),
            Verdict::Overblocked | Verdict::Unexplained => Standing::Failed(self.detail()),
            Verdict::Flaky => Standing::Failed(format!(
                "runs disagree: {}{}",
                self.verdicts(),
                self.deviation()
            )),
            Verdict::Inconclusive | Verdict::NotRun => Standing::Open(self.detail()),
        }
    }

    /// What the backend says that it does not enforce, where it made the sandbox without refusing first. Every setting of a
    /// probe demands what the probe is about.
    fn accepted_in_silence(&self) -> Option<&Enforcement> {
        let (capability, declared) = (self.subject.capability()?, self.evidence.declared.as_ref()?);
        let waived = self
            .evidence
            .waived
            .iter()
            .any(|unmet| unmet.demand.capability == capability);
        (self.evidence.gated && !declared.is_enforced() && !waived).then_some(declared)
    }

    /// What decided the first run of a repeated probe that was not enforced.
    fn deviation(&self) -> String {
        let mut runs = self.repetitions.iter();
        let other = runs.find(|run| run.verdict != Verdict::Enforced);
        let told = other.map(|run| Self {
            verdict: run.verdict,
            evidence: run.evidence.clone(),
            repetitions: Vec::new(),
            ..self.clone()
        });
        told.map_or_else(String::new, |finding| format!(" ({})", finding.detail()))
    }

    /// What the backend had said that it would enforce, and then did not.
    fn unkept(&self) -> Option<&Enforcement> {
        let capability = self.subject.capability()?;
        let mut unkept = self.evidence.unkept.iter();
        let own = unkept.find(|unmet| unmet.demand.capability == capability)?;
        Some(&own.enforcement)
    }

    /// The verdicts of every run, in their order; empty where it was not repeated.
    #[must_use]
    pub fn verdicts(&self) -> String {
        let verdicts = self.repetitions.iter().map(|run| run.verdict.as_str());
        verdicts.collect::<Vec<_>>().join(", ")
    }

    /// The piece of evidence that decided, in a line.
    #[must_use]
    pub fn detail(&self) -> String {
        let evidence = &self.evidence;
        let step = |name: &str, step: &Option<crate::Step>| match step {
            None => format!("{name} was not tried"),
            Some(step) => format!("{name} `{}`: {}", step.action, said(&step.attempt)),
        };
        match self.verdict {
            Verdict::NotRun => evidence.not_run.clone().unwrap_or_default(),
            Verdict::Refused => {
                let own = |unmet: &&sandbox_core::Unmet| {
                    Some(unmet.demand.capability) == self.subject.capability()
                };
                match (&evidence.refused, evidence.waived.iter().find(own)) {
                    (Some(why), _) => why.clone(),
                    (None, Some(unmet)) => unmet.to_string(),
                    (None, None) => String::new(),
                }
            }
            Verdict::Inconclusive => match &evidence.trouble {
                Some(trouble) => trouble.clone(),
                None => step("host control", &evidence.host_control),
            },
            Verdict::Overblocked => step("allow control", &evidence.allow_control),
            _ => {
                let dirty = evidence.oracles.iter().find_map(|oracle| match oracle {
                    crate::Oracle::Dirty { watched } => Some(format!("; touched: {watched}")),
                    _ => None,
                });
                step("attack", &evidence.attack) + &dirty.unwrap_or_default()
            }
        }
    }
}

fn said(attempt: &Attempt) -> String {
    match attempt {
        Attempt::Succeeded { value } if value.is_empty() => "succeeded".into(),
        Attempt::Succeeded { value } => format!("succeeded: {value}"),
        Attempt::Blocked { signature } => format!("stopped by {}", signature.join(", ")),
        Attempt::Unclear { detail } => format!("unclear: {detail}"),
    }
}

fn explanation(probe: &'static Probe, evidence: &Evidence) -> Vec<&'static str> {
    match evidence.attack.as_ref().map(|step| &step.attempt) {
        Some(Attempt::Blocked { signature }) => {
            let known = |denial: &&crate::Denial| signature.iter().any(|sign| sign == denial.sign);
            probe
                .denials
                .iter()
                .filter(known)
                .map(|denial| denial.means)
                .collect()
        }
        _ => Vec::new(),
    }
}

impl Report {
    /// A report of a tier without any finding.
    #[must_use]
    pub fn new(tier: &str, key: ProfileKey) -> Self {
        Self {
            tier: tier.to_owned(),
            suite: crate::suite::id(),
            key,
            unavailable: None,
            findings: Vec::new(),
        }
    }

    /// What is committed of it.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let observed = |finding: &Finding| Observation {
            subject: finding.subject,
            verdict: finding.verdict,
            declared: finding.evidence.declared.clone(),
        };
        let probes: BTreeMap<_, _> = self
            .findings
            .iter()
            .map(|f| (f.id.to_owned(), observed(f)))
            .collect();
        Profile {
            tier: self.tier.clone(),
            suite: self.suite.clone(),
            key: self.key.clone(),
            probes,
        }
    }

    /// How many findings passed (better than claimed included), failed, and told nothing or what the backend admits.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let mut counts = (0, 0, 0);
        for finding in &self.findings {
            match finding.standing() {
                Standing::Passed | Standing::Modest(_) => counts.0 += 1,
                Standing::Failed(_) => counts.1 += 1,
                Standing::Admitted(_) | Standing::Open(_) => counts.2 += 1,
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Capability, Demand, Level, Unmet};

    use super::*;

    fn refused(waived: &[Capability], unkept: &[Capability]) -> Standing {
        let unmet = |capability: &Capability| Unmet {
            demand: Demand {
                capability: *capability,
                level: Level::Required,
                value: "64MiB".into(),
            },
            enforcement: Enforcement::unenforced("no cgroup"),
        };
        let evidence = Evidence {
            gated: true,
            waived: waived.iter().map(unmet).collect(),
            unkept: unkept.iter().map(unmet).collect(),
            ..Evidence::default()
        };
        let memory = |probe: &&&Probe| probe.id == "memory::one_process";
        let probes = crate::probes::all();
        let probe = probes.iter().find(memory).expect("the probe");
        Finding::new(probe, Verdict::Refused, evidence, 1).standing()
    }

    #[test]
    fn what_was_promised_and_not_kept_fails_the_probes_of_its_capability_alone() {
        let both = [Capability::Memory, Capability::Cpus];
        let admitted = |standing| matches!(standing, Standing::Admitted(_));
        assert!(admitted(refused(&both, &[])));
        assert!(admitted(refused(&both, &[Capability::Cpus])));
        let Standing::Failed(why) = refused(&both, &[Capability::Memory]) else {
            panic!("a broken promise is a failure");
        };
        assert!(why.contains("before the sandbox was made") && why.contains("no cgroup"));
    }
}
