//! Limits that the kernel enforces.

use sandbox_core::Capability;

use crate::cluster::{run, sandbox};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[("limits::memory_and_cpus_are_enforced", limits)];

fn limits() -> TestResult {
    run(async {
        let sandbox = sandbox("limits").await;
        for capability in [Capability::Memory, Capability::Cpus] {
            let entry = sandbox.enforcement().get(capability).expect("an entry");
            assert!(entry.is_enforced(), "{entry}");
        }
        let result = sandbox
            .shell("x=$(dd if=/dev/zero bs=1M count=100 2>/dev/null | tr '\\0' x); echo ${#x}")
            .await?;
        assert!(!result.success(), "{result:?}");
        sandbox.kill().await?;
        Ok(())
    })
}
