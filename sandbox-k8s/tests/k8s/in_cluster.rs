//! A program in a pod that uses the cluster with its service account. The pod runs this test
//! program, which the node reads from this machine's disk.

use k8s_openapi::api::core::v1::{Endpoints, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::LogParams;
use sandbox_core::CapabilityPolicy;
use sandbox_k8s::KubernetesConfig;
use serde_json::json;

use crate::cluster::{output, run, small};
use crate::rights::rules;
use crate::test_namespace::{TestNamespace, client, wait_until};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[("in_cluster::a_pods_service_account_suffices", own_account)];

const RUN_IN_POD: &str = "SANDBOX_TEST_IN_CLUSTER";

/// The `main` of the pod.
pub fn run_if_asked() -> Option<std::process::ExitCode> {
    std::env::var_os(RUN_IN_POD)?;
    run(async {
        let client = client(KubernetesConfig::default(), CapabilityPolicy::new());
        let sandbox = client.create(&small("inner")).await.expect("a sandbox");
        println!("inside: {}", output(&sandbox, "echo $((6 * 7))").await);
        sandbox.kill().await.expect("removed");
    });
    Some(std::process::ExitCode::SUCCESS)
}

fn own_account() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let named = json!({"name": "runner"});
        namespace
            .make::<ServiceAccount>(json!({"metadata": named}))
            .await;
        namespace
            .make::<Role>(json!({"metadata": named, "rules": rules()}))
            .await;
        let binding = json!({
            "metadata": named,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
            "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": namespace.name}],
        });
        namespace.make::<RoleBinding>(binding).await;

        // The API server's own address: a small cluster has no kube-proxy for the service's
        // address.
        let all: Api<Endpoints> = Api::namespaced(namespace.client.clone(), "default");
        let server = all.get("kubernetes").await?.subsets.unwrap_or_default();
        let server = server.first().expect("an API server");
        let address = &server.addresses.as_ref().expect("an address")[0].ip;
        let port = server.ports.as_ref().expect("a port")[0].port.to_string();
        let program = std::env::current_exe()?;
        let pod = json!({
            "metadata": {"name": "runner"},
            "spec": {
                "serviceAccountName": "runner",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "program", "hostPath": {"path": program, "type": "File"}}],
                "containers": [{
                    "name": "main",
                    "image": sandbox_k8s::DEFAULT_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["/tests"],
                    "env": [
                        {"name": RUN_IN_POD, "value": "1"},
                        {"name": "KUBERNETES_SERVICE_HOST", "value": address},
                        {"name": "KUBERNETES_SERVICE_PORT", "value": port},
                    ],
                    "volumeMounts": [{"name": "program", "mountPath": "/tests", "readOnly": true}],
                }],
            },
        });
        namespace.start(&serde_json::from_value(pod)?).await;
        let phase = async || {
            let found = namespace.pods().get("runner").await.expect("the pod");
            found.status.and_then(|status| status.phase)
        };
        wait_until("the pod has ended", async || {
            matches!(phase().await.as_deref(), Some("Succeeded" | "Failed"))
        })
        .await;
        let log = namespace
            .pods()
            .logs("runner", &LogParams::default())
            .await?;
        assert!(log.contains("inside: 42"), "{log}");
        assert_eq!(phase().await.as_deref(), Some("Succeeded"), "{log}");
        // The pod has removed its sandbox.
        wait_until("the sandbox is removed", async || {
            namespace.names().await == ["runner"]
        })
        .await;
        Ok(())
    })
}
