use sandbox_core::{CapabilityPolicy, SandboxSpec};

use super::*;
use crate::config::PodProfile;
use crate::lowering::tests::{lowered_with, shown};

const MANIFEST: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: null
  labels: {team: graders}
  annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}
spec:
  nodeSelector: {pool: sandboxes}
  tolerations:
  - {key: sandboxes, operator: Exists, effect: NoSchedule}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 10
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {team: graders}}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
  runtimeClassName: gvisor
  priorityClassName: low
  schedulerName: second
  serviceAccountName: puller
  automountServiceAccountToken: false
  hostNetwork: false
  restartPolicy: Never
  imagePullSecrets: [{name: registry}]
  containers:
  - name: sandbox
    env:
    - {name: HTTPS_PROXY, value: "http://proxy:3128"}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
status: {}
"#;

fn merged(profile: PodProfile) -> k8s_openapi::api::core::v1::Pod {
    let template = PodTemplate::parse(MANIFEST).expect("a template");
    let spec = SandboxSpec::new("job");
    shown(lowered_with(&spec, &CapabilityPolicy::new(), profile, Some(&template)).expect("a pod"))
}

#[test]
fn merged_into_hardened() {
    insta::assert_json_snapshot!(merged(PodProfile::Hardened));
}

#[test]
fn merged_into_restricted() {
    insta::assert_json_snapshot!(merged(PodProfile::Restricted));
}

/// All fields that a template may not set stay unchanged.
#[test]
fn template_keeps_restrictions() {
    for profile in [PodProfile::Hardened, PodProfile::Restricted] {
        let spec = SandboxSpec::new("job");
        let bare = lowered_with(&spec, &CapabilityPolicy::new(), profile, None).expect("a pod");
        let mut merged = merged(profile).spec.expect("a specification");
        let bare = bare.spec.expect("a specification");
        merged.affinity = None;
        merged.image_pull_secrets = None;
        merged.node_selector.clone_from(&bare.node_selector);
        merged.priority_class_name = None;
        merged.runtime_class_name = None;
        merged.scheduler_name = None;
        merged.service_account_name = None;
        merged.tolerations = None;
        merged.topology_spread_constraints = None;
        merged.containers[0].env = None;
        assert_eq!(merged, bare);
    }
}

fn error(manifest: &str) -> String {
    let error = PodTemplate::parse(manifest).expect_err(manifest);
    assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn forbidden_fields_are_refused_by_name() {
    for (field, manifest) in [
        ("spec.hostNetwork", "spec: {hostNetwork: true}"),
        ("spec.hostPID", "spec: {hostPID: true}"),
        ("spec.hostIPC", "spec: {hostIPC: true}"),
        (
            "spec.shareProcessNamespace",
            "spec: {shareProcessNamespace: true}",
        ),
        (
            "spec.automountServiceAccountToken",
            "spec: {automountServiceAccountToken: true}",
        ),
        (
            "spec.enableServiceLinks",
            "spec: {enableServiceLinks: true}",
        ),
        ("spec.restartPolicy", "spec: {restartPolicy: Always}"),
        (
            "spec.volumes",
            "spec: {volumes: [{name: x, hostPath: {path: /}}]}",
        ),
        ("spec.volumes", "spec: {volumes: [{name: x, emptyDir: {}}]}"),
        ("spec.initContainers", "spec: {initContainers: [{name: x}]}"),
        (
            "spec.ephemeralContainers",
            "spec: {ephemeralContainers: [{name: x}]}",
        ),
        (
            "spec.securityContext",
            "spec: {securityContext: {sysctls: [{name: x, value: '1'}]}}",
        ),
        ("spec.dnsPolicy", "spec: {dnsPolicy: ClusterFirst}"),
        ("spec.nodeName", "spec: {nodeName: x}"),
        (
            "spec.containers[0].securityContext",
            "spec: {containers: [{securityContext: {privileged: true}}]}",
        ),
        (
            "spec.containers[0].securityContext",
            "spec: {containers: [{name: sandbox, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]}",
        ),
        (
            "spec.containers[0].image",
            "spec: {containers: [{name: sandbox, image: x}]}",
        ),
        (
            "spec.containers[0].volumeMounts",
            "spec: {containers: [{volumeMounts: [{name: x, mountPath: /x}]}]}",
        ),
        (
            "spec.containers[0].lifecycle",
            "spec: {containers: [{lifecycle: {postStart: {exec: {command: [x]}}}}]}",
        ),
        (
            "spec.containers[0].envFrom",
            "spec: {containers: [{envFrom: [{secretRef: {name: x}}]}]}",
        ),
        (
            "spec.containers[0].env[0].valueFrom.secretKeyRef",
            "spec: {containers: [{env: [{name: x, valueFrom: {secretKeyRef: {name: x, key: y}}}]}]}",
        ),
        (
            "spec.containers[0]",
            "spec: {containers: [{name: sidecar}]}",
        ),
        (
            "spec.containers[1]",
            "spec: {containers: [{name: sandbox}, {name: sandbox}]}",
        ),
        ("metadata.name", "metadata: {name: x}"),
        (
            "metadata.labels[\"sandbox.tier\"]",
            "metadata: {labels: {sandbox.tier: x}}",
        ),
        (
            "metadata.annotations[\"container.apparmor.security.beta.kubernetes.io/sandbox\"]",
            "metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/sandbox: unconfined}}",
        ),
        (
            "metadata.annotations[\"k8s.v1.cni.cncf.io/networks\"]",
            "metadata: {annotations: {k8s.v1.cni.cncf.io/networks: x}}",
        ),
    ] {
        let text = error(manifest);
        assert!(text.contains(&format!("{field}: ")), "{field}: {text}");
    }
}

#[test]
fn misspelled_fields_are_refused() {
    for (field, manifest) in [
        ("spec.toleration", "spec: {toleration: []}\nspeck: 1"),
        (
            "spec.tolerations[0].efect",
            "spec: {tolerations: [{efect: NoSchedule}]}",
        ),
        (
            "spec.affinity.nodeAfinity",
            "spec: {affinity: {nodeAfinity: {x: y}}}",
        ),
        ("invalid type", "spec: {tolerations: 7}"),
        ("kind", "kind: Deployment\nspec: {}"),
        ("apiVersion", "apiVersion: v2\nkind: Pod"),
        (
            "template",
            "kind: PodTemplate\nspec: {nodeSelector: {a: b}}",
        ),
        ("not an object", "[]"),
    ] {
        let text = error(manifest);
        // An empty first element says nothing; the error names its sibling.
        let field = if field == "spec.toleration" {
            "speck"
        } else {
            field
        };
        assert!(text.contains(field), "{field}: {text}");
    }
    assert!(PodTemplate::parse("a: [").is_err());
    assert_eq!(
        PodTemplate::read("/nonexistent")
            .expect_err("no file")
            .kind(),
        ErrorKind::Io
    );
}

#[test]
fn all_template_sources_give_the_same_result() {
    let bare = PodTemplate::parse(r#"{"spec": {"nodeSelector": {"a": "b"}}}"#).expect("bare");
    let object = PodTemplate::parse(
        "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: x}\ntemplate: {spec: {nodeSelector: {a: b}}}",
    );
    assert_eq!(object.expect("an object"), bare);
    let typed = PodTemplate::try_from(bare.template.clone()).expect("typed");
    assert_eq!(typed, bare);
    let mut loose = bare.template;
    loose.spec.get_or_insert_default().host_network = Some(true);
    let error = PodTemplate::try_from(loose).expect_err("refused");
    assert!(error.to_string().contains("spec.hostNetwork"), "{error}");
}

#[test]
fn conflicting_entries_are_an_error() {
    let manifest = "spec: {nodeSelector: {kubernetes.io/arch: s390x}}";
    let template = PodTemplate::parse(manifest).expect("a template");
    let error = lowered_with(
        &SandboxSpec::new("job"),
        &CapabilityPolicy::new(),
        PodProfile::Restricted,
        Some(&template),
    );
    let text = error.expect_err("a contradiction").to_string();
    assert!(
        text.contains("spec.nodeSelector[\"kubernetes.io/arch\"]"),
        "{text}"
    );
}

#[test]
fn template_labels_are_not_specification_labels() {
    let template = PodTemplate::parse("metadata: {labels: {team: platform}}").expect("a template");
    let pod = lowered_with(
        &SandboxSpec::new("job").label("team", "a"),
        &CapabilityPolicy::new(),
        PodProfile::Restricted,
        Some(&template),
    );
    let pod = pod.expect("a pod");
    let labels = pod.metadata.labels.as_ref().expect("labels");
    assert_eq!(labels.get("team").map(String::as_str), Some("platform"));
    let given = crate::labels::specification_labels(&pod);
    assert_eq!(given.get("team").map(String::as_str), Some("a"));
}
