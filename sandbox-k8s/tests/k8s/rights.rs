//! The role of `rbac.yaml` suffices, and an error names each right that is missing.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use sandbox_core::{Capability, CapabilityPolicy, Error};
use sandbox_k8s::PodProfile;
use serde_json::{Value, json};

use crate::cluster::{config_in, run, small};
use crate::test_namespace::{TestNamespace, client, wait_until};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("rights::the_role_suffices", suffices),
    ("rights::without_a_right_the_error_names_it", missing),
];

const MANIFEST: &str = include_str!("../../rbac.yaml");

pub fn rules() -> Vec<PolicyRule> {
    let documents = serde_saphyr::from_multiple::<Value>(MANIFEST).expect("YAML");
    let role = documents.into_iter().find(|one| one["kind"] == "Role");
    let role: Role = serde_json::from_value(role.expect("a role")).expect("a role");
    role.rules.expect("rules")
}

/// A client of a service account with only these rights, authenticated by its token.
async fn account(namespace: &TestNamespace, name: &str, rules: &[PolicyRule]) -> Client {
    let metadata = json!({"name": name});
    namespace
        .make::<ServiceAccount>(json!({"metadata": metadata}))
        .await;
    namespace
        .make::<Role>(json!({"metadata": metadata, "rules": rules}))
        .await;
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace.name}],
    });
    namespace.make::<RoleBinding>(binding).await;
    // All servers fill in a Secret of this type. Only those before 1.24 create one themselves.
    let token = format!("{name}-own");
    let asked = json!({
        "metadata": {"name": token, "annotations": {"kubernetes.io/service-account.name": name}},
        "type": "kubernetes.io/service-account-token",
    });
    namespace.make::<Secret>(asked).await;
    let secrets: Api<Secret> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let mut found = None;
    wait_until("the account has a token", async || {
        let secret = secrets.get(&token).await.expect("a secret");
        found = secret.data.and_then(|mut data| data.remove("token"));
        found.is_some()
    })
    .await;
    let token = String::from_utf8(found.expect("a token").0).expect("text");
    let mut config = kube::Config::infer().await.expect("a configuration");
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.into()),
        ..Default::default()
    };
    Client::try_from(config).expect("a client")
}

/// Waits until the API server applies the role to the account.
async fn in_force(namespace: &TestNamespace, account: &Client, rules: &[PolicyRule]) {
    let pods: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(account.clone(), &namespace.name);
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(account.clone(), &namespace.name);
    let has = |resource: &str, verb: &str| {
        rules.iter().any(|rule| {
            let resources = rule.resources.as_deref().unwrap_or_default();
            resources.iter().any(|one| one == resource) && rule.verbs.iter().any(|one| one == verb)
        })
    };
    let (lists, gets) = (has("pods", "list"), has("configmaps", "get"));
    wait_until("the role is in force", async || {
        let lists = !lists || pods.list(&ListParams::default()).await.is_ok();
        lists && (!gets || maps.get_opt("none").await.is_ok())
    })
    .await;
}

/// Uses every feature of sandboxes in these profiles. Returns the first error.
async fn everything(
    namespace: &TestNamespace,
    account: &Client,
    profiles: &[PodProfile],
) -> Result<(), Error> {
    for &profile in profiles {
        let config = config_in(&namespace.name).client(account.clone());
        let config = config.profile(profile);
        let mut policy = CapabilityPolicy::new();
        if profile == PodProfile::Restricted {
            policy.allow_unenforced = vec![Capability::NetworkAccess];
        }
        let client = client(config, policy);
        let sandbox = client.create(&small("rights")).await?;
        if profile == PodProfile::Restricted {
            // This cluster enforces no policy. The error must be about that, not about a right.
            let entry = sandbox.enforcement().get(Capability::NetworkAccess);
            let entry = entry.map(ToString::to_string).unwrap_or_default();
            if !entry.contains("a pod under it reaches") {
                let context = format!("the canary: {entry}");
                return Err(Error::new(
                    sandbox_core::ErrorKind::SetupFailed,
                    "test",
                    context,
                ));
            }
        }
        let result = sandbox.shell("echo 42").await?;
        assert_eq!(result.stdout_text(), "42\n");
        sandbox.kill().await?;
        client.prune().await?;
        if profile == PodProfile::Hardened {
            let kept = small("kept-by-right")
                .detached(true)
                .lifetime(Duration::from_secs(120));
            drop(client.create(&kept).await?);
            let found = client.get(&kept.name).await?;
            assert_eq!(found.shell("echo 42").await?.stdout_text(), "42\n");
            assert_eq!(client.list().await?.len(), 1);
            client.remove(&kept.name).await?;
        }
    }
    Ok(())
}

fn suffices() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let rules = rules();
        let account = account(&namespace, "whole", &rules).await;
        in_force(&namespace, &account, &rules).await;
        everything(&namespace, &account, &PodProfile::ALL).await?;
        namespace.wait_empty().await;
        Ok(())
    })
}

/// Every right, each with the rules without it.
fn without_one(rules: &[PolicyRule]) -> Vec<(String, String, Vec<PolicyRule>)> {
    let mut all = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        for verb in &rule.verbs {
            let mut left = rules.to_vec();
            left[index].verbs.retain(|other| other != verb);
            if left[index].verbs.is_empty() {
                left.remove(index);
            }
            let resource = rule.resources.as_ref().expect("resources")[0].clone();
            all.push((verb.clone(), resource, left));
        }
    }
    all
}

/// How many rights are tried at once.
const AT_ONCE: usize = 3;

fn missing() -> TestResult {
    run(async {
        let unnoticed = stream::iter(without_one(&rules()))
            .map(|(verb, resource, left)| async move {
                let error = without(&verb, &resource, &left).await.err();
                let right = format!("{verb} on {resource}");
                let Some(error) = error else {
                    return Some(right);
                };
                let text = error.to_string();
                // `get` and `create` of an exec are requested together.
                let verb = if resource == "pods/exec" {
                    "get and create"
                } else {
                    &*verb
                };
                assert!(
                    text.contains(&format!("{verb} on {resource}")),
                    "{right}: {text}"
                );
                eprintln!("without {right}: {text}");
                None
            })
            .buffer_unordered(AT_ONCE)
            .filter_map(async |unnoticed| unnoticed);
        let mut unnoticed: Vec<_> = unnoticed.collect().await;
        // Only newer servers check this right for an exec over a websocket.
        unnoticed.retain(|right| right != "create on pods/exec");
        assert_eq!(unnoticed, [""; 0], "rights that nothing needs");
        Ok(())
    })
}

/// Uses every feature that needs a right, with `left` alone. The namespace is new, because an
/// object is only created where it does not exist.
async fn without(verb: &str, resource: &str, left: &[PolicyRule]) -> Result<(), Error> {
    let namespace = TestNamespace::new().await;
    let account = account(&namespace, "narrow", left).await;
    in_force(&namespace, &account, left).await;
    // The profile that needs the right.
    let profile = match (verb, resource) {
        (_, "networkpolicies") => PodProfile::Restricted,
        _ => PodProfile::Hardened,
    };
    let outcome = everything(&namespace, &account, &[profile]).await;
    // Pods that the account could not remove.
    let (how, all) = (DeleteParams::default(), ListParams::default());
    let removed = namespace.pods().delete_collection(&how, &all).await;
    removed.expect("removed");
    namespace.wait_empty().await;
    outcome
}
