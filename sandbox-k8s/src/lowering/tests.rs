use super::*;
use sandbox_core::policy::EgressRules;
use sandbox_core::{CapabilityPolicy, HostMount, ImageRetention, SandboxSpec};

pub(crate) fn plan(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Plan {
    Plan::resolve(spec, policy).expect("a plan")
}

fn lowered(spec: &SandboxSpec, policy: &CapabilityPolicy, profile: PodProfile) -> Result<Pod> {
    lowered_with(spec, policy, profile, None)
}

pub(crate) fn lowered_with(
    spec: &SandboxSpec,
    policy: &CapabilityPolicy,
    profile: PodProfile,
    template: Option<&PodTemplate>,
) -> Result<Pod> {
    lowered_under(spec, policy, profile, template, None)
}

pub(crate) fn lowered_under(
    spec: &SandboxSpec,
    policy: &CapabilityPolicy,
    profile: PodProfile,
    template: Option<&PodTemplate>,
    denial: Option<&NetworkDenial>,
) -> Result<Pod> {
    let plan = plan(spec, policy);
    let storage = PodStorage::new(&plan, &["/output".to_owned()]);
    let identity = PodIdentity::of(&plan, 0x1234_5678_9abc_def0);
    let inputs = PodInputs {
        template,
        denial,
        ..inputs(&storage, &identity, profile)
    };
    pod(&plan, &inputs)
}

pub(crate) fn inputs_with<T>(profile: PodProfile, use_them: impl FnOnce(&PodInputs<'_>) -> T) -> T {
    let plan = plan(&SandboxSpec::new("job"), &CapabilityPolicy::new());
    let storage = PodStorage::new(&plan, &[]);
    let identity = PodIdentity::of(&plan, 7);
    use_them(&inputs(&storage, &identity, profile))
}

fn inputs<'a>(
    storage: &'a PodStorage,
    identity: &'a PodIdentity,
    profile: PodProfile,
) -> PodInputs<'a> {
    PodInputs {
        identity,
        profile,
        arch: Arch::X86_64,
        image: "python:3.11-slim",
        pull: PullPolicy::Never,
        agent: "sandbox-agent-0123456789abcdef",
        storage,
        folders: &[],
        template: None,
        detached: false,
        denial: None,
    }
}

/// Removes the version, which changes with each release, from a snapshot.
pub(crate) fn shown(mut pod: Pod) -> Pod {
    let labels = pod.metadata.labels.get_or_insert_default();
    assert!(labels.remove("sandbox.version").is_some());
    pod
}

#[test]
fn hardened() {
    let spec = SandboxSpec::new("job").lifetime(std::time::Duration::from_secs(90));
    let pod = lowered(&spec, &CapabilityPolicy::new(), PodProfile::Hardened).expect("a pod");
    insta::assert_json_snapshot!(shown(pod));
}

#[test]
fn detached() {
    let spec = SandboxSpec::new("kept_one").detached(true);
    let pod = lowered(&spec, &CapabilityPolicy::new(), PodProfile::Hardened).expect("a pod");
    let metadata = shown(pod.clone()).metadata;
    // The specification equals that of an attached sandbox.
    insta::assert_json_snapshot!(metadata);
    let deadline = pod.spec.and_then(|spec| spec.active_deadline_seconds);
    assert_eq!(deadline, Some(3600));
}

#[test]
fn restricted() {
    let spec = SandboxSpec::new("job").label("team", "a");
    let pod = lowered(&spec, &CapabilityPolicy::new(), PodProfile::Restricted).expect("a pod");
    insta::assert_json_snapshot!(shown(pod));
}

#[test]
fn restricted_under_a_policy() {
    let witnesses = ["10.96.0.1:443", "[fd00::1]:443"].map(|to| to.parse().expect("an address"));
    let denial = NetworkDenial::Proven {
        witnesses: witnesses.into(),
    };
    let spec = SandboxSpec::new("job");
    let policy = CapabilityPolicy::new();
    let pod = lowered_under(&spec, &policy, PodProfile::Restricted, None, Some(&denial));
    let steps = pod
        .expect("a pod")
        .spec
        .and_then(|spec| spec.init_containers);
    insta::assert_json_snapshot!(steps);
}

#[test]
fn the_canary() {
    let pod = inputs_with(PodProfile::Restricted, |inputs| {
        canary(inputs, inputs.identity, 7070, true).expect("a pod")
    });
    insta::assert_json_snapshot!(shown(pod));
}

#[test]
fn no_profile_exposes_the_cluster() {
    for profile in [PodProfile::Hardened, PodProfile::Restricted] {
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
        // Only an agent that gives the capability up may have it.
        let adds = |container: &Container| {
            let context = container.security_context.as_ref();
            let capabilities = context.and_then(|context| context.capabilities.as_ref());
            capabilities
                .and_then(|set| set.add.clone())
                .unwrap_or_default()
        };
        let main = &spec.containers[0];
        let cuts = profile == PodProfile::Hardened;
        assert_eq!(adds(main).contains(&"NET_ADMIN".to_owned()), cuts);
        let command = main.command.as_ref().expect("a command");
        assert_eq!(command.contains(&CUT_NETWORK.to_owned()), cuts);
        assert_eq!(spec.init_containers, None);
    }
}

#[test]
fn with_egress_rules() {
    let mut policy = CapabilityPolicy::new();
    let rules = EgressRules::parse(["one.test", "203.0.113.0/24:5432"]).expect("rules");
    policy.network = Some(NetworkPolicy::Allow(rules.into_rules()));
    let spec = SandboxSpec::new("job");
    let with = lowered(&spec, &policy, PodProfile::Hardened).expect("a pod");
    let parts = |pod: &Pod| {
        let spec = pod.spec.clone().expect("a specification");
        let command = spec.containers[0].command.clone();
        (spec.security_context, spec.dns_config, command)
    };
    insta::assert_json_snapshot!(parts(&with));
    // Everything else is as without rules, and a pod that cannot have them has no part of them.
    let without = lowered(&spec, &CapabilityPolicy::new(), PodProfile::Hardened).expect("a pod");
    let mut same = with.clone();
    let spec_of = |pod: &mut Pod| pod.spec.take().expect("a specification");
    let (mut same_spec, plain) = (spec_of(&mut same), spec_of(&mut without.clone()));
    same_spec
        .security_context
        .clone_from(&plain.security_context);
    same_spec.dns_config.clone_from(&plain.dns_config);
    same_spec.containers[0]
        .command
        .clone_from(&plain.containers[0].command);
    assert_eq!(same_spec, plain);
    let template = PodTemplate::parse("spec: {runtimeClassName: gvisor}").expect("a template");
    for (profile, template) in [
        (PodProfile::Restricted, None),
        (PodProfile::Hardened, Some(&template)),
    ] {
        let pod = lowered_with(&spec, &policy, profile, template).expect("a pod");
        let plain = lowered_with(&spec, &CapabilityPolicy::new(), profile, template);
        assert_eq!(parts(&pod), parts(&plain.expect("a pod")));
    }
}

#[test]
fn only_a_step_before_code_writes_packages() {
    let plan = plan(&SandboxSpec::new("job"), &CapabilityPolicy::new());
    let storage = PodStorage::new(&plan, &[]);
    let identity = PodIdentity::of(&plan, 7);
    let folder = |target: &str, source: Option<&str>| PodFolder {
        target: target.into(),
        size: 32 << 20,
        source: source.map(Into::into),
    };
    let lowered = |folders: &[PodFolder], profile| {
        let inputs = PodInputs {
            folders,
            ..inputs(&storage, &identity, profile)
        };
        pod(&plan, &inputs).expect("a pod").spec.expect("one")
    };
    let packages = [folder("/packages", Some("/cache/base"))];
    let spec = lowered(&packages, PodProfile::Hardened);
    let steps = spec.init_containers.expect("a step");
    let mount = |container: &Container| {
        let mounts = container.volume_mounts.iter().flatten();
        let mut mounts = mounts.filter(|mount| mount.mount_path == "/packages");
        mounts.next().cloned().expect("mounted")
    };
    assert_eq!(mount(&spec.containers[0]).read_only, Some(true));
    assert_eq!(mount(&steps[0]).read_only, None);
    assert_eq!(mount(&steps[0]).name, mount(&spec.containers[0]).name);
    let volume = spec.volumes.iter().flatten();
    let volume = volume.last().and_then(|volume| volume.empty_dir.clone());
    insta::assert_json_snapshot!((&steps[0].command, volume, &steps[0].resources));
    let restricted = lowered(&packages, PodProfile::Restricted);
    let step = &restricted.init_containers.expect("a step")[0];
    let context = step.security_context.as_ref().expect("a context");
    assert_eq!(context.run_as_non_root, Some(true));
    // The work folder of an installer is its own.
    let spec = lowered(&[folder("/packages", None)], PodProfile::Hardened);
    assert_eq!(mount(&spec.containers[0]).read_only, None);
    assert_eq!(spec.init_containers, None);
}

#[test]
fn full_network_is_kept() {
    let mut policy = CapabilityPolicy::new();
    policy.network = Some(NetworkPolicy::Full);
    let spec = SandboxSpec::new("sb");
    let pod = lowered(&spec, &policy, PodProfile::Hardened).expect("a pod");
    let spec = pod.spec.expect("a specification");
    assert_eq!(spec.dns_config, None);
    let main = serde_json::to_string(&spec.containers[0]).expect("JSON");
    assert!(!main.contains(CUT_NETWORK) && !main.contains("NET_ADMIN"));
}

#[test]
fn unsupported_requests_are_refused() {
    let policy = CapabilityPolicy::new();
    let spec = SandboxSpec::new("sb");
    for (spec, kind) in [
        (
            spec.clone()
                .detached(true)
                .workspace(sandbox_core::Workspace::read_only("/tmp")),
            ErrorKind::Unsupported,
        ),
        (spec.clone().writable_root(true), ErrorKind::Unsupported),
        (
            spec.clone().image_retention(ImageRetention::Remove),
            ErrorKind::InvalidSpec,
        ),
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
        let error = lowered(&spec, &policy, PodProfile::Hardened).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
    let mount = spec.clone().mount(HostMount::read_only("/srv", "/data"));
    let error = lowered(&mount, &CapabilityPolicy::new(), PodProfile::Hardened);
    let error = error.expect_err("a pod has no folders of this host");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("mounts: "), "{error}");
    let mut roots = CapabilityPolicy::new();
    roots.filesystem_read_roots = Some(vec!["/srv".into()]);
    let error = lowered(&spec, &roots, PodProfile::Hardened).expect_err("roots");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let named = "filesystem_read_roots, ";
    assert!(error.context().starts_with(named), "{error}");
    assert!(error.fix().is_some(), "{error}");
}
