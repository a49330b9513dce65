//! Pods that another program has created.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, SandboxClient, SandboxSpec};
use sandbox_testing::sessions::{plot_libraries, python};

use crate::cluster::{config_in, output, run, small};
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("adopt::a_foreign_pod_is_used_and_left_unchanged", entered),
    ("adopt::admission_checks_a_foreign_pod", admission),
    ("adopt::a_container_without_a_shell_is_reported", no_shell),
    ("adopt::a_missing_pod_and_a_sandbox_are_refused", refused),
    ("adopt::sessions_show_plots", sessions),
];

/// A client that accepts the demands that no foreign pod can meet.
fn accepting(namespace: &TestNamespace) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = Capability::ALL.to_vec();
    policy.allow_unenforced = vec![Capability::NetworkAccess, Capability::PackageInstallation];
    let backend = sandbox_k8s::KubernetesBackend::new(config_in(&namespace.name));
    SandboxClient::with_backend(Arc::new(backend), policy).expect("a client")
}

fn spec() -> SandboxSpec {
    SandboxSpec::new("adopted")
}

fn sessions() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let command = ["/bin/sleep", "300"];
        namespace
            .foreign_with("languages", "theirs", &command)
            .await;
        let sandbox = accepting(&namespace).adopt("theirs", &spec()).await?;
        python::state_is_kept(&sandbox).await;
        plot_libraries::python_shows_figures_and_tables(&sandbox).await;
        Ok(())
    })
}

fn state(pods: &[Pod]) -> Vec<String> {
    let shown = pods.iter().map(|pod| {
        let mut metadata = pod.metadata.clone();
        // These change with the pod's status.
        (metadata.managed_fields, metadata.resource_version) = (None, None);
        format!("{metadata:?} {:?}", pod.spec)
    });
    shown.collect()
}

fn entered() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        namespace.foreign("theirs", &["/bin/sleep", "300"]).await;
        let before = state(&namespace.list().await);
        let client = accepting(&namespace);
        let sandbox = client.adopt("theirs", &spec()).await?;
        let places = "ls -A /tmp /var/tmp /run /dev/shm / 2>/dev/null | grep sandbox || echo none";
        assert_eq!(
            output(&sandbox, places).await,
            "none\n",
            "the agent's program is removed"
        );
        sandbox.kill().await?;
        drop(client.adopt("theirs/main", &spec()).await?);
        assert_eq!(state(&namespace.list().await), before);
        assert!(client.prune().await?.is_empty());
        assert_eq!(namespace.list().await.len(), 1, "the foreign pod is left");
        Ok(())
    })
}

fn admission() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        namespace.foreign("theirs", &["/bin/sleep", "300"]).await;
        let client = crate::cluster::client_in(&namespace.name);
        let error = client.adopt("theirs", &spec()).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        for named in ["network_access", "filesystem_read_roots", "privileges"] {
            let text = error.to_string();
            assert_eq!(
                text.contains(named),
                named != "privileges",
                "{named}: {text}"
            );
        }
        Ok(())
    })
}

fn no_shell() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let pod = serde_json::json!({
            "metadata": {"name": "bare"},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main",
                    "image": "sandbox-test/busybox:latest",
                    "imagePullPolicy": "Never",
                    "command": ["/bin/sleep", "300"],
                    // This folder has no shell.
                    "env": [{"name": "PATH", "value": "/nowhere"}],
                }],
            },
        });
        namespace.start(&serde_json::from_value(pod)?).await;
        let error = accepting(&namespace).adopt("bare", &spec()).await;
        let error = error.expect_err("no shell");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("sh, mkdir, chmod, head and rm"),
            "{error}"
        );
        Ok(())
    })
}

fn refused() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let client = accepting(&namespace);
        let error = client.adopt("missing", &spec()).await.expect_err("none");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        let sandbox = client.create(&small("sandbox")).await?;
        let pods = namespace.list().await;
        let mut names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
        let name = names
            .find(|name| name.starts_with("sandbox-"))
            .expect("the sandbox's pod");
        let error = client.adopt(name, &spec()).await.expect_err("a sandbox");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        sandbox.kill().await?;
        Ok(())
    })
}
