use insta::{Settings, assert_json_snapshot};
use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

use super::samples::plan;
use super::*;
use crate::engine::EngineFacts;
use crate::family::samples::{OTHER, TIER};
use crate::folders::HostFolders;
use crate::options::{EngineOptions, Ulimit};
use crate::quota::LayerQuota;

fn tightened(
    tier: Tier,
    facts: &EngineFacts,
    spec: &SandboxSpec,
    options: EngineOptions,
) -> Result<ContainerCreateBody> {
    tightened_beside(tier, facts, spec, options, &DefaultPaths::default())
}

/// On an engine that hides these paths by default.
fn tightened_beside(
    tier: Tier,
    facts: &EngineFacts,
    spec: &SandboxSpec,
    options: EngineOptions,
    default_paths: &DefaultPaths,
) -> Result<ContainerCreateBody> {
    let plan = plan(spec, &CapabilityPolicy::new());
    let image = ImageFacts::default();
    let inputs = SpecInputs {
        tier,
        facts,
        image: &image,
        volume: "sandbox-agent-0123",
        runtime: None,
        hidden: &[],
        network: None,
        profile: None,
        default_paths,
        folders: &HostFolders::default(),
        options: &options,
        name_files: None,
        user_mounts: &[],
    };
    let identity = CodeIdentity::unmapped((1000, 1000));
    let lowered = confined(
        &plan,
        &inputs,
        &StorageSplit::new(&plan, &[], &LayerQuota::NotNeeded),
        identity,
    )?;
    Ok(lowered.body)
}

/// The refusal's message; empty if the options were accepted.
fn refusal(tier: Tier, options: EngineOptions) -> String {
    let facts = EngineFacts::sample();
    match tightened(tier, &facts, &SandboxSpec::new("sb"), options) {
        Ok(_) => String::new(),
        Err(error) => {
            assert!(error.fix().is_some(), "{error}");
            error.context().to_owned()
        }
    }
}

fn everything() -> EngineOptions {
    EngineOptions::default()
        .ulimit(Ulimit::FileSize, 1 << 20)
        .ulimit(Ulimit::OpenFiles, 512)
        .apparmor("sandboxes")
        .selinux_level("s0:c100,c200")
        .masked_path("/proc/zoneinfo")
        .processors("0-1")
        .memory_nodes("0")
        .cpu_shares(512)
        .io_weight(100)
        .oom_score_adj(500)
        .hostname("grader")
}

#[test]
fn default_hidden_paths_of_the_engine_stay_hidden() {
    let options = EngineOptions {
        masked_paths: ["/srv".to_owned()].into(),
        ..EngineOptions::default()
    };
    let thermal = "/sys/devices/system/cpu/cpu0/thermal_throttle";
    let default_paths = DefaultPaths {
        masked: vec!["/proc/kcore".into(), thermal.into()],
        read_only: vec!["/proc/new".into()],
    };
    let spec = SandboxSpec::new("sb");
    let body = tightened_beside(TIER, &EngineFacts::sample(), &spec, options, &default_paths);
    let host = body.expect("tightened").host_config.expect("options");
    let masked = host.masked_paths.expect("a list");
    for path in ["/srv", thermal, "/proc/keys"] {
        assert!(masked.iter().any(|it| it == path), "{path} in {masked:?}");
    }
    let twice = masked.iter().filter(|it| *it == "/proc/kcore").count();
    assert_eq!(twice, 1, "{masked:?}");
    assert_eq!(host.readonly_paths, None, "the engine's own apply");
}

#[test]
fn every_option_on_both_families() {
    let facts = EngineFacts {
        apparmor: true,
        selinux: true,
        ..EngineFacts::sample()
    };
    let spec = SandboxSpec::new("sb");
    let mut settings = Settings::clone_current();
    settings.set_sort_maps(true);
    let _sorted = settings.bind_to_scope();
    let options = everything().read_only_path("/proc/tty");
    let body = tightened(TIER, &facts, &spec, options).expect("lowered");
    assert_eq!(body.hostname.as_deref(), Some("grader"));
    settings.bind(|| assert_json_snapshot!("every_option_as_lists", body.host_config));
    let options = everything().private_users();
    let body = tightened(OTHER.confined(), &facts, &spec, options).expect("lowered");
    settings.bind(|| assert_json_snapshot!("every_option_as_masks", body.host_config));
}

#[test]
fn options_that_loosen_are_refused() {
    let none = EngineOptions::default;
    for options in [
        none().ulimit(Ulimit::OpenFiles, 1 << 20),
        none().ulimit(Ulimit::OpenFiles, 8),
        none().ulimit(Ulimit::Processes, 1 << 20),
        none().ulimit(Ulimit::MessageQueues, 1 << 30),
        none().ulimit(Ulimit::LockedMemory, u64::MAX),
        none().ulimit(Ulimit::Stack, 1),
        none().apparmor("unconfined"),
        none().apparmor("a,b"),
        none().apparmor(""),
        none().selinux_level("s0"),
        none().selinux_level("s0-s0:c0.c1023"),
        none().selinux_level("s0:c0.c1023"),
        none().masked_path("proc/zoneinfo"),
        none().masked_path("/"),
        none().masked_path("/a:/b"),
        none().masked_path("/a/../b"),
        none().masked_path("/.sandbox-agent"),
        none().masked_path("/.sandbox-agent/agent"),
        none().read_only_path("x"),
        none().processors(""),
        none().processors("all"),
        none().processors("0-"),
        none().memory_nodes("0;1"),
        none().cpu_shares(2048),
        none().cpu_shares(1),
        none().io_weight(501),
        none().io_weight(1),
        none().oom_score_adj(1001),
        none().hostname("a b"),
        none().hostname(""),
        none().hostname("-x"),
    ] {
        let words = refusal(TIER, options.clone());
        assert!(words.starts_with("engine option"), "{options:?}: {words:?}");
        assert!(!words.contains('\n'), "{words:?}");
    }
    assert_eq!(refusal(TIER, none()), "");
}

#[test]
fn options_that_the_engine_lacks_are_refused() {
    let none = EngineOptions::default;
    for (tier, options) in [
        (TIER, none().apparmor("sandboxes")),
        (TIER, none().selinux_level("s0:c1")),
        (TIER, none().private_users()),
        (OTHER.confined(), none().read_only_path("/proc/tty")),
    ] {
        assert_ne!(refusal(tier, options.clone()), "", "{options:?}");
    }
    let facts = EngineFacts {
        cpu_quota: false,
        cpuset: false,
        ..EngineFacts::sample()
    };
    let spec = SandboxSpec::new("sb");
    for options in [
        none().cpu_shares(2),
        none().io_weight(10),
        none().processors("0"),
    ] {
        assert!(
            tightened(TIER, &facts, &spec, options.clone()).is_err(),
            "{options:?}"
        );
    }
}

#[test]
fn private_users_are_refused_with_writable_host_folders() {
    let options = EngineOptions::default().private_users();
    let facts = EngineFacts::sample();
    let spec = SandboxSpec::new("sb").workspace(Workspace::read_write("/home/me/work"));
    assert!(tightened(OTHER.confined(), &facts, &spec, options).is_err());
}

#[test]
fn limits_are_capped_by_the_engines_hard_limits() {
    let mut facts = EngineFacts::sample();
    facts.hard_limits.open_files = Some(4000);
    facts.hard_limits.processes = Some(300);
    let spec = SandboxSpec::new("sb");
    let body = tightened(TIER, &facts, &spec, EngineOptions::default()).expect("lowered");
    let ulimits = body
        .host_config
        .and_then(|host| host.ulimits)
        .expect("limits");
    let ulimits = ulimits
        .into_iter()
        .map(|limit| (limit.name.unwrap_or_default(), limit.hard));
    assert_eq!(
        ulimits.collect::<Vec<_>>(),
        [("core", 1), ("nofile", 4000), ("nproc", 300)].map(|(n, h)| (n.to_owned(), Some(h)))
    );
}
