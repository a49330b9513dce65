//! The role of `rbac.yaml`: it suffices, and without one of its rights the error says which.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use sandbox_core::{Capability, CapabilityPolicy, Error};
use sandbox_k8s::PodProfile;
use serde_json::{Value, json};

use crate::cluster::{run, small};
use crate::ground::{Ground, client, until};
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
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

/// A client of a service account that has these rights and no others, by the account's own token.
async fn account(ground: &Ground, name: &str, rules: &[PolicyRule]) -> Client {
    let metadata = json!({"name": name});
    ground
        .make::<ServiceAccount>(json!({"metadata": metadata}))
        .await;
    ground
        .make::<Role>(json!({"metadata": metadata, "rules": rules}))
        .await;
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": ground.name}],
    });
    ground.make::<RoleBinding>(binding).await;
    // Servers before 1.24 make one by themselves, and all fill in one that asks for it.
    let token = format!("{name}-own");
    let asked = json!({
        "metadata": {"name": token, "annotations": {"kubernetes.io/service-account.name": name}},
        "type": "kubernetes.io/service-account-token",
    });
    ground.make::<Secret>(asked).await;
    let secrets: Api<Secret> = Api::namespaced(ground.client.clone(), &ground.name);
    let mut found = None;
    until("the account has a token", async || {
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

/// The account's own sight of the role, once the server has it.
async fn in_force(ground: &Ground, account: &Client, rules: &[PolicyRule]) {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(account.clone(), &ground.name);
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(account.clone(), &ground.name);
    let has = |resource: &str, verb: &str| {
        rules.iter().any(|rule| {
            let resources = rule.resources.as_deref().unwrap_or_default();
            resources.iter().any(|one| one == resource) && rule.verbs.iter().any(|one| one == verb)
        })
    };
    let (lists, gets) = (has("pods", "list"), has("configmaps", "get"));
    until("the role is in force", async || {
        let lists = !lists || pods.list(&ListParams::default()).await.is_ok();
        lists && (!gets || maps.get_opt("none").await.is_ok())
    })
    .await;
}

/// Everything that a program does with sandboxes, in these profiles; the first error.
async fn everything(
    ground: &Ground,
    account: &Client,
    profiles: &[PodProfile],
) -> Result<(), Error> {
    for &profile in profiles {
        let config = ground.config().client(account.clone()).profile(profile);
        let mut policy = CapabilityPolicy::new();
        if profile == PodProfile::Restricted {
            policy.allow_unenforced = vec![Capability::NetworkAccess];
        }
        let client = client(config, policy);
        let sandbox = client.create(&small("rights")).await?;
        if profile == PodProfile::Restricted {
            // Nothing is proven here, and that has to be for what was seen, not for want of a right.
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

fn suffices() -> Done {
    run(async {
        let ground = Ground::new().await;
        let rules = rules();
        let account = account(&ground, "whole", &rules).await;
        in_force(&ground, &account, &rules).await;
        everything(&ground, &account, &PodProfile::ALL).await?;
        ground.empty().await;
        Ok(())
    })
}

/// Every right once, each with the rules that are left without it.
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

fn missing() -> Done {
    run(async {
        let ground = Ground::new().await;
        let rules = rules();
        let mut unnoticed = Vec::new();
        for (index, (verb, resource, left)) in without_one(&rules).into_iter().enumerate() {
            let account = account(&ground, &format!("narrow-{index}"), &left).await;
            in_force(&ground, &account, &left).await;
            // The profile that needs it.
            let profile = match (&*verb, &*resource) {
                (_, "networkpolicies") => PodProfile::Restricted,
                _ => PodProfile::Hardened,
            };
            let mut outcome = everything(&ground, &account, &[profile]).await;
            // What is there is not made again: the right to make it is needed where it is not.
            if outcome.is_ok() && verb == "create" {
                forget(&ground).await;
                outcome = everything(&ground, &account, &[profile]).await;
            }
            match outcome {
                Ok(()) => unnoticed.push(format!("{verb} on {resource}")),
                Err(error) => {
                    let text = error.to_string();
                    // Both ways in to a pod are asked for together.
                    let verb = if resource == "pods/exec" {
                        "get and create"
                    } else {
                        &*verb
                    };
                    assert!(
                        text.contains(&format!("{verb} on {resource}")),
                        "{verb} {resource}: {text}"
                    );
                    eprintln!("without {verb} on {resource}: {text}");
                }
            }
            // What could not be removed by them.
            let pods = ground.pods();
            pods.delete_collection(&DeleteParams::default(), &ListParams::default())
                .await?;
            ground.empty().await;
        }
        // Only newer servers ask for it where an exec is opened by a websocket.
        unnoticed.retain(|right| right != "create on pods/exec");
        assert_eq!(unnoticed, [""; 0], "rights that nothing needs");
        Ok(())
    })
}

/// Removes what stays in a namespace.
async fn forget(ground: &Ground) {
    let (all, how) = (
        ListParams::default().labels("sandbox.tier=k8s"),
        DeleteParams::default(),
    );
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(ground.client.clone(), &ground.name);
    maps.delete_collection(&how, &all).await.expect("removed");
    let policies: Api<k8s_openapi::api::networking::v1::NetworkPolicy> =
        Api::namespaced(ground.client.clone(), &ground.name);
    policies
        .delete_collection(&how, &all)
        .await
        .expect("removed");
}
