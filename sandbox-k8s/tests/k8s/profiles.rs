//! Pod profiles.

use sandbox_core::{Capability, CapabilityPolicy};
use sandbox_k8s::PodProfile;

use crate::cluster::{client_of, output, run, small};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[(
    "profiles::the_restricted_profile_runs_where_its_gaps_are_accepted",
    restricted_runs,
)];

fn restricted_runs() -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.allow_unenforced = vec![Capability::NetworkAccess];
        let client = client_of(PodProfile::Restricted, policy);
        let sandbox = client.create(&small("restricted")).await?;
        let text = output(&sandbox, "grep -E 'CapBnd|NoNewPrivs' /proc/self/status").await;
        assert!(text.contains("CapBnd:\t0000000000000000"), "{text}");
        assert!(
            !sandbox
                .enforcement()
                .get(Capability::NetworkAccess)
                .expect("an entry")
                .is_enforced()
        );
        sandbox.kill().await?;
        Ok(())
    })
}
