//! The warm pool: pods that are started before they are needed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kube::api::{DeleteParams, ListParams};
use sandbox_core::{Capability, SandboxClient, SandboxHandle};
use sandbox_k8s::{KubernetesBackend, WarmPool};
use sandbox_testing::owner::OwnerProcess;

use crate::capacity::{in_namespace, tiny};
use crate::cluster::{config_in, output, run};
use crate::test_namespace::{TestNamespace, wait_until};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("pool::a_claim_uses_a_running_pod", claim),
    ("pool::twenty_claims_use_twenty_pods", twenty),
    ("pool::ended_and_old_pods_are_not_claimed", stale),
    ("pool::without_room_a_creation_starts_its_own_pod", no_room),
];

/// The namespace of the process that fills a pool and is killed.
const DOOMED: &str = "SANDBOX_TEST_DOOMED";

/// The UID of a sandbox's pod, from the folder that the node has for it.
async fn pod_of(sandbox: &SandboxHandle, known: &BTreeSet<String>) -> Option<String> {
    let mounts = output(sandbox, "cat /proc/self/mountinfo").await;
    known.iter().find(|uid| mounts.contains(*uid)).cloned()
}

async fn uids(namespace: &TestNamespace) -> BTreeSet<String> {
    let listed = namespace.listed().await;
    listed.into_iter().map(|(_, uid)| uid).collect()
}

async fn prepare(backend: &KubernetesBackend, client: &SandboxClient) -> usize {
    let plan = client.plan(&tiny("asked")).expect("a plan");
    backend.prepare(&plan).await.expect("an answer")
}

fn claim() -> TestResult {
    in_namespace(|namespace| async move {
        let (backend, client) =
            namespace.backend_and_client(namespace.patient_config().warm(WarmPool::new(1)));
        assert_eq!(prepare(&backend, &client).await, 1);
        let before = uids(&namespace).await;
        assert_eq!(before.len(), 1);

        let mut spec = tiny("claims").env("MINE", "yes");
        spec.workdir = None;
        let begin = Instant::now();
        let first = client.create(&spec).await?;
        output(&first, "true").await;
        println!(
            "claim to the end of the first program: {:?}",
            begin.elapsed()
        );
        let pod = pod_of(&first, &before).await;
        assert!(pod.is_some(), "the sandbox is no pod that was there before");
        assert_eq!(output(&first, "echo $MINE").await, "yes\n");
        let processes = first.enforcement().get(Capability::Processes);
        let mechanism = processes.map(ToString::to_string).unwrap_or_default();
        assert!(mechanism.contains("warm pool"), "{mechanism}");

        // After a claim the pool refills with new pods.
        wait_until("the pool to be full again", async || {
            backend.pool().is_some_and(|pool| pool.ready == 1)
        })
        .await;
        output(&first, "echo secret > /tmp/left").await;
        first.kill().await?;
        let second = client.create(&tiny("other")).await?;
        assert_eq!(pod_of(&second, &before).await, None);
        assert_eq!(
            output(&second, "cat /tmp/left 2>/dev/null; echo $MINE").await,
            "\n"
        );
        let counts = backend.pool().expect("a pool");
        assert_eq!((counts.claimed, counts.missed), (2, 0), "{counts:?}");

        // A specification with other settings does not use it.
        let other = tiny("larger").memory(sandbox_core::ByteSize::mib(25));
        let begin = Instant::now();
        let larger = client.create(&other).await?;
        output(&larger, "true").await;
        println!("the same without a pool: {:?}", begin.elapsed());
        assert_eq!(backend.pool().expect("a pool").missed, 1);
        larger.kill().await?;
        second.kill().await?;
        drop((client, backend));
        namespace.wait_empty().await;
        Ok(())
    })
}

fn twenty() -> TestResult {
    const COUNT: usize = 20;
    in_namespace(|namespace| async move {
        let (backend, client) =
            namespace.backend_and_client(namespace.patient_config().warm(WarmPool::new(COUNT)));
        assert_eq!(prepare(&backend, &client).await, COUNT);
        let before = uids(&namespace).await;
        let specs: Vec<_> = (0..COUNT)
            .map(|number| tiny(&format!("claim-{number}")))
            .collect();
        let claims = join_all(specs.iter().map(|spec| client.create(spec))).await;
        let mut claimed = BTreeSet::new();
        let mut sandboxes = Vec::new();
        for sandbox in claims {
            let sandbox = sandbox?;
            let pod = pod_of(&sandbox, &before).await.expect("one of the pool's");
            assert!(claimed.insert(pod), "a pod was claimed twice");
            sandboxes.push(sandbox);
        }
        let counts = backend.pool().expect("a pool");
        assert_eq!(
            (counts.claimed, counts.missed),
            (COUNT as u64, 0),
            "{counts:?}"
        );
        drop(sandboxes);
        drop((client, backend));
        namespace.wait_empty().await;
        Ok(())
    })
}

fn stale() -> TestResult {
    in_namespace(|namespace| async move {
        let age = Duration::from_secs(20);
        let pool = WarmPool::new(1).max_age(age);
        let (backend, client) = namespace.backend_and_client(namespace.patient_config().warm(pool));
        assert_eq!(prepare(&backend, &client).await, 1);
        let first = uids(&namespace).await;
        for (name, _) in namespace.listed().await {
            let now = DeleteParams::default().grace_period(0);
            namespace.pods().delete(&name, &now).await?;
        }
        wait_until("its end to be known", async || {
            backend.pool().is_some_and(|pool| pool.discarded >= 1)
        })
        .await;
        let sandbox = client.create(&tiny("after")).await?;
        assert_eq!(pod_of(&sandbox, &first).await, None);
        sandbox.kill().await?;

        // A pod that is not claimed in time is replaced.
        wait_until("a pod to be too old", async || {
            backend.pool().is_some_and(|pool| pool.discarded >= 2)
        })
        .await;
        drop((client, backend));
        namespace.wait_empty().await;
        Ok(())
    })
}

fn no_room() -> TestResult {
    in_namespace(|namespace| async move {
        namespace.limit_pods(1).await;
        let (_, plain) = namespace.backend_and_client(namespace.patient_config());
        let only = plain.create(&tiny("only")).await?;
        let (backend, client) =
            namespace.backend_and_client(namespace.patient_config().warm(WarmPool::new(1)));
        assert_eq!(prepare(&backend, &client).await, 0);
        let failure = backend.pool().expect("a pool").failure;
        assert!(
            failure
                .as_ref()
                .is_some_and(|reason| reason.contains("quota")),
            "{failure:?}"
        );
        only.kill().await?;
        // The quota is counted asynchronously.
        namespace.wait_empty().await;
        let sandbox = loop {
            match client.create(&tiny("ordinary")).await {
                Ok(sandbox) => break sandbox,
                Err(error) if error.to_string().contains("exceeded quota") => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        assert_eq!(output(&sandbox, "echo works").await, "works\n");
        sandbox.kill().await?;
        Ok(())
    })
}

/// The `main` of a process that is killed: fills a pool, prints that, and waits.
pub fn doomed() -> bool {
    let Ok(name) = std::env::var(DOOMED) else {
        return false;
    };
    run(async {
        let config = config_in(&name).warm(WarmPool::new(2));
        let backend = std::sync::Arc::new(KubernetesBackend::new(config));
        let client =
            SandboxClient::with_backend(backend.clone(), sandbox_core::CapabilityPolicy::new());
        println!(
            "ready {}",
            prepare(&backend, &client.expect("a client")).await
        );
        tokio::time::sleep(Duration::from_secs(120)).await;
    });
    true
}

/// The pods of a killed owner that wait end after the lease, and the next client removes them.
pub async fn killed_owner_leaves_nothing() -> TestResult {
    let namespace = TestNamespace::new().await;
    let mut owner = OwnerProcess::spawn([(DOOMED, namespace.name.clone())]);
    owner.wait_until("ready 2");
    owner.kill();
    // Its agents have lost their owner, so none runs longer than the lease.
    wait_until("the agents to end", async || {
        let pods = namespace.pods().list(&ListParams::default()).await;
        pods.expect("a list").items.iter().all(|pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        })
    })
    .await;
    let (_, later) = namespace.backend_and_client(namespace.patient_config());
    later.prune().await?;
    namespace.wait_empty().await;
    Ok(())
}
