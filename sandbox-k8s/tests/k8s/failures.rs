//! Failed creations are reported at once with the cluster's message, and leave nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Namespace, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use sandbox_core::{CapabilityPolicy, Cpus, Error, ErrorKind, Outcome, PullPolicy};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{run, small};
use crate::test_namespace::{TestNamespace, client, wait_until};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("failures::an_image_that_no_node_has_is_reported", no_image),
    ("failures::an_unreachable_registry_is_reported", registry),
    ("failures::insufficient_resources_are_reported", no_room),
    ("failures::an_exceeded_quota_is_reported", quota),
    ("failures::an_exceeded_limit_range_is_reported", limit_range),
    ("failures::a_missing_namespace_is_reported", no_namespace),
    (
        "failures::a_terminating_namespace_is_reported",
        terminating_namespace,
    ),
    ("failures::an_eviction_ends_the_execution", evicted),
];

/// Longer than a failure takes on a busy machine, and shorter than a pod may take to start.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(45);

async fn refusal(namespace: &TestNamespace) -> Error {
    refusal_of(namespace, small("refused")).await
}

async fn refusal_of(namespace: &TestNamespace, spec: sandbox_core::SandboxSpec) -> Error {
    let begin = Instant::now();
    let client = client(namespace.config(), CapabilityPolicy::new());
    let error = client.create(&spec).await.expect_err("refused");
    assert!(
        begin.elapsed() < FAILURE_TIMEOUT,
        "{:?}: {error}",
        begin.elapsed()
    );
    // The failed creation has removed everything.
    assert_eq!(namespace.names().await, [""; 0], "{error}");
    error
}

fn assert_error(error: &Error, kind: ErrorKind, expected: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for expected in expected {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

fn no_image() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let error = refusal_of(&namespace, small("refused").image("no-such-image:1")).await;
        assert_error(&error, ErrorKind::ImageNotFound, &["ErrImageNeverPull"]);
        Ok(())
    })
}

fn registry() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        // This port of the node is closed.
        let spec = small("refused")
            .image("127.0.0.1:1/none:1")
            .pull(PullPolicy::Missing);
        let error = refusal_of(&namespace, spec).await;
        assert_error(
            &error,
            ErrorKind::RegistryUnreachable,
            &["ErrImagePull", "connection refused"],
        );
        Ok(())
    })
}

fn no_room() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let error = refusal_of(&namespace, small("refused").cpus(Cpus::whole(900))).await;
        assert_error(
            &error,
            ErrorKind::SetupFailed,
            &["Unschedulable", "Insufficient cpu"],
        );
        Ok(())
    })
}

fn quota() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let hard =
            json!({"metadata": {"name": "small"}, "spec": {"hard": {"limits.memory": "32Mi"}}});
        namespace.make::<ResourceQuota>(hard).await;
        // Until its controller has counted, the API server refuses every pod for another reason.
        let mut last = None;
        wait_until("the quota holds", async || {
            let error = refusal(&namespace).await;
            let holds = error.to_string().contains("limited: limits.memory=32Mi");
            last = Some(error);
            holds
        })
        .await;
        assert_error(
            &last.expect("an error"),
            ErrorKind::SetupFailed,
            &["exceeded quota: small", "quota raised"],
        );
        Ok(())
    })
}

fn limit_range() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let limits = json!([{"type": "Container", "max": {"memory": "32Mi"}}]);
        let range = json!({"metadata": {"name": "small"}, "spec": {"limits": limits}});
        namespace.make::<LimitRange>(range).await;
        let error = refusal(&namespace).await;
        assert_error(
            &error,
            ErrorKind::SetupFailed,
            &["maximum memory usage per Container is 32Mi", "LimitRange"],
        );
        Ok(())
    })
}

fn no_namespace() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let config = namespace.config().namespace("sandbox-test-none");
        let client = client(config, CapabilityPolicy::new());
        let error = client
            .create(&small("refused"))
            .await
            .expect_err("no namespace");
        assert_error(
            &error,
            ErrorKind::SetupFailed,
            &["sandbox-test-none", "not found", "create the namespace"],
        );
        Ok(())
    })
}

fn terminating_namespace() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        // A finalizer keeps it in the phase Terminating.
        let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/held"]}});
        namespace.make::<ConfigMap>(held).await;
        let namespaces: Api<Namespace> = Api::all(namespace.client.clone());
        namespaces
            .delete(&namespace.name, &DeleteParams::default())
            .await?;
        let client = client(namespace.config(), CapabilityPolicy::new());
        let refused = client.create(&small("refused")).await;
        let maps: Api<ConfigMap> = Api::namespaced(namespace.client.clone(), &namespace.name);
        let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch("held", &PatchParams::default(), &freed).await?;
        let error = refused.expect_err("a terminating namespace");
        assert_error(
            &error,
            ErrorKind::SetupFailed,
            &["being terminated", "name another one"],
        );
        Ok(())
    })
}

/// An eviction removes the pod, and the execution ends soon, without an exit code.
fn evicted() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = client(namespace.config(), CapabilityPolicy::new());
        let sandbox = client.create(&small("removed")).await?;
        let pod = namespace.names().await.remove(0);
        let execution = sandbox.shell("echo begun; sleep 600");
        let removal = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            // Servers before 1.22 only know this version of the object. The URL names the pod.
            let eviction = json!({
                "apiVersion": "policy/v1beta1", "kind": "Eviction",
                "metadata": {"name": pod, "namespace": namespace.name},
            });
            let (pods, parameters) = (namespace.pods(), PostParams::default());
            let posted =
                pods.create_subresource::<_, Value>("eviction", &pod, &parameters, &eviction);
            posted.await.expect("evicted");
            Instant::now()
        };
        let (ended, removed) = tokio::join!(execution, removal);
        assert!(
            removed.elapsed() < FAILURE_TIMEOUT,
            "{:?}",
            removed.elapsed()
        );
        match ended {
            Ok(result) => {
                assert_eq!(result.exit_code(), None, "{result:?}");
                assert!(
                    matches!(result.outcome, Outcome::Unknown { .. }),
                    "{result:?}"
                );
            }
            Err(error) => assert_error(&error, ErrorKind::SandboxEnded, &["pod"]),
        }
        let error = sandbox.shell("true").await.expect_err("no sandbox");
        assert_error(&error, ErrorKind::SandboxEnded, &[]);
        sandbox.kill().await?;
        namespace.wait_empty().await;
        Ok(())
    })
}
