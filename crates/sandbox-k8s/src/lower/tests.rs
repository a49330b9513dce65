use super::*;
use sandbox_core::{CapabilityPolicy, SandboxSpec};

pub(crate) fn plan(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Plan {
    Plan::resolve(spec, policy).expect("a plan")
}

fn lowered(spec: &SandboxSpec, policy: &CapabilityPolicy, profile: PodProfile) -> Result<Pod> {
    let plan = plan(spec, policy);
    let storage = Storage::new(&plan, &["/output".to_owned()]);
    let identity = Identity::of(&plan.name, 0x1234_5678_9abc_def0);
    let parts = Parts {
        identity: &identity,
        profile,
        arch: Arch::X86_64,
        image: "python:3.11-slim",
        pull: PullPolicy::Never,
        agent: "sandbox-agent-0123456789abcdef",
        storage: &storage,
    };
    pod(&plan, &parts)
}

/// The version changes with each release and is no part of what a snapshot shows.
fn shown(mut pod: Pod) -> Pod {
    let labels = pod.metadata.labels.get_or_insert_default();
    assert!(labels.remove("sandbox.version").is_some());
    pod
}

#[test]
fn hardened_init() {
    let spec = SandboxSpec::new("job").lifetime(std::time::Duration::from_secs(90));
    let pod = lowered(&spec, &CapabilityPolicy::new(), PodProfile::HardenedInit).expect("a pod");
    insta::assert_json_snapshot!(shown(pod));
}

#[test]
fn restricted() {
    let spec = SandboxSpec::new("job").label("team", "a");
    let pod = lowered(&spec, &CapabilityPolicy::new(), PodProfile::Restricted).expect("a pod");
    insta::assert_json_snapshot!(shown(pod));
}

/// The published rules of the pod security level `restricted`, as far as they speak of fields that a pod of ours has.
#[test]
fn the_restricted_profile_passes_the_level_of_its_name() {
    let pod = lowered(
        &SandboxSpec::new("sb"),
        &CapabilityPolicy::new(),
        PodProfile::Restricted,
    );
    let spec = pod.expect("a pod").spec.expect("a specification");
    assert_eq!(spec.init_containers, None);
    for shared in [spec.host_network, spec.host_pid, spec.host_ipc] {
        assert_ne!(shared, Some(true));
    }
    for volume in spec.volumes.iter().flatten() {
        assert!(
            volume.config_map.is_some() || volume.empty_dir.is_some(),
            "{volume:?}"
        );
    }
    let context = spec.security_context.expect("a context");
    assert_eq!(context.run_as_non_root, Some(true));
    assert_eq!(
        context.seccomp_profile.expect("a filter").type_,
        "RuntimeDefault"
    );
    assert_eq!(context.sysctls, None);
    for container in &spec.containers {
        let context = container.security_context.as_ref().expect("a context");
        assert_eq!(context.allow_privilege_escalation, Some(false));
        assert_eq!(context.privileged, Some(false));
        assert_eq!(context.run_as_non_root, Some(true));
        assert!(context.run_as_user.is_some_and(|user| user > 0));
        let capabilities = context.capabilities.as_ref().expect("capabilities");
        assert_eq!(capabilities.drop.as_deref(), Some(&["ALL".to_owned()][..]));
        assert_eq!(capabilities.add, None);
        assert_eq!(context.proc_mount, None);
        let host_ports = container.ports.iter().flatten();
        assert_eq!(host_ports.filter_map(|port| port.host_port).count(), 0);
    }
}

#[test]
fn both_profiles_keep_the_cluster_out() {
    for profile in [PodProfile::HardenedInit, PodProfile::Restricted] {
        let pod = lowered(&SandboxSpec::new("sb"), &CapabilityPolicy::new(), profile);
        let spec = pod.expect("a pod").spec.expect("a specification");
        assert_eq!(spec.automount_service_account_token, Some(false));
        assert_eq!(spec.enable_service_links, Some(false));
        assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
        assert_eq!(spec.dns_policy.as_deref(), Some("None"));
        for container in spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
        {
            let context = container.security_context.as_ref().expect("a context");
            assert_eq!(context.read_only_root_filesystem, Some(true));
            assert_eq!(context.allow_privilege_escalation, Some(false));
            let resources = container.resources.as_ref().expect("resources");
            assert_eq!(resources.requests, resources.limits);
        }
        // Only the step before the code may touch the network.
        let adds = |container: &Container| {
            let context = container.security_context.as_ref();
            let capabilities = context.and_then(|context| context.capabilities.as_ref());
            capabilities
                .and_then(|set| set.add.clone())
                .unwrap_or_default()
        };
        assert!(!adds(&spec.containers[0]).contains(&"NET_ADMIN".to_owned()));
    }
}

#[test]
fn a_full_network_stays() {
    let mut policy = CapabilityPolicy::new();
    policy.network = Some(NetworkPolicy::Full);
    let spec = SandboxSpec::new("sb");
    let pod = lowered(&spec, &policy, PodProfile::HardenedInit).expect("a pod");
    let spec = pod.spec.expect("a specification");
    assert_eq!(spec.init_containers, None);
    assert_eq!(spec.dns_config, None);
}

#[test]
fn what_a_pod_cannot_be_is_refused() {
    let policy = CapabilityPolicy::new();
    let spec = SandboxSpec::new("sb");
    for (spec, kind) in [
        (
            spec.clone()
                .workspace(sandbox_core::Workspace::read_only("/tmp")),
            ErrorKind::Unsupported,
        ),
        (spec.clone().writable_root(true), ErrorKind::Unsupported),
        (spec.clone().user("0:0"), ErrorKind::Unsupported),
        (
            spec.clone().memory(ByteSize::mib(8)),
            ErrorKind::InvalidSpec,
        ),
        (
            spec.clone().label("sandbox.tier", "x"),
            ErrorKind::InvalidSpec,
        ),
    ] {
        let error = lowered(&spec, &policy, PodProfile::HardenedInit).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
}
