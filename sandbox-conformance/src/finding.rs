//! The findings of the suite, and whether they match the claims of the backend.

use std::collections::BTreeMap;

use sandbox_core::Enforcement;
use sandbox_core::matrix::{Observation, Profile, ProfileKey, Subject, Verdict};
use serde::Serialize;

use crate::evidence::{Attempt, Evidence};
use crate::probe::{Probe, ProbeKind};

/// The result of one probe on one tier.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The probe's id.
    pub id: &'static str,
    /// The probe's version.
    pub version: u32,
    /// The capability or feature that the probe is about.
    pub subject: Subject,
    /// Whether the probe tests isolation or behavior.
    pub kind: ProbeKind,
    /// What the probe tries.
    pub summary: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// The mechanisms that explain the denied attack.
    pub explanation: Vec<&'static str>,
    /// Every run of a repeated probe, the first one included.
    pub repetitions: Vec<Repetition>,
    /// The reason and the last day of a known leak; see [`crate::known_leaks`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// The evidence.
    pub evidence: Evidence,
    /// Duration in milliseconds.
    pub milliseconds: u64,
}

/// One run of a repeated probe.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Repetition {
    /// The verdict of this run.
    pub verdict: Verdict,
    /// The evidence of this run.
    pub evidence: Evidence,
    /// Duration in milliseconds.
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

/// The findings on one tier.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The tier.
    pub tier: String,
    /// The identity of the suite.
    pub suite: String,
    /// The properties of this host that change enforcement; empty if the tier cannot run here.
    pub key: ProfileKey,
    /// Why the tier cannot run here.
    pub unavailable: Option<String>,
    /// The findings, sorted by id.
    pub findings: Vec<Finding>,
}

/// How a finding compares with the claim of the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimStatus {
    /// The claim holds.
    Passed,
    /// The backend enforces more than it claims. This is not a failure.
    BetterThanClaimed(String),
    /// The backend itself reports the gap.
    Admitted(String),
    /// The probe could not decide.
    Undecided(String),
    /// The claim does not hold.
    Failed(String),
}

impl Finding {
    /// A finding with this verdict and evidence.
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

    /// Compares the finding with what the backend claims.
    #[must_use]
    pub fn claim_status(&self) -> ClaimStatus {
        let declared = self.evidence.declared.as_ref();
        if let Some(accepted) = self.unrefused_gap() {
            return ClaimStatus::Failed(format!(
                "declared {accepted}, and created the sandbox without refusing"
            ));
        }
        if let Some(broken_claims) = self.broken_claims() {
            return ClaimStatus::Failed(format!(
                "declared enforced before the sandbox was made, and then {broken_claims}"
            ));
        }
        if let Some(known) = &self.known {
            match self.verdict {
                Verdict::Leaked => return ClaimStatus::Admitted(format!("known leak: {known}")),
                Verdict::Enforced => {
                    return ClaimStatus::Failed(format!(
                        "the known leak is fixed: remove it from {}",
                        crate::known_leaks::FILE
                    ));
                }
                _ => {}
            }
        }
        match self.verdict {
            Verdict::Enforced => match declared {
                None | Some(Enforcement::Enforced { .. }) => ClaimStatus::Passed,
                Some(other) => ClaimStatus::BetterThanClaimed(format!("declared: {other}")),
            },
            Verdict::Leaked => match declared {
                Some(other) if !other.is_enforced() => ClaimStatus::Admitted(other.to_string()),
                Some(claim) => ClaimStatus::Failed(format!(
                    "declared {claim}, and it leaked: {}",
                    self.detail()
                )),
                None => ClaimStatus::Failed(self.detail()),
            },
            Verdict::Refused => ClaimStatus::Admitted(self.detail()),
            Verdict::Overblocked | Verdict::Unexplained => ClaimStatus::Failed(self.detail()),
            Verdict::Flaky => ClaimStatus::Failed(format!(
                "runs disagree: {}{}",
                self.verdicts(),
                self.deviation()
            )),
            Verdict::Inconclusive | Verdict::NotRun => ClaimStatus::Undecided(self.detail()),
        }
    }

    /// The enforcement that the backend declares as incomplete, if it created the sandbox without
    /// refusing first. Every setup demands the subject of its probe.
    fn unrefused_gap(&self) -> Option<&Enforcement> {
        let (capability, declared) = (self.subject.capability()?, self.evidence.declared.as_ref()?);
        let waived = self
            .evidence
            .waived
            .iter()
            .any(|unmet| unmet.demand.capability == capability);
        (self.evidence.gated && !declared.is_enforced() && !waived).then_some(declared)
    }

    /// The deciding detail of the first repeated run that was not enforced, in parentheses; empty if
    /// all were.
    #[must_use]
    pub fn deviation(&self) -> String {
        let mut runs = self.repetitions.iter();
        let other = runs.find(|run| run.verdict != Verdict::Enforced);
        let first = other.map(|run| Self {
            verdict: run.verdict,
            evidence: run.evidence.clone(),
            repetitions: Vec::new(),
            ..self.clone()
        });
        first.map_or_else(String::new, |finding| format!(" ({})", finding.detail()))
    }

    /// The enforcement that the backend had assessed as complete and then did not apply.
    fn broken_claims(&self) -> Option<&Enforcement> {
        let capability = self.subject.capability()?;
        let mut broken_claims = self.evidence.broken_claims.iter();
        let own = broken_claims.find(|unmet| unmet.demand.capability == capability)?;
        Some(&own.enforcement)
    }

    /// The verdicts of all runs, in order; empty if the probe ran once.
    #[must_use]
    pub fn verdicts(&self) -> String {
        let verdicts = self.repetitions.iter().map(|run| run.verdict.as_str());
        verdicts.collect::<Vec<_>>().join(", ")
    }

    /// The deciding evidence, in one line.
    #[must_use]
    pub fn detail(&self) -> String {
        let evidence = &self.evidence;
        let step = |name: &str, step: &Option<crate::Step>| match step {
            None => format!("{name} was not tried"),
            Some(step) => format!("{name} `{}`: {}", step.action, describe(&step.attempt)),
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
            Verdict::Inconclusive => match &evidence.error {
                Some(error) => error.clone(),
                None => step("host control", &evidence.host_control),
            },
            Verdict::Overblocked => {
                let control = step("allow control", &evidence.allow_control);
                match &evidence.attack {
                    // The attack says what kept the control from its turn.
                    Some(_) if evidence.allow_control.is_none() => {
                        format!("{control}; {}", step("attack", &evidence.attack))
                    }
                    _ => control,
                }
            }
            _ => {
                let dirty = evidence
                    .host_checks
                    .iter()
                    .find_map(|host_check| match host_check {
                        crate::HostCheck::Dirty { watched } => {
                            Some(format!("; touched: {watched}"))
                        }
                        _ => None,
                    });
                step("attack", &evidence.attack) + &dirty.unwrap_or_default()
            }
        }
    }
}

fn describe(attempt: &Attempt) -> String {
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
            let known =
                |denial: &&crate::ExpectedDenial| signature.iter().any(|sign| sign == denial.sign);
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
    /// A report without findings.
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

    /// The profile of this report, as committed.
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

    /// The number of findings that passed, failed, and are admitted or undecided.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let mut counts = (0, 0, 0);
        for finding in &self.findings {
            match finding.claim_status() {
                ClaimStatus::Passed | ClaimStatus::BetterThanClaimed(_) => counts.0 += 1,
                ClaimStatus::Failed(_) => counts.1 += 1,
                ClaimStatus::Admitted(_) | ClaimStatus::Undecided(_) => counts.2 += 1,
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::{Capability, Demand, Level, Unmet};

    use super::*;

    fn refused(waived: &[Capability], broken_claims: &[Capability]) -> ClaimStatus {
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
            broken_claims: broken_claims.iter().map(unmet).collect(),
            ..Evidence::default()
        };
        let memory = |probe: &&&Probe| probe.id == "memory::one_process";
        let probes = crate::probes::all();
        let probe = probes.iter().find(memory).expect("the probe");
        Finding::new(probe, Verdict::Refused, evidence, 1).claim_status()
    }

    #[test]
    fn broken_claim_fails_only_probes_of_its_capability() {
        let both = [Capability::Memory, Capability::Cpus];
        let admitted = |claim_status| matches!(claim_status, ClaimStatus::Admitted(_));
        assert!(admitted(refused(&both, &[])));
        assert!(admitted(refused(&both, &[Capability::Cpus])));
        let ClaimStatus::Failed(why) = refused(&both, &[Capability::Memory]) else {
            panic!("a broken promise is a failure");
        };
        assert!(why.contains("before the sandbox was made") && why.contains("no cgroup"));
    }

    #[test]
    fn missing_allow_control_is_reported_with_what_the_attack_met() {
        let attack = Attempt::unclear("no session started".to_owned());
        let evidence = Evidence {
            attack: Some(crate::Step::new("look", attack)),
            ..Evidence::default()
        };
        let probes = crate::probes::all();
        let finding = Finding::new(probes[0], Verdict::Overblocked, evidence, 1);
        let detail = finding.detail();
        assert!(detail.contains("was not tried") && detail.contains("no session started"));
    }
}
