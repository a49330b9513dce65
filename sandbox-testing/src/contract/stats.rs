//! What a sandbox has used.

use std::time::Duration;

use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxHandle, SandboxStats};

use super::{ContractTest, TestBackend, TestResult, run, shell};

pub const TESTS: &[ContractTest] = &[("stats::values_are_those_of_the_processes", values)];

/// How much the clocks of an execution and of a control group may differ.
const TOLERANCE: Duration = Duration::from_millis(50);

fn values(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec()).await?;
        let stats = assert_stats_are_those_of_the_processes(&sandbox).await?;
        sandbox.kill().await?;
        let error = sandbox.stats().await.expect_err("it has ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        let is_measured = stats != SandboxStats::default();
        let has_groups = backend.unenforceable_limits().await.is_none();
        let expected = backend.expectations().has_stats && has_groups;
        assert_eq!(is_measured, expected, "{stats:?}");
        Ok(())
    })
}

/// Asserts that what can be measured of a sandbox grows with what an execution uses.
async fn assert_stats_are_those_of_the_processes(
    sandbox: &SandboxHandle,
) -> sandbox_core::Result<SandboxStats> {
    let before = sandbox.stats().await?;
    // The program has a buffer of 32 MiB, and fills it 64 times.
    let script = "dd if=/dev/zero of=/dev/null bs=33554432 count=64";
    let result = shell(sandbox, script).await?;
    result.check()?;
    let after = sandbox.stats().await?;
    if let (Some(before), Some(after)) = (before.cpu_time, after.cpu_time) {
        let used = result.cpu_time.expect("the agent tells it");
        assert!(
            after - before + TOLERANCE >= used,
            "{before:?} {after:?} {used:?}"
        );
    }
    if let Some(peak) = after.memory_peak {
        assert!(peak >= 32 << 20, "{after:?}");
        let now = after.memory.expect("it is in the same folder");
        assert!(peak >= now && now > 0, "{after:?}");
    }
    // The host sees no connections without rules for them.
    assert_eq!((after.egress_sent, after.egress_received), (None, None));
    if let Some(processes) = after.processes {
        // The agent at least.
        assert!(processes > 0, "{after:?}");
    }
    Ok(after)
}
