//! Many sandboxes at once, and what they ask the API server for.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use sandbox_core::SandboxHandle;

use crate::namespace::{Namespace, in_namespace, tiny};
use crate::{Done, Test};

pub const TESTS: &[Test] = &[("scale::a_hundred_at_once", hundred)];

/// How many at once, where the nodes have room for them.
const COUNT: usize = 100;
/// With less room than this nothing is shown.
const FEWEST: usize = 20;
/// The most that a sandbox may ask for: to be made, entered and removed.
const OF_ITS_OWN: u64 = 3;
/// The most that all of them together may ask for beside that: the version, the agent, what others left, and the watch.
const IN_COMMON: u64 = 24;

fn hundred() -> Done {
    in_namespace(|namespace| async move {
        // Other tests' pods are on the same nodes.
        let count = COUNT.min(namespace.room().await.saturating_sub(5));
        assert!(count >= FEWEST, "the nodes have room for {count} pods only");
        at_once(namespace, count).await
    })
}

async fn at_once(namespace: Arc<Namespace>, count: usize) -> Done {
    let (backend, client) = namespace.client(namespace.config());
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

    // Each leaves its number, and when all have, finds its own.
    let left = sandboxes.iter().enumerate().map(async |(number, sandbox)| {
        let script = format!("echo {number} > /tmp/number; exit {}", number % 100);
        let result = sandbox.shell(script).await?;
        assert_eq!(result.exit_code(), Some((number % 100) as i32));
        Ok::<_, sandbox_core::Error>(())
    });
    for done in join_all(left).await {
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
    namespace.empty().await;

    let requests = backend.requests();
    let per_sandbox = requests.per_sandbox().unwrap_or_default();
    println!(
        "{count} sandboxes at once: created in {created:.1?}, used after {used:.1?}, gone after {:.1?}; {per_sandbox:.2} requests each: {requests:?}",
        begin.elapsed()
    );
    let count = count as u64;
    for kind in ["create pods", "exec pods", "delete pods"] {
        assert_eq!(requests.of(kind), count, "{kind}: {requests:?}");
    }
    assert_eq!(requests.sandboxes, count);
    assert_eq!(requests.most_for_one, OF_ITS_OWN, "{requests:?}");
    let most = OF_ITS_OWN * count + IN_COMMON;
    assert!(requests.total() <= most, "{requests:?}");
    // One watch for all, and again where it was closed.
    assert!(requests.of("watch pods") <= 6, "{requests:?}");
    Ok(())
}
