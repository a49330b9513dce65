//! What does not come about is told in the cluster's own words, at once, and nothing is left of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use sandbox_core::{CapabilityPolicy, Cpus, Error, ErrorKind, Outcome, PullPolicy};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{run, small};
use crate::ground::{Ground, client, until};
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
    ("failing_fast::an_image_that_no_node_has", no_image),
    ("failing_fast::a_registry_that_does_not_answer", registry),
    ("failing_fast::no_room", no_room),
    ("failing_fast::a_quota", quota),
    ("failing_fast::a_limit_range", limit_range),
    ("failing_fast::no_namespace", no_namespace),
    ("failing_fast::a_namespace_that_goes", going_namespace),
    ("failing_fast::evicted_in_the_middle", evicted),
    ("failing_fast::deleted_in_the_middle", deleted),
];

/// Longer than anything here takes on a machine that is busy, and shorter than what a pod may take to run.
const SOON: Duration = Duration::from_secs(45);

async fn refusal(ground: &Ground) -> Error {
    refusal_of(ground, small("refused")).await
}

async fn refusal_of(ground: &Ground, spec: sandbox_core::SandboxSpec) -> Error {
    let begin = Instant::now();
    let client = client(ground.config(), CapabilityPolicy::new());
    let error = client.create(&spec).await.expect_err("refused");
    assert!(begin.elapsed() < SOON, "{:?}: {error}", begin.elapsed());
    // A program that ends with this error leaves nothing.
    assert_eq!(ground.names().await, [""; 0], "{error}");
    error
}

fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for words in words {
        assert!(text.contains(words), "{words}: {text}");
    }
}

fn no_image() -> Done {
    run(async {
        let ground = Ground::new().await;
        let error = refusal_of(&ground, small("refused").image("no-such-image:1")).await;
        says(&error, ErrorKind::ImageNotFound, &["ErrImageNeverPull"]);
        Ok(())
    })
}

fn registry() -> Done {
    run(async {
        let ground = Ground::new().await;
        // Nobody listens on that port of the node's.
        let spec = small("refused")
            .image("127.0.0.1:1/none:1")
            .pull(PullPolicy::Missing);
        let error = refusal_of(&ground, spec).await;
        says(
            &error,
            ErrorKind::RegistryUnreachable,
            &["ErrImagePull", "connection refused"],
        );
        Ok(())
    })
}

fn no_room() -> Done {
    run(async {
        let ground = Ground::new().await;
        let error = refusal_of(&ground, small("refused").cpus(Cpus::whole(900))).await;
        says(
            &error,
            ErrorKind::SetupFailed,
            &["Unschedulable", "Insufficient cpu"],
        );
        Ok(())
    })
}

fn quota() -> Done {
    run(async {
        let ground = Ground::new().await;
        let hard =
            json!({"metadata": {"name": "small"}, "spec": {"hard": {"limits.memory": "32Mi"}}});
        ground.make::<ResourceQuota>(hard).await;
        // Until its controller has counted, every pod is refused for another reason.
        let mut last = None;
        until("the quota holds", async || {
            let error = refusal(&ground).await;
            let holds = error.to_string().contains("limited: limits.memory=32Mi");
            last = Some(error);
            holds
        })
        .await;
        says(
            &last.expect("an error"),
            ErrorKind::SetupFailed,
            &["exceeded quota: small", "quota raised"],
        );
        Ok(())
    })
}

fn limit_range() -> Done {
    run(async {
        let ground = Ground::new().await;
        let limits = json!([{"type": "Container", "max": {"memory": "32Mi"}}]);
        let range = json!({"metadata": {"name": "small"}, "spec": {"limits": limits}});
        ground.make::<LimitRange>(range).await;
        let error = refusal(&ground).await;
        says(
            &error,
            ErrorKind::SetupFailed,
            &["maximum memory usage per Container is 32Mi", "LimitRange"],
        );
        Ok(())
    })
}

fn no_namespace() -> Done {
    run(async {
        let ground = Ground::new().await;
        let config = ground.config().namespace("sandbox-test-none");
        let client = client(config, CapabilityPolicy::new());
        let error = client
            .create(&small("refused"))
            .await
            .expect_err("no namespace");
        says(
            &error,
            ErrorKind::SetupFailed,
            &["sandbox-test-none", "not found", "create the namespace"],
        );
        Ok(())
    })
}

fn going_namespace() -> Done {
    run(async {
        let ground = Ground::new().await;
        // Something that has to be let go of first keeps it from going.
        let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/held"]}});
        ground.make::<ConfigMap>(held).await;
        let spaces: Api<Namespace> = Api::all(ground.client.clone());
        spaces
            .delete(&ground.name, &DeleteParams::default())
            .await?;
        let client = client(ground.config(), CapabilityPolicy::new());
        let refused = client.create(&small("refused")).await;
        let maps: Api<ConfigMap> = Api::namespaced(ground.client.clone(), &ground.name);
        let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch("held", &PatchParams::default(), &freed).await?;
        let error = refused.expect_err("a namespace that goes");
        says(
            &error,
            ErrorKind::SetupFailed,
            &["being terminated", "name another one"],
        );
        Ok(())
    })
}

/// The end of an execution whose pod goes: never a code of its own, and soon.
async fn ended(ground: &Ground, goes: impl AsyncFnOnce(&Ground, &str)) -> Done {
    let client = client(ground.config(), CapabilityPolicy::new());
    let sandbox = client.create(&small("going")).await?;
    let pod = ground.names().await.remove(0);
    let execution = sandbox.shell("echo begun; sleep 600");
    let removal = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        goes(ground, &pod).await;
        Instant::now()
    };
    let (ended, gone) = tokio::join!(execution, removal);
    assert!(gone.elapsed() < SOON, "{:?}", gone.elapsed());
    match ended {
        Ok(result) => {
            assert_eq!(result.exit_code(), None, "{result:?}");
            assert!(
                matches!(result.outcome, Outcome::Unknown { .. }),
                "{result:?}"
            );
        }
        Err(error) => says(&error, ErrorKind::SandboxEnded, &["pod"]),
    }
    let error = sandbox.shell("true").await.expect_err("no sandbox");
    says(&error, ErrorKind::SandboxEnded, &[]);
    sandbox.kill().await?;
    ground.empty().await;
    Ok(())
}

fn evicted() -> Done {
    run(async {
        let ground = Ground::new().await;
        ended(&ground, async |ground, pod| {
            let space = &ground.name;
            // The version that servers before 1.22 know; later ones take the next.
            let eviction = json!({
                "apiVersion": "policy/v1beta1", "kind": "Eviction",
                "metadata": {"name": pod, "namespace": space},
            });
            let (pods, parameters) = (ground.pods(), PostParams::default());
            let posted =
                pods.create_subresource::<_, Value>("eviction", pod, &parameters, &eviction);
            posted.await.expect("evicted");
        })
        .await
    })
}

fn deleted() -> Done {
    run(async {
        let ground = Ground::new().await;
        ended(&ground, async |ground, pod| {
            let removed = ground.pods().delete(pod, &DeleteParams::default()).await;
            removed.expect("removed");
        })
        .await
    })
}
