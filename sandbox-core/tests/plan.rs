//! Plans resolved from a specification and a policy.

mod common;

use std::time::Duration;

use sandbox_core::plan::defaults;
use sandbox_core::policy::{NetworkPolicy, Preset};
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Cpus, ErrorKind, Level, Plan, SandboxSpec, Workspace,
};

fn spec() -> SandboxSpec {
    SandboxSpec::new("test")
}

fn exceeds(spec: &SandboxSpec, policy: &CapabilityPolicy) -> String {
    let error = Plan::resolve(spec, policy).expect_err("this exceeds the policy");
    assert_eq!(error.kind(), ErrorKind::PolicyExceeded);
    assert!(error.fix().is_some());
    error.context().to_owned()
}

#[test]
fn unset_values_take_defaults_as_wanted_demands() {
    let plan = common::plan(&CapabilityPolicy::new()).unwrap();
    assert_eq!(
        (plan.memory, plan.cpus, plan.pids),
        (defaults::MEMORY, defaults::CPUS, defaults::PIDS)
    );
    assert_eq!(
        (plan.timeout, plan.disk),
        (defaults::TIMEOUT, defaults::DISK)
    );
    assert_eq!(
        (plan.stdout_max, plan.stderr_max),
        (defaults::OUTPUT, defaults::OUTPUT)
    );
    assert_eq!(plan.network, NetworkPolicy::None);
    assert!(plan.subprocess);
    let level = |capability| plan.demand(capability).map(|demand| demand.level);
    for isolation in [
        Capability::FilesystemReadRoots,
        Capability::FilesystemWriteRoots,
        Capability::NetworkAccess,
        Capability::EnvVarAccess,
        Capability::Processes,
        Capability::Privileges,
    ] {
        assert_eq!(level(isolation), Some(Level::Required), "{isolation}");
    }
    for limit in [
        Capability::Timeout,
        Capability::StdoutMaxBytes,
        Capability::StderrMaxBytes,
        Capability::Memory,
        Capability::Cpus,
        Capability::Pids,
        Capability::Disk,
        Capability::OpenFiles,
    ] {
        assert_eq!(level(limit), Some(Level::Wanted), "{limit}");
    }
    for absent in [
        Capability::SubprocessExecution,
        Capability::ArtifactExportPaths,
        Capability::Egress,
    ] {
        assert_eq!(level(absent), None, "{absent}");
    }
}

#[test]
fn stated_limit_is_required() {
    let policy = CapabilityPolicy::new().pids(10);
    let plan = Plan::resolve(&spec().memory(ByteSize::mib(64)), &policy).unwrap();
    let level = |capability| plan.demand(capability).unwrap().level;
    assert_eq!(level(Capability::Pids), Level::Required);
    assert_eq!(level(Capability::Memory), Level::Required);
    assert_eq!(level(Capability::Cpus), Level::Wanted);
}

#[test]
fn strict_preset_requires_every_demand() {
    let plan = common::plan(&Preset::Strict.policy()).unwrap();
    assert!(
        plan.demands
            .iter()
            .all(|demand| demand.level == Level::Required)
    );
}

#[test]
fn full_network_demands_no_network_isolation() {
    let policy = CapabilityPolicy::new().network(NetworkPolicy::Full);
    let plan = common::plan(&policy).unwrap();
    assert_eq!(plan.network, NetworkPolicy::Full);
    assert_eq!(plan.demand(Capability::NetworkAccess), None);
}

#[test]
fn specification_cannot_exceed_the_policy() {
    let policy = CapabilityPolicy::new()
        .memory(ByteSize::mib(64))
        .cpus(Cpus::whole(1));
    let plan = Plan::resolve(&spec().memory(ByteSize::mib(32)), &policy).unwrap();
    assert_eq!(
        (plan.memory, plan.cpus),
        (ByteSize::mib(32), Cpus::whole(1))
    );
    let context = exceeds(&spec().memory(ByteSize::mib(65)), &policy);
    assert_eq!(context, "memory: asked for 65MiB, the policy allows 64MiB");
    let context = exceeds(&spec().cpus(Cpus::milli(1001)), &policy);
    assert_eq!(context, "cpus: asked for 1.001, the policy allows 1");
}

#[test]
fn variables_need_permission_of_the_policy() {
    let policy = CapabilityPolicy::new().env_var_access(false);
    assert!(exceeds(&spec().env("TOKEN", "x"), &policy).contains("TOKEN"));
    assert!(Plan::resolve(&spec(), &policy).is_ok());
}

#[test]
fn secrets_outside_the_policy_are_refused() {
    let policy = CapabilityPolicy::new().secret("registry");
    let mut spec = spec();
    spec.secrets = vec!["registry".into()];
    assert_eq!(Plan::resolve(&spec, &policy).unwrap().secrets, ["registry"]);
    spec.secrets.push("root-key".into());
    assert!(exceeds(&spec, &policy).contains("root-key"));
}

#[test]
fn egress_must_be_within_the_policys_network() {
    let rules = |rules: &[&str]| {
        NetworkPolicy::Allow(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    };
    let with = |network| CapabilityPolicy::new().network(network);
    let mut spec = spec();
    spec.egress = Some(vec!["example.org".into()]);
    assert!(exceeds(&spec, &CapabilityPolicy::new()).contains("no network"));
    assert!(exceeds(&spec, &with(rules(&["example.net"]))).contains("example.org"));
    let allowed = with(rules(&["example.org", "example.net"]));
    let plan = Plan::resolve(&spec, &allowed).unwrap();
    assert_eq!(plan.network, rules(&["example.org"]));
    assert_eq!(
        plan.demand(Capability::Egress).unwrap().level,
        Level::Required
    );
    assert_eq!(
        Plan::resolve(&spec, &with(NetworkPolicy::Full))
            .unwrap()
            .network,
        rules(&["example.org"])
    );
    spec.egress = Some(vec!["not a host".into()]);
    let error = Plan::resolve(&spec, &allowed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSpec);
}

#[test]
fn invalid_specification_is_refused_with_its_field() {
    let named = |name: &str| SandboxSpec::new(name);
    let bad = [
        (named(""), "name"),
        (named("-ab"), "name"),
        (named("Ab"), "name"),
        (named("a/b"), "name"),
        (named(&"a".repeat(64)), "name"),
        (spec().env("A=B", "x"), "environment"),
        (spec().env("", "x"), "environment"),
        (spec().env("A", "x\0"), "environment"),
        (spec().workdir("relative"), "working folder"),
        (spec().workdir("/a\0"), "working folder"),
        (spec().image(""), "image"),
        (spec().user("nobody"), "user"),
        (spec().user("1000:"), "user"),
        (spec().user("1:2:3"), "user"),
        (spec().user("-1"), "user"),
        (spec().memory(ByteSize::kib(1023)), "memory"),
        (
            spec().workspace(Workspace::read_write("relative")),
            "workspace",
        ),
        (spec().workspace(Workspace::read_only("/a\0b")), "workspace"),
    ];
    for (spec, field) in bad {
        let error = Plan::resolve(&spec, &CapabilityPolicy::new()).expect_err(field);
        assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        assert!(error.context().starts_with(field), "{error}");
    }
}

#[test]
fn user_is_parsed_as_numbers() {
    let user = |text: &str| {
        Plan::resolve(&spec().user(text), &CapabilityPolicy::new())
            .unwrap()
            .user
    };
    assert_eq!(user("1000"), Some((1000, 1000)));
    assert_eq!(user("1000:100"), Some((1000, 100)));
    assert_eq!(user("root"), Some((0, 0)));
    assert_eq!(common::plan(&CapabilityPolicy::new()).unwrap().user, None);
}

#[test]
fn invalid_policy_is_refused() {
    let policy = CapabilityPolicy::new().timeout(Duration::ZERO);
    assert_eq!(
        common::plan(&policy).unwrap_err().kind(),
        ErrorKind::InvalidPolicy
    );
}

#[test]
fn plan_round_trips_through_json() {
    let policy = CapabilityPolicy::new()
        .network(NetworkPolicy::Allow(vec![
            "*.example.org:8443".parse().unwrap(),
        ]))
        .filesystem_read_root("/data")
        .cpus(Cpus::milli(1501))
        .memory(ByteSize::bytes(123_456_789));
    let spec = SandboxSpec::new("kept")
        .detached(true)
        .env("A", "b\n\"")
        .workspace(Workspace::read_only("/srv"))
        .user("7:8");
    let plan = Plan::resolve(&spec, &policy).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    let more = text.replacen('{', "{\"unknown\":1,", 1);
    assert!(serde_json::from_str::<Plan>(&more).is_err());
}

#[test]
fn lifetime_beyond_the_policys_is_refused() {
    let mut policy = CapabilityPolicy::new();
    policy.lifetime = Some(Duration::from_secs(60));
    let spec = |seconds| {
        let spec = SandboxSpec::new("sb").detached(true);
        spec.lifetime(Duration::from_secs(seconds))
    };
    assert_eq!(
        exceeds(&spec(61), &policy),
        "lifetime: asked for 61s, the policy allows 60s"
    );
    let plan = Plan::resolve(&spec(60), &policy).unwrap();
    assert_eq!(plan.lifetime, Some(Duration::from_secs(60)));
}

#[test]
fn policys_lifetime_is_the_default_and_required() {
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
    let mut policy = CapabilityPolicy::new();
    let attached = SandboxSpec::new("sb");
    let detached = SandboxSpec::new("sb").detached(true);
    let plan = |spec: &SandboxSpec, policy: &CapabilityPolicy| Plan::resolve(spec, policy).unwrap();
    assert_eq!(plan(&attached, &policy).lifetime, None);
    assert_eq!(plan(&detached, &policy).lifetime, hours(1));
    policy.lifetime = hours(8);
    for spec in [attached, detached] {
        let plan = plan(&spec, &policy);
        assert_eq!(plan.lifetime, hours(8));
        let demand = plan.demand(Capability::Lifetime).unwrap();
        assert_eq!((demand.level, &*demand.value), (Level::Required, "28800s"));
    }
}

#[test]
fn file_operations_have_a_time_limit() {
    let mut policy = CapabilityPolicy::new();
    let limit = |policy: &CapabilityPolicy| common::plan(policy).unwrap().file_timeout;
    assert_eq!(limit(&policy), Duration::from_secs(600));
    policy.file_timeout = Some(Duration::from_secs(5));
    assert_eq!(limit(&policy), Duration::from_secs(5));
    // A plan that an earlier version has recorded.
    let mut recorded = serde_json::to_value(common::plan(&policy).unwrap()).unwrap();
    recorded.as_object_mut().unwrap().remove("file_timeout");
    let plan = serde_json::from_value::<Plan>(recorded).unwrap();
    assert_eq!(plan.file_timeout, Duration::from_secs(600));
}
