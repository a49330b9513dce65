//! What owners leave that are killed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::cluster::{client_in, run};
use crate::own_namespace::{OwnNamespace, has_ended};
use crate::{Done, Test, owner};

pub const TESTS: &[Test] = &[("lease::a_killed_owners_pod_ends_at_its_lease", lease_over)];

fn lease_over() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        owner::start(&place.name, "leased", false).kill();
        let begin = std::time::Instant::now();
        place.wait("ended", |pods| pods.iter().all(has_ended)).await;
        assert!(
            begin.elapsed() < Duration::from_secs(50),
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(place.list().await.len(), 1, "ended, and not removed");
        // The next client's start removes it, without being asked to.
        let next = client_in(&place.name);
        assert!(next.diagnose().await.iter().all(|finding| finding.present));
        place.wait("removed", <[Pod]>::is_empty).await;
        Ok(())
    })
}
