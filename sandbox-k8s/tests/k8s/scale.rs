//! Many concurrent sandboxes, and their requests to the API server.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use sandbox_core::SandboxHandle;

use crate::capacity::{in_namespace, tiny};
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[(
    "scale::a_hundred_concurrent_sandboxes_need_few_requests",
    hundred,
)];

/// The number of sandboxes, if the nodes have room for them.
const COUNT: usize = 100;
/// The fewest sandboxes with which the test is meaningful.
const MIN_COUNT: usize = 20;
/// The most requests for one sandbox: create, exec and delete.
const REQUESTS_PER_SANDBOX: u64 = 3;
/// The most shared requests: the version, the agent, leftovers, and the watch.
const SHARED_REQUESTS: u64 = 24;

fn hundred() -> TestResult {
    in_namespace(|namespace| async move {
        // Other tests' pods are on the same nodes.
        let count = COUNT.min(namespace.room().await.saturating_sub(5));
        assert!(
            count >= MIN_COUNT,
            "the nodes have room for {count} pods only"
        );
        at_once(namespace, count).await
    })
}

async fn at_once(namespace: Arc<TestNamespace>, count: usize) -> TestResult {
    let (backend, client) = namespace.backend_and_client(namespace.patient_config());
    let begin = Instant::now();
    let creations = (0..count).map(|number| {
        let client = client.clone();
        let spec = tiny(&format!("scale-{number}"));
        tokio::spawn(async move { client.create(&spec).await })
    });
    let mut sandboxes: Vec<SandboxHandle> = Vec::new();
    for created in join_all(creations).await {
        sandboxes.push(created??);
    }
    let created = begin.elapsed();
    assert_eq!(namespace.listed().await.len(), count);

    // Each sandbox writes its number. When all have, each reads its own.
    let written = sandboxes.iter().enumerate().map(async |(number, sandbox)| {
        let script = format!("echo {number} > /tmp/number; exit {}", number % 100);
        let result = sandbox.shell(script).await?;
        assert_eq!(result.exit_code(), Some((number % 100) as i32));
        Ok::<_, sandbox_core::Error>(())
    });
    for done in join_all(written).await {
        done?;
    }
    let found = sandboxes
        .iter()
        .map(|sandbox| sandbox.shell("cat /tmp/number"));
    for (number, found) in join_all(found).await.into_iter().enumerate() {
        assert_eq!(found?.stdout_text(), format!("{number}\n"));
    }
    let used = begin.elapsed();
    for killed in join_all(sandboxes.iter().map(SandboxHandle::kill)).await {
        killed?;
    }
    drop(sandboxes);
    namespace.wait_empty().await;

    let requests = backend.requests();
    let per_sandbox = requests.per_sandbox().unwrap_or_default();
    println!(
        "{count} sandboxes at once: created in {created:.1?}, used after {used:.1?}, removed after {:.1?}; {per_sandbox:.2} requests each: {requests:?}",
        begin.elapsed()
    );
    let count = count as u64;
    // A busy node loses streams. Each is opened again, after one look at the pod.
    let reopened = requests.of("get pods");
    assert!(reopened <= count / 10, "{requests:?}");
    for (kind, expected) in [
        ("create pods", count),
        ("exec pods", count + reopened),
        ("delete pods", count),
    ] {
        assert_eq!(requests.of(kind), expected, "{kind}: {requests:?}");
    }
    assert_eq!(requests.sandboxes, count);
    let most_for_one = REQUESTS_PER_SANDBOX + 2 * reopened;
    assert!(requests.most_for_one <= most_for_one, "{requests:?}");
    let most = REQUESTS_PER_SANDBOX * count + 2 * reopened + SHARED_REQUESTS;
    assert!(requests.total() <= most, "{requests:?}");
    // One watch for all, which is reopened when the server closes it.
    assert!(requests.of("watch pods") <= 6, "{requests:?}");
    Ok(())
}
