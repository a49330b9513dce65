use insta::{Settings, assert_json_snapshot};
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{ByteSize, CapabilityPolicy, Cpus, ErrorKind, SandboxSpec, Workspace};

use super::samples::plan;
use super::*;
use crate::ProfileForm;
use crate::family::samples::{FAMILY, OTHER, TIER};
use crate::folders::HostFolders;
use crate::quota::LayerQuota;

const CODE: (u32, u32) = (1000, 1000);

fn image(volumes: &[&str]) -> ImageFacts {
    let volumes = volumes.iter().map(|volume| (*volume).to_owned()).collect();
    ImageFacts {
        id: "sha256:0fc81622079e".into(),
        volumes,
    }
}

/// Stands for the profile's text, which has its own snapshots.
const PROFILE: &str = "{profile}";

/// The profile's path for engines that read it from a file.
const PROFILE_FILE: &str = "/var/lib/volumes/sandbox-agent-0123/_data/seccomp.json";

/// The file of the agent's volume that names the name server.
const VOLUME: &str = "/var/lib/volumes/sandbox-agent-0123/_data";

fn lowered(
    spec: &SandboxSpec,
    policy: &CapabilityPolicy,
    facts: &EngineFacts,
    image: &ImageFacts,
    code: (u32, u32),
) -> Result<ContainerCreateBody> {
    lowered_for(TIER, spec, policy, facts, image, code)
}

fn lowered_for(
    tier: Tier,
    spec: &SandboxSpec,
    policy: &CapabilityPolicy,
    facts: &EngineFacts,
    image: &ImageFacts,
    code: (u32, u32),
) -> Result<ContainerCreateBody> {
    let plan = plan(spec, policy);
    let exports = plan
        .export_paths
        .iter()
        .filter_map(|path| path.rsplit_once('/'));
    let exports = exports
        .map(|(folder, _)| folder.to_owned())
        .collect::<Vec<_>>();
    let inputs = SpecInputs {
        tier,
        facts,
        image,
        volume: "sandbox-agent-0123",
        runtime: None,
        hidden: &[],
        network: None,
        profile: Some(match tier.family.profile_form {
            ProfileForm::Text => PROFILE,
            ProfileForm::File => PROFILE_FILE,
        }),
        default_paths: &DefaultPaths::default(),
        folders: &HostFolders::default(),
        options: &EngineOptions::default(),
        name_files: (!has_network(&plan)).then_some(VOLUME),
        user_mounts: &[],
    };
    let storage = StorageSplit::new(&plan, &exports, &LayerQuota::NotNeeded);
    let identity = CodeIdentity::unmapped(code);
    confined(&plan, &inputs, &storage, identity).map(|lowered| lowered.body)
}

fn with_defaults(spec: &SandboxSpec, policy: &CapabilityPolicy) -> Result<ContainerCreateBody> {
    lowered(spec, policy, &EngineFacts::sample(), &image(&[]), CODE)
}

fn host(body: ContainerCreateBody) -> HostConfig {
    body.host_config.expect("host config")
}

macro_rules! snapshot {
    ($body:expr) => {{
        let mut body = $body.expect("lowered");
        // A new crate version must not change snapshots.
        let labels = body.labels.as_mut().expect("labels");
        labels.insert("sandbox.version".into(), "[version]".into());
        let mut settings = Settings::clone_current();
        settings.set_sort_maps(true);
        settings.bind(|| assert_json_snapshot!(body));
    }};
}

#[test]
fn a_sandbox_with_every_default() {
    snapshot!(with_defaults(
        &SandboxSpec::new("grader-7"),
        &CapabilityPolicy::new()
    ));
}

#[test]
fn a_sandbox_of_another_family_with_every_default() {
    snapshot!(lowered_for(
        OTHER.confined(),
        &SandboxSpec::new("grader-7"),
        &CapabilityPolicy::new(),
        &EngineFacts::sample(),
        &image(&[]),
        CODE,
    ));
}

#[test]
fn a_sandbox_of_another_family_with_the_agents_user() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/srv/data".into()]);
    policy.artifact_export_paths = vec!["/output/a.png".into()];
    let facts = EngineFacts {
        rootless: true,
        cgroup: 2,
        ..EngineFacts::sample()
    };
    let spec = SandboxSpec::new("rootless").user("0:0");
    snapshot!(lowered_for(
        OTHER.confined(),
        &spec,
        &policy,
        &facts,
        &image(&["/data"]),
        (0, 7)
    ));
}

#[test]
fn a_sandbox_with_roots_limits_and_exports() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/srv/data".into()]);
    policy.filesystem_write_roots = Some(vec!["/srv/results".into()]);
    policy.artifact_export_paths = vec!["/output/a.png".into(), "/srv/results/b".into()];
    policy.disk = Some(ByteSize::mib(100));
    policy.pids = Some(16);
    let spec = SandboxSpec::new("full")
        .image("python:3.11-slim")
        .memory(ByteSize::mib(64))
        .cpus(Cpus::milli(1500))
        .label("team", "grading")
        .workspace(Workspace::read_write("/home/me/work"));
    snapshot!(with_defaults(&spec, &policy));
}

#[test]
fn a_sandbox_on_a_new_engine_with_volumes_and_the_agents_user() {
    let mut policy = CapabilityPolicy::new();
    policy.filesystem_read_roots = Some(vec!["/srv/data".into()]);
    policy.network = Some(NetworkPolicy::Full);
    let facts = EngineFacts {
        api: (1, 47),
        cgroup: 2,
        ..EngineFacts::sample()
    };
    let volumes = image(&["/data/", "/tmp", "/srv/data"]);
    let spec = SandboxSpec::new("rootful").user("0:7");
    snapshot!(lowered(&spec, &policy, &facts, &volumes, (0, 7)));
}

#[test]
fn a_sandbox_without_a_policy() {
    let plan = plan(&SandboxSpec::new("free"), &CapabilityPolicy::new());
    let (facts, image) = (EngineFacts::sample(), image(&["/data"]));
    let inputs = SpecInputs {
        tier: FAMILY.unconfined(),
        facts: &facts,
        image: &image,
        volume: "sandbox-agent-0123",
        runtime: Some("runsc"),
        hidden: &[],
        network: None,
        profile: None,
        default_paths: &DefaultPaths::default(),
        folders: &HostFolders::default(),
        options: &EngineOptions::default(),
        name_files: None,
        user_mounts: &[],
    };
    snapshot!(unconfined(&plan, &inputs));
}

fn with_rules() -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    let rule = "example.org".parse().expect("rule");
    policy.network = Some(NetworkPolicy::Allow(vec![rule]));
    policy
}

#[test]
fn a_sandbox_with_egress_rules() {
    snapshot!(with_defaults(&SandboxSpec::new("grader-7"), &with_rules()));
}

#[test]
fn rules_add_a_capability_a_setting_and_a_file_and_no_network() {
    let facts = EngineFacts::sample();
    for (spec, code) in [
        (SandboxSpec::new("sb"), CODE),
        (SandboxSpec::new("sb").user("0:0"), (0, 0)),
    ] {
        let of = |policy: &CapabilityPolicy| {
            host(lowered(&spec, policy, &facts, &image(&[]), code).expect("lowered"))
        };
        let (mut without, with) = (of(&CapabilityPolicy::new()), of(&with_rules()));
        assert_eq!(with.network_mode.as_deref(), Some("none"));
        let capabilities = without.cap_add.get_or_insert_default();
        if code.0 == 0 {
            // To drop the other one for good.
            capabilities.push("SETPCAP".into());
        }
        capabilities.push("NET_ADMIN".into());
        without.sysctls = Some(HashMap::from([(
            "net.ipv4.ip_unprivileged_port_start".into(),
            "0".into(),
        )]));
        let mounts = without.mounts.get_or_insert_default();
        let [_, name_server] = crate::egress::name_mounts(VOLUME);
        mounts.push(name_server);
        assert_eq!(with, without);
    }
}

#[test]
fn only_the_usual_runtime_of_docker_gives_a_loopback_without_the_engines_network() {
    let disabled = |facts: &EngineFacts, policy: &CapabilityPolicy| {
        let body = lowered(&SandboxSpec::new("sb"), policy, facts, &image(&[]), CODE);
        body.expect("lowered").network_disabled
    };
    let mut facts = EngineFacts::sample();
    let mut full = CapabilityPolicy::new();
    full.network = Some(NetworkPolicy::Full);
    assert_eq!(disabled(&facts, &CapabilityPolicy::new()), Some(true));
    assert_eq!(disabled(&facts, &full), None);
    facts.runtime = "runsc".to_owned();
    assert_eq!(disabled(&facts, &CapabilityPolicy::new()), None);
}

#[test]
fn processors_are_limited_to_the_engines() {
    for (asked, nano) in [(500, 500_000_000), (1, 10_000_000), (64_000, 2_000_000_000)] {
        let spec = SandboxSpec::new("sb").cpus(Cpus::milli(asked));
        let body = with_defaults(&spec, &CapabilityPolicy::new()).expect("lowered");
        assert_eq!(host(body).nano_cpus, Some(nano));
    }
}

#[test]
fn memory_below_the_engines_minimum_is_refused() {
    let spec = SandboxSpec::new("sb").memory(ByteSize::mib(2));
    let error = with_defaults(&spec, &CapabilityPolicy::new()).expect_err("too little");
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);
    assert!(error.to_string().contains("6MiB"), "{error}");
}

#[test]
fn a_detached_sandbox() {
    let spec = SandboxSpec::new("kept")
        .detached(true)
        .lifetime(std::time::Duration::from_millis(90_500));
    snapshot!(with_defaults(&spec, &CapabilityPolicy::new()));
}
