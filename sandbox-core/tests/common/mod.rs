//! What the tests of this crate share.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod faulty;

use std::sync::Arc;

use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::{
    Capability, CapabilityPolicy, Enforcement, EnforcementReport, Plan, Result, SandboxClient,
    SandboxSpec,
};

/// Runs a test that waits.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

/// A report that every capability is enforced, with these exceptions.
pub fn report(exceptions: &[(Capability, Enforcement)]) -> EnforcementReport {
    let mut report = EnforcementReport::new();
    for capability in Capability::ALL {
        report.set(*capability, Enforcement::enforced("test"));
    }
    for (capability, enforcement) in exceptions {
        report.set(*capability, enforcement.clone());
    }
    report
}

/// The plan of a specification without any wish.
pub fn plan(policy: &CapabilityPolicy) -> Result<Plan> {
    Plan::resolve(&SandboxSpec::new("test"), policy)
}

/// A client of a fake that succeeds and enforces this.
pub fn client(policy: CapabilityPolicy, report: EnforcementReport) -> SandboxClient {
    let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout(""))).enforcing(report);
    SandboxClient::with_backend(Arc::new(backend), policy).unwrap()
}
