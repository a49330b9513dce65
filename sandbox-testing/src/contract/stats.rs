//! What a sandbox has used. That the values are those of its processes, `exec::counted_*` of the
//! conformance suite shows.

use sandbox_core::{CapabilityPolicy, ErrorKind, SandboxStats};

use super::{ContractTest, TestBackend, TestResult, run};

pub const TESTS: &[ContractTest] = &[("stats::are_there_where_the_host_counts", counted)];

fn counted(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec()).await?;
        let stats = sandbox.stats().await?;
        sandbox.kill().await?;
        let error = sandbox.stats().await.expect_err("it has ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        if let Some(peak) = stats.memory_peak {
            let now = stats.memory.expect("it is in the same folder");
            assert!(peak >= now, "{stats:?}");
        }
        // The host sees no connections without rules for them.
        assert_eq!((stats.egress_sent, stats.egress_received), (None, None));
        let is_measured = stats != SandboxStats::default();
        let has_groups = backend.unenforceable_limits().await.is_none();
        let expected = backend.expectations().has_stats && has_groups;
        assert_eq!(is_measured, expected, "{stats:?}");
        Ok(())
    })
}
