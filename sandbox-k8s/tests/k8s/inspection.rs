//! What the cluster's API shows of a namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{ListParams, LogParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::test_namespace::{CONTROLLER_TIMEOUT, TestNamespace, wait_until};

impl TestNamespace {
    /// The API of its Secrets.
    pub fn secrets(&self) -> Api<Secret> {
        self.api()
    }

    /// A client of an account with only these rights in this namespace: resources and their verbs.
    pub async fn account(&self, user: &str, rights: &[(&str, &[&str])]) -> Client {
        let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let metadata = ObjectMeta {
            name: Some(user.to_owned()),
            ..ObjectMeta::default()
        };
        let rules = rights.iter().map(|(resource, verbs)| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec![(*resource).to_owned()]),
            verbs: text(verbs),
            ..PolicyRule::default()
        });
        let role = Role {
            metadata: metadata.clone(),
            rules: Some(rules.collect()),
        };
        let binding = RoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: user.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "User".to_owned(),
                name: user.to_owned(),
                ..Subject::default()
            }]),
        };
        let roles: Api<Role> = self.api();
        let bindings: Api<RoleBinding> = self.api();
        let parameters = PostParams::default();
        roles.create(&parameters, &role).await.expect("a role");
        let bound = bindings.create(&parameters, &binding).await;
        bound.expect("a binding");
        let mut config = kube::Config::infer().await.expect("a configuration");
        config.auth_info.impersonate = Some(user.to_owned());
        Client::try_from(config).expect("a client")
    }

    /// A running pod that is not a sandbox.
    pub async fn foreign(&self, name: &str, command: &[&str]) -> Pod {
        self.foreign_with("busybox", name, command).await
    }

    /// As [`TestNamespace::foreign`], with this test image.
    pub async fn foreign_with(&self, image: &str, name: &str, command: &[&str]) -> Pod {
        let pod = serde_json::json!({
            "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main",
                    "image": format!("sandbox-test/{image}:latest"),
                    "imagePullPolicy": "Never",
                    "command": command,
                }],
            },
        });
        self.start(&serde_json::from_value(pod).expect("a pod"))
            .await
    }

    /// The pods.
    pub async fn list(&self) -> Vec<Pod> {
        let pods = self.pods().list(&ListParams::default()).await;
        pods.expect("a list").items
    }

    /// The Secrets of detached sandboxes.
    pub async fn sandbox_secrets(&self) -> Vec<Secret> {
        let of_sandboxes = ListParams::default().labels("sandbox.tier=k8s");
        self.secrets()
            .list(&of_sandboxes)
            .await
            .expect("a list")
            .items
    }

    /// Waits until the condition holds for the list of pods.
    pub async fn wait_for_pods(&self, what: &str, condition: impl Fn(&[Pod]) -> bool) {
        let begin = Instant::now();
        loop {
            let pods = self.list().await;
            if condition(&pods) {
                return;
            }
            assert!(begin.elapsed() < CONTROLLER_TIMEOUT, "not {what}: {pods:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until no Secret of a detached sandbox is left.
    pub async fn wait_without_secrets(&self) {
        wait_until("no Secret is left", async || {
            self.sandbox_secrets().await.is_empty()
        })
        .await;
    }

    /// Everything that the API shows of this namespace, and every log of its pods.
    pub async fn everything(&self) -> Vec<(String, String)> {
        let mut shown = Vec::new();
        let parameters = ListParams::default();
        let maps: Api<ConfigMap> = self.api();
        let events: Api<Event> = self.api();
        for pod in self.list().await {
            let name = pod.metadata.name.clone().expect("a name");
            let containers = pod.spec.iter().flat_map(|spec| {
                let init = spec.init_containers.iter().flatten();
                init.chain(&spec.containers)
            });
            for container in containers {
                let parameters = LogParams {
                    container: Some(container.name.clone()),
                    ..LogParams::default()
                };
                let log = self.pods().logs(&name, &parameters).await.expect("a log");
                shown.push((format!("log of {name}/{}", container.name), log));
            }
            shown.push((format!("pod {name}"), format!("{pod:?}")));
        }
        for secret in self.sandbox_secrets().await {
            let name = secret.metadata.name.clone().unwrap_or_default();
            for (key, value) in secret.data.iter().flatten() {
                let text = String::from_utf8_lossy(&value.0).into_owned();
                shown.push((format!("{key} of Secret {name}"), text));
            }
        }
        for map in maps.list(&parameters).await.expect("a list").items {
            let name = map.metadata.name.clone().unwrap_or_default();
            for (key, value) in map.binary_data.iter().flatten() {
                let text = String::from_utf8_lossy(&value.0).into_owned();
                shown.push((format!("{key} of ConfigMap {name}"), text));
            }
        }
        let events = events.list(&parameters).await.expect("a list");
        shown.push(("events".to_owned(), format!("{events:?}")));
        shown
    }
}

/// Whether all containers of the pod have ended.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
