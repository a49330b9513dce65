//! A program that runs as a pod of the cluster itself, and finds the cluster by its own account: this test program, started again. The
//! node takes it from this machine's disk: the tests run on it.

use k8s_openapi::api::core::v1::{Endpoints, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::LogParams;
use sandbox_core::CapabilityPolicy;
use sandbox_k8s::KubernetesConfig;
use serde_json::json;

use crate::cluster::{output, run, small};
use crate::ground::{Ground, client, until};
use crate::rights::rules;
use crate::{Done, Test};

pub const TESTS: &[Test] = &[("in_cluster::a_pods_own_account_is_enough", own_account)];

const ASKED: &str = "SANDBOX_TEST_IN_CLUSTER";

/// What the pod does.
pub fn run_if_asked() -> Option<std::process::ExitCode> {
    std::env::var_os(ASKED)?;
    run(async {
        let client = client(KubernetesConfig::default(), CapabilityPolicy::new());
        let sandbox = client.create(&small("inner")).await.expect("a sandbox");
        println!("inside: {}", output(&sandbox, "echo $((6 * 7))").await);
        sandbox.kill().await.expect("removed");
    });
    Some(std::process::ExitCode::SUCCESS)
}

fn own_account() -> Done {
    run(async {
        let ground = Ground::new().await;
        let named = json!({"name": "runner"});
        ground
            .make::<ServiceAccount>(json!({"metadata": named}))
            .await;
        ground
            .make::<Role>(json!({"metadata": named, "rules": rules()}))
            .await;
        let binding = json!({
            "metadata": named,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"},
            "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": ground.name}],
        });
        ground.make::<RoleBinding>(binding).await;

        // Where the server is, without a way by the service's own address: a small cluster has nobody who makes one.
        let all: Api<Endpoints> = Api::namespaced(ground.client.clone(), "default");
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
                        {"name": ASKED, "value": "1"},
                        {"name": "KUBERNETES_SERVICE_HOST", "value": address},
                        {"name": "KUBERNETES_SERVICE_PORT", "value": port},
                    ],
                    "volumeMounts": [{"name": "program", "mountPath": "/tests", "readOnly": true}],
                }],
            },
        });
        ground.start(&serde_json::from_value(pod)?).await;
        let phase = async || {
            let found = ground.pods().get("runner").await.expect("the pod");
            found.status.and_then(|status| status.phase)
        };
        until("the pod has ended", async || {
            matches!(phase().await.as_deref(), Some("Succeeded" | "Failed"))
        })
        .await;
        let log = ground.pods().logs("runner", &LogParams::default()).await?;
        assert!(log.contains("inside: 42"), "{log}");
        assert_eq!(phase().await.as_deref(), Some("Succeeded"), "{log}");
        // Its sandbox was in its own namespace, and is gone.
        until("the sandbox is gone", async || {
            ground.names().await == ["runner"]
        })
        .await;
        Ok(())
    })
}
