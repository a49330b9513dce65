//! Checks our pods against Kubernetes' Pod Security Standards, control by control. Clusters before
//! 1.23 have no admission plugin that does.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, SecurityContext};
use sandbox_core::policy::EgressRules;
use sandbox_core::{CapabilityPolicy, SandboxSpec};
use serde_json::Value;

use super::tests::{inputs_with, lowered_under};
use super::*;

/// Capabilities that the level `baseline` lets a container add.
const BASELINE_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Kernel settings that the level `baseline` allows.
const SAFE_SYSCTLS: [&str; 5] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
];
/// Volume types that the level `restricted` allows.
const RESTRICTED_VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
}

fn contexts(spec: &PodSpec) -> Vec<SecurityContext> {
    containers(spec)
        .map(|container| container.security_context.clone().unwrap_or_default())
        .collect()
}

fn json(value: &impl k8s_openapi::serde::Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

/// The `baseline` controls that a pod violates.
fn baseline(pod: &Pod) -> Vec<&'static str> {
    let spec = pod.spec.clone().unwrap_or_default();
    let of_pod = spec.security_context.clone().unwrap_or_default();
    let contexts = contexts(&spec);
    let is_json = |value: &Value, good: &[&str]| {
        value.is_null() || value.as_str().is_some_and(|value| good.contains(&value))
    };
    let apparmor =
        |annotation: &str| annotation == "runtime/default" || annotation.starts_with("localhost/");
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let profiles = ["Unconfined"];
    let options = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let types = [
            "",
            "container_t",
            "container_init_t",
            "container_kvm_t",
            "container_engine_t",
        ];
        is_json(&options["type"], &types) && options["user"].is_null() && options["role"].is_null()
    };
    let all: Vec<Value> = contexts.iter().map(json).chain([json(&of_pod)]).collect();
    let probes = containers(&spec).all(|container| {
        container.liveness_probe.is_none()
            && container.readiness_probe.is_none()
            && container.startup_probe.is_none()
            && container.lifecycle.is_none()
    });
    let checks = [
        (
            "HostProcess",
            all.iter()
                .all(|context| context["windowsOptions"]["hostProcess"] != true),
        ),
        (
            "Host Namespaces",
            [spec.host_network, spec.host_pid, spec.host_ipc]
                .iter()
                .all(|shared| *shared != Some(true)),
        ),
        (
            "Privileged Containers",
            contexts
                .iter()
                .all(|context| context.privileged != Some(true)),
        ),
        (
            "Capabilities",
            added(&contexts)
                .iter()
                .all(|name| BASELINE_CAPABILITIES.contains(&name.as_str())),
        ),
        (
            "HostPath Volumes",
            spec.volumes
                .iter()
                .flatten()
                .all(|volume| volume.host_path.is_none()),
        ),
        (
            "Host Ports",
            containers(&spec)
                .flat_map(|container| container.ports.iter().flatten())
                .all(|port| port.host_port.is_none_or(|port| port == 0)),
        ),
        ("Host Probes / Lifecycle Hooks", probes),
        (
            "AppArmor",
            annotations.iter().all(|(name, value)| {
                !name.starts_with("container.apparmor.security.beta.kubernetes.io/")
                    || apparmor(value)
            }) && all.iter().all(|context| {
                is_json(
                    &context["appArmorProfile"]["type"],
                    &["RuntimeDefault", "Localhost"],
                )
            }),
        ),
        ("SELinux", all.iter().all(options)),
        (
            "/proc Mount Type",
            contexts
                .iter()
                .all(|context| matches!(context.proc_mount.as_deref(), None | Some("Default"))),
        ),
        (
            "Seccomp",
            all.iter().all(|context| {
                !profiles.contains(
                    &context["seccompProfile"]["type"]
                        .as_str()
                        .unwrap_or_default(),
                )
            }),
        ),
        (
            "Sysctls",
            of_pod
                .sysctls
                .iter()
                .flatten()
                .all(|sysctl| SAFE_SYSCTLS.contains(&sysctl.name.as_str())),
        ),
    ];
    failed(&checks)
}

/// The `restricted` controls that a pod violates, including those of `baseline`.
fn restricted(pod: &Pod) -> Vec<&'static str> {
    let spec = pod.spec.clone().unwrap_or_default();
    let of_pod = spec.security_context.clone().unwrap_or_default();
    let contexts = contexts(&spec);
    let volumes = json(&spec.volumes);
    let kinds = volumes
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|volume| volume.as_object().into_iter().flatten());
    let confined = |profile: Option<&k8s_openapi::api::core::v1::SeccompProfile>| {
        profile.is_some_and(|profile| {
            ["RuntimeDefault", "Localhost"].contains(&profile.type_.as_str())
        })
    };
    let drops_all = |context: &SecurityContext| {
        let dropped = context
            .capabilities
            .as_ref()
            .and_then(|set| set.drop.clone());
        dropped.unwrap_or_default().contains(&"ALL".to_owned())
    };
    let checks = [
        (
            "Volume Types",
            kinds
                .map(|(kind, _)| kind)
                .filter(|kind| *kind != "name")
                .all(|kind| RESTRICTED_VOLUMES.contains(&kind.as_str())),
        ),
        (
            "Privilege Escalation",
            contexts
                .iter()
                .all(|context| context.allow_privilege_escalation == Some(false)),
        ),
        (
            "Running as Non-root",
            contexts
                .iter()
                .all(|context| context.run_as_non_root.or(of_pod.run_as_non_root) == Some(true)),
        ),
        (
            "Running as Non-root user",
            contexts
                .iter()
                .all(|context| context.run_as_user != Some(0))
                && of_pod.run_as_user != Some(0),
        ),
        (
            "Seccomp (v1.19+)",
            contexts.iter().all(|context| {
                confined(
                    context
                        .seccomp_profile
                        .as_ref()
                        .or(of_pod.seccomp_profile.as_ref()),
                )
            }),
        ),
        (
            "Capabilities (v1.22+)",
            contexts.iter().all(drops_all)
                && added(&contexts)
                    .iter()
                    .all(|name| name == "NET_BIND_SERVICE"),
        ),
    ];
    let mut all = baseline(pod);
    all.extend(failed(&checks));
    all
}

fn added(contexts: &[SecurityContext]) -> Vec<String> {
    let sets = contexts
        .iter()
        .filter_map(|context| context.capabilities.clone());
    sets.flat_map(|set| set.add.unwrap_or_default()).collect()
}

fn failed(checks: &[(&'static str, bool)]) -> Vec<&'static str> {
    checks
        .iter()
        .filter(|(_, passed)| !passed)
        .map(|(control, _)| *control)
        .collect()
}

/// Pods of many kinds of plans, with and without a proven policy.
fn pods(profile: PodProfile) -> Vec<Pod> {
    let mut full = CapabilityPolicy::new();
    full.network = Some(NetworkPolicy::Full);
    let mut narrow = CapabilityPolicy::new();
    narrow.subprocess_execution = Some(false);
    narrow.disk = Some(ByteSize::mib(1));
    let mut rules = CapabilityPolicy::new();
    let allowed = EgressRules::parse(["one.test"]).expect("rules");
    rules.network = Some(NetworkPolicy::Allow(allowed.into_rules()));
    let spec = SandboxSpec::new("job");
    let specs = [
        spec.clone(),
        spec.clone().user("4711:4712"),
        spec.clone()
            .lifetime(Duration::from_secs(9))
            .label("a", "b"),
        spec.env("X", "y").memory(ByteSize::mib(16)),
    ];
    let witnesses = vec!["10.96.0.1:443".parse().expect("an address")];
    let proven = NetworkDenial::Proven { witnesses };
    let template = PodTemplate::parse("spec: {runtimeClassName: x, serviceAccountName: puller, containers: [{env: [{name: A, value: b}]}]}").expect("a template");
    let mut pods = Vec::new();
    for spec in &specs {
        for policy in [&CapabilityPolicy::new(), &full, &narrow, &rules] {
            for template in [None, Some(&template)] {
                for denial in [None, Some(&proven)] {
                    pods.push(
                        lowered_under(spec, policy, profile, template, denial).expect("a pod"),
                    );
                }
            }
        }
    }
    pods
}

#[test]
fn restricted_profile_passes_level_restricted() {
    for pod in pods(PodProfile::Restricted) {
        assert_eq!(restricted(&pod), [""; 0], "{pod:?}");
    }
    for denied in [false, true] {
        let canary = inputs_with(PodProfile::Restricted, |inputs| {
            canary(inputs, inputs.identity, 7070, denied).expect("a pod")
        });
        assert_eq!(restricted(&canary), [""; 0], "{canary:?}");
    }
}

#[test]
fn hardened_profile_fails_level_baseline_only_for_net_admin() {
    let mut cut = 0;
    for mut pod in pods(PodProfile::Hardened) {
        let before = baseline(&pod);
        let spec = pod.spec.as_mut().expect("a specification");
        let context = spec.containers[0].security_context.as_mut();
        let set = context.and_then(|context| context.capabilities.as_mut());
        let added = set.and_then(|set| set.add.as_mut()).expect("capabilities");
        let count = added.len();
        added.retain(|name| name != "NET_ADMIN");
        if added.len() < count {
            assert_eq!(before, ["Capabilities"]);
            cut += 1;
        }
        assert_eq!(baseline(&pod), [""; 0], "{pod:?}");
        // The profile does not meet the stricter level.
        assert!(restricted(&pod).contains(&"Running as Non-root"));
    }
    assert!(cut > 0);
}

/// Each check can fail: it names its control if the pod violates it.
#[test]
fn every_control_is_checked() {
    let pod = pods(PodProfile::Restricted).remove(0);
    let with = |pointer: &str, value: Value| {
        let mut changed = json(&pod);
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        changed.pointer_mut(parent).expect(parent)[name] = value;
        restricted(&serde_json::from_value(changed).expect("a pod"))
    };
    use serde_json::json;
    let context = "/spec/containers/0/securityContext";
    for (control, pointer, value) in [
        (
            "HostProcess",
            "/spec/securityContext/windowsOptions".to_owned(),
            json!({"hostProcess": true}),
        ),
        ("Host Namespaces", "/spec/hostPID".to_owned(), json!(true)),
        (
            "Privileged Containers",
            format!("{context}/privileged"),
            json!(true),
        ),
        (
            "Capabilities",
            format!("{context}/capabilities"),
            json!({"add": ["SYS_ADMIN"]}),
        ),
        (
            "HostPath Volumes",
            "/spec/volumes".to_owned(),
            json!([{"name": "x", "hostPath": {"path": "/"}}]),
        ),
        (
            "Host Ports",
            "/spec/containers/0/ports".to_owned(),
            json!([{"containerPort": 1, "hostPort": 1}]),
        ),
        (
            "Host Probes / Lifecycle Hooks",
            "/spec/containers/0/livenessProbe".to_owned(),
            json!({"tcpSocket": {"port": 1, "host": "x"}}),
        ),
        (
            "AppArmor",
            format!("{context}/appArmorProfile"),
            json!({"type": "Unconfined"}),
        ),
        (
            "AppArmor",
            "/metadata/annotations".to_owned(),
            json!({"container.apparmor.security.beta.kubernetes.io/x": "unconfined"}),
        ),
        (
            "SELinux",
            format!("{context}/seLinuxOptions"),
            json!({"type": "spc_t"}),
        ),
        (
            "/proc Mount Type",
            format!("{context}/procMount"),
            json!("Unmasked"),
        ),
        (
            "Seccomp",
            format!("{context}/seccompProfile"),
            json!({"type": "Unconfined"}),
        ),
        (
            "Sysctls",
            "/spec/securityContext/sysctls".to_owned(),
            json!([{"name": "kernel.msgmax", "value": "1"}]),
        ),
        (
            "Volume Types",
            "/spec/volumes".to_owned(),
            json!([{"name": "x", "nfs": {"path": "/", "server": "x"}}]),
        ),
        (
            "Privilege Escalation",
            format!("{context}/allowPrivilegeEscalation"),
            json!(true),
        ),
        (
            "Running as Non-root",
            format!("{context}/runAsNonRoot"),
            json!(false),
        ),
        (
            "Running as Non-root user",
            format!("{context}/runAsUser"),
            json!(0),
        ),
        (
            "Seccomp (v1.19+)",
            format!("{context}/seccompProfile"),
            json!({"type": "Unconfined"}),
        ),
        (
            "Capabilities (v1.22+)",
            format!("{context}/capabilities"),
            json!({"drop": ["NET_RAW"]}),
        ),
    ] {
        let failed = with(&pointer, value);
        assert!(failed.contains(&control), "{control}: {failed:?}");
    }
}
