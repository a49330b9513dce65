//! The pods of killed owners.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::cluster::{client_in, run};
use crate::inspection::has_ended;
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult, owner};

pub const TESTS: &[ClusterTest] = &[(
    "lease::a_killed_owners_pod_ends_after_its_lease",
    lease_over,
)];

fn lease_over() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        owner::start(&namespace.name, "leased", false).kill();
        let begin = std::time::Instant::now();
        namespace
            .wait_for_pods("ended", |pods| pods.iter().all(has_ended))
            .await;
        assert!(
            begin.elapsed() < Duration::from_secs(50),
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(namespace.list().await.len(), 1, "ended, and not removed");
        // The next client removes it in the background.
        let next = client_in(&namespace.name);
        assert!(next.diagnose().await.iter().all(|finding| finding.present));
        namespace.wait_for_pods("removed", <[Pod]>::is_empty).await;
        Ok(())
    })
}
