//! Plans for tests.

use sandbox_core::{CapabilityPolicy, Plan, SandboxSpec};

/// The plan of a specification under a policy.
pub(crate) fn plan(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Plan {
    Plan::resolve(spec, policy).expect("a plan")
}
