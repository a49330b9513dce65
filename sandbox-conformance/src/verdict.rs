//! From evidence to a verdict: a pure function.

use sandbox_core::matrix::{Subject, Verdict};

use crate::evidence::{Attempt, Evidence, Oracle};
use crate::probe::Denial;

/// Judges what a probe about `subject` saw; `denials` are the signs by which its attack may be stopped.
///
/// In this order: what leaked has leaked, whatever the controls say; what the backend declined or what never ran earns nothing
/// and costs nothing; without a working host control the attack proves nothing; without a working allow control the
/// backend earns nothing; and only a stop that a known mechanism explains, with the host untouched, is enforcement.
///
/// A leak of a subject that the backend itself refused to run without a waiver is [`Verdict::Refused`].
#[must_use]
pub fn judge(subject: Subject, evidence: &Evidence, denials: &[Denial]) -> Verdict {
    let succeeded =
        |step: &Option<crate::Step>| step.as_ref().is_some_and(|s| s.attempt.is_success());
    let dirty = evidence
        .oracles
        .iter()
        .any(|oracle| matches!(oracle, Oracle::Dirty { .. }));
    if dirty || succeeded(&evidence.attack) {
        // A behaviour leans on whatever its policy demands.
        let declined = evidence.waived.iter().any(|u| {
            subject
                .capability()
                .is_none_or(|c| c == u.demand.capability)
        });
        return if declined {
            Verdict::Refused
        } else {
            Verdict::Leaked
        };
    }
    if evidence.refused.is_some() {
        return Verdict::Refused;
    }
    if evidence.not_run.is_some() {
        return Verdict::NotRun;
    }
    if evidence.trouble.is_some() || !succeeded(&evidence.host_control) {
        return Verdict::Inconclusive;
    }
    if !succeeded(&evidence.allow_control) {
        return Verdict::Overblocked;
    }
    match evidence.attack.as_ref().map(|step| &step.attempt) {
        None => Verdict::Inconclusive,
        Some(_) if evidence.oracles.is_empty() => Verdict::Inconclusive,
        Some(Attempt::Blocked { signature }) if explained(signature, denials) => Verdict::Enforced,
        Some(_) => Verdict::Unexplained,
    }
}

/// Whether every sign is one that a known mechanism gives.
fn explained(signature: &[String], denials: &[Denial]) -> bool {
    let known = |sign: &String| denials.iter().any(|denial| denial.sign == sign.as_str());
    !signature.is_empty() && signature.iter().all(known)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
