//! Admission: refuses a sandbox if a required demand is not enforced.
//!
//! The client runs it before a sandbox is created, and again with what was applied.

use crate::{
    Capability, CapabilityPolicy, Enforcement, EnforcementReport, Error, Level, Plan, Result, Unmet,
};

/// Compares the demands of a plan with what a backend enforces.
///
/// A required demand passes in these cases:
///
/// - It is enforced.
/// - It is partially enforced, and the policy lists it in `allow_partial`.
/// - The policy lists it in `allow_unenforced`.
///
/// A demand without an entry in the report counts as not enforced.
///
/// # Errors
///
/// [`crate::ErrorKind::NotEnforceable`] with all demands that do not pass.
pub fn admit(
    backend: &str,
    plan: &Plan,
    policy: &CapabilityPolicy,
    report: &EnforcementReport,
) -> Result<()> {
    let unmet = unmet(plan, policy, report);
    match unmet.is_empty() {
        true => Ok(()),
        false => Err(Error::not_enforceable(backend, unmet)),
    }
}

/// The required demands that do not pass [`admit`].
#[must_use]
pub fn unmet(plan: &Plan, policy: &CapabilityPolicy, report: &EnforcementReport) -> Vec<Unmet> {
    let required = plan.demands.iter();
    let required = required.filter(|demand| demand.level == Level::Required);
    let unmet = required.filter_map(|demand| {
        let enforcement = enforcement(report, demand.capability);
        let may_be_unenforced = policy.allow_unenforced.contains(&demand.capability);
        let passes = match enforcement {
            Enforcement::Enforced { .. } => true,
            Enforcement::Partial { .. } => {
                may_be_unenforced || policy.allow_partial.contains(&demand.capability)
            }
            Enforcement::Unenforced { .. } => may_be_unenforced,
        };
        (!passes).then(|| Unmet {
            demand: demand.clone(),
            enforcement,
        })
    });
    unmet.collect()
}

/// How a backend enforces a capability. A capability that its report omits is not enforced.
pub(crate) fn enforcement(report: &EnforcementReport, capability: Capability) -> Enforcement {
    let missing = || Enforcement::unenforced("the backend says nothing about it");
    report.get(capability).cloned().unwrap_or_else(missing)
}
