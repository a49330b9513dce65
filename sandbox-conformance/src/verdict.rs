//! Computes a verdict from evidence. This is a pure function.

use sandbox_core::matrix::{Subject, Verdict};

use crate::evidence::{Attempt, Evidence, HostCheck};
use crate::probe::ExpectedDenial;

/// Computes the verdict of a probe about `subject`. `denials` are the accepted denials of its
/// attack.
///
/// The first matching rule decides. A leak is a leak, whatever the controls show. What the backend
/// refused, or what never ran, is neither good nor bad. Without a working host control the attack
/// proves nothing. Without a working allow control the backend gets no credit. Only a denial that a
/// known mechanism explains, with an unchanged host, is enforcement.
///
/// A leak of a subject that the backend refused to run without a waiver is [`Verdict::Refused`].
#[must_use]
pub fn judge(subject: Subject, evidence: &Evidence, denials: &[ExpectedDenial]) -> Verdict {
    let succeeded =
        |step: &Option<crate::Step>| step.as_ref().is_some_and(|s| s.attempt.is_success());
    let dirty = evidence
        .host_checks
        .iter()
        .any(|host_check| matches!(host_check, HostCheck::Dirty { .. }));
    if dirty || succeeded(&evidence.attack) {
        // A behavior depends on every demand of its policy.
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
    if evidence.error.is_some() || !succeeded(&evidence.host_control) {
        return Verdict::Inconclusive;
    }
    if !succeeded(&evidence.allow_control) {
        return Verdict::Overblocked;
    }
    match evidence.attack.as_ref().map(|step| &step.attempt) {
        None => Verdict::Inconclusive,
        Some(_) if evidence.host_checks.is_empty() => Verdict::Inconclusive,
        Some(Attempt::Blocked { signature }) if explained(signature, denials) => Verdict::Enforced,
        Some(_) => Verdict::Unexplained,
    }
}

/// Whether a known mechanism explains every sign.
fn explained(signature: &[String], denials: &[ExpectedDenial]) -> bool {
    let known = |sign: &String| denials.iter().any(|denial| denial.sign == sign.as_str());
    !signature.is_empty() && signature.iter().all(known)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
