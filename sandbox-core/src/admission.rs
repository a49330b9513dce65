//! The one gate: what is required and not enforced is refused, before and after a sandbox is built.

use crate::{CapabilityPolicy, Enforcement, EnforcementReport, Error, Level, Plan, Result, Unmet};

/// Compares what a plan demands with what a backend enforces.
///
/// A required demand passes when it is enforced, when it is partial and the policy lists it in `allow_partial` (or
/// `allow_unenforced`), or when it is not enforced and the policy lists it in `allow_unenforced`. A demand without an entry
/// in the report counts as not enforced.
///
/// # Errors
///
/// [`crate::ErrorKind::NotEnforceable`] with every demand that does not pass.
pub fn admit(
    backend: &str,
    plan: &Plan,
    policy: &CapabilityPolicy,
    report: &EnforcementReport,
) -> Result<()> {
    let unmet = unmet(plan, policy, report);
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Error::not_enforceable(backend, unmet))
    }
}

/// The required demands that do not pass [`admit`].
#[must_use]
pub fn unmet(plan: &Plan, policy: &CapabilityPolicy, report: &EnforcementReport) -> Vec<Unmet> {
    plan.demands
        .iter()
        .filter(|demand| demand.level == Level::Required)
        .filter_map(|demand| {
            let enforcement = report
                .get(demand.capability)
                .cloned()
                .unwrap_or_else(|| Enforcement::unenforced("the backend says nothing about it"));
            let unenforced_is_fine = policy.allow_unenforced.contains(&demand.capability);
            let passes = match enforcement {
                Enforcement::Enforced { .. } => true,
                Enforcement::Partial { .. } => {
                    unenforced_is_fine || policy.allow_partial.contains(&demand.capability)
                }
                Enforcement::Unenforced { .. } => unenforced_is_fine,
            };
            (!passes).then(|| Unmet {
                demand: demand.clone(),
                enforcement,
            })
        })
        .collect()
}
