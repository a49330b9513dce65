//! The pods of killed owners.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::cluster::{client_in, run};
use crate::inspection::has_ended;
use crate::pool::killed_owner_leaves_nothing;
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult, owner};

pub const TESTS: &[ClusterTest] = &[(
    "lease::pods_of_killed_owners_end_after_their_lease",
    lease_over,
)];

/// A pod of a sandbox, and pods that wait for one, at once: the lease is long.
fn lease_over() -> TestResult {
    run(async {
        let (used, waiting) = tokio::join!(used(), killed_owner_leaves_nothing());
        used.and(waiting)
    })
}

async fn used() -> TestResult {
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
}
