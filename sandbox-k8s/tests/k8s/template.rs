//! The pod template of the user.

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{CapabilityPolicy, ErrorKind};
use sandbox_k8s::{PodProfile, PodTemplate};

use crate::cluster::{config_in, output, run, small};
use crate::test_namespace::{TestNamespace, client};
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    ("template::its_settings_are_in_the_pod", words),
    (
        "template::its_environment_is_not_visible_to_code",
        environment,
    ),
    ("template::a_missing_reference_is_reported", missing),
];

fn words() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let template = PodTemplate::parse(
            r#"
metadata:
  labels: {team: graders}
  annotations: {note: "kept"}
spec:
  tolerations: [{key: sandboxes, operator: Exists}]
  nodeSelector: {kubernetes.io/os: linux}
  imagePullSecrets: [{name: registry}]
"#,
        )?;
        let config = namespace.config().pod_template(template);
        let sandbox = client(config, CapabilityPolicy::new())
            .create(&small("words"))
            .await?;
        let names = namespace.names().await;
        let pod: Pod = namespace.pods().get(&names[0]).await?;
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(pod.metadata.labels.unwrap_or_default()["team"], "graders");
        let annotations = pod.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations["note"], "kept");
        let spec = pod.spec.expect("a specification");
        let tolerations = spec.tolerations.unwrap_or_default();
        assert!(
            tolerations
                .iter()
                .any(|one| one.key.as_deref() == Some("sandboxes"))
        );
        assert_eq!(
            spec.image_pull_secrets.unwrap_or_default()[0].name,
            "registry"
        );
        assert_eq!(spec.automount_service_account_token, Some(false));
        sandbox.kill().await?;
        Ok(())
    })
}

fn environment() -> TestResult {
    run(async {
        let all = PodProfile::ALL.map(environment_is_invisible);
        join_all(all).await.into_iter().collect()
    })
}

/// The pod has the variables. Code cannot read them, neither as its own nor from the agent.
async fn environment_is_invisible(profile: PodProfile) -> TestResult {
    let namespace = TestNamespace::new().await;
    let template =
        PodTemplate::parse("spec: {containers: [{env: [{name: CANARY, value: c4n4ry}]}]}")?;
    let config = config_in(&namespace.name).pod_template(template);
    let config = config.profile(profile);
    let mut policy = CapabilityPolicy::new();
    policy.allow_unenforced = vec![sandbox_core::Capability::NetworkAccess];
    let client = client(config, policy);
    let sandbox = client
        .create(&small("environment").env("OWN", "mine"))
        .await?;
    let names = namespace.names().await;
    let mut has_canary = false;
    for name in &names {
        let spec = namespace.pods().get(name).await?.spec.unwrap_or_default();
        has_canary |= spec.containers[0]
            .env
            .as_ref()
            .is_some_and(|env| env[0].name == "CANARY");
    }
    assert!(has_canary, "{names:?}");
    let seen = output(
        &sandbox,
        "env; for p in /proc/[0-9]*; do echo $p; tr '\\0' '\\n' < $p/environ; done 2>&1",
    )
    .await;
    assert!(
        seen.contains("OWN=mine") && seen.contains("/proc/1"),
        "{seen}"
    );
    assert!(!seen.contains("c4n4ry"), "{seen}");
    sandbox.kill().await?;
    Ok(())
}

fn missing() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let refused = [
            (
                "spec: {containers: [{env: [{name: X, valueFrom: {configMapKeyRef: {name: none, key: x}}}]}]}",
                "CreateContainerConfigError: configmap \"none\" not found",
            ),
            ("spec: {nodeSelector: {pool: none}}", "Unschedulable: "),
            ("spec: {serviceAccountName: none}", "service account"),
            ("spec: {runtimeClassName: none}", "RuntimeClass"),
            ("spec: {priorityClassName: none}", "PriorityClass"),
        ]
        .map(async |(template, words)| {
            let template = PodTemplate::parse(template).expect("a template");
            let config = namespace.config().pod_template(template);
            let client = client(config, CapabilityPolicy::new());
            let spec = small(&sandbox_core::spi::unique_name("missing"));
            let error = client.create(&spec).await.expect_err(words);
            assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
            let text = error.to_string().replace('\\', "");
            assert!(text.contains(words), "{words}: {text}");
        });
        join_all(refused).await;
        namespace.wait_empty().await;
        Ok(())
    })
}
