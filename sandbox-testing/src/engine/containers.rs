//! Sandboxes as the engine's API shows them: their options, what is stored, and when they are
//! removed.

use std::time::{Duration, Instant};

use bollard::query_parameters::RemoveImageOptions;
use sandbox_core::spi::unique_name;
use sandbox_core::{ByteSize, Capability, CapabilityPolicy, EnforcementReport, SandboxClient};

use super::owner;
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestBackend, TestResult, client_of, output, run, shell};

pub const TESTS: &[EngineTest] = &[
    (
        "isolation::volumes_of_the_image_cannot_be_written",
        image_volumes,
    ),
    ("isolation::nothing_of_the_stream_is_logged", no_log),
    (
        "isolation::the_unsafe_tier_is_the_engines_default",
        unsafe_tier,
    ),
    ("lifetime::a_killed_owner_leaves_nothing", owner_killed),
    ("limits::a_share_below_a_page_has_a_bound", small_disk),
    ("check::makes_no_container", check_makes_nothing),
];

fn small_disk(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::bytes(4096));
        let error = engine.client(policy.clone()).create(&engine.spec()).await;
        let error = error.expect_err("each place has a page").to_string();
        assert!(error.contains("at least a page"), "{error}");
        policy.allow_partial.push(Capability::Disk);
        let sandbox = engine.client(policy).create(&engine.spec()).await?;
        for place in ["/tmp", "/workspace", "/dev/shm"] {
            let fill = format!("dd if=/dev/zero of={place}/big bs=4k count=16 2>&1");
            let filled = shell(&sandbox, &fill).await?;
            let printed = filled.output();
            assert!(printed.contains("No space left"), "{place}: {filled:?}");
        }
        sandbox.kill().await
    })
}

/// `check` makes no container, also where only a container shows whether the engine's storage has
/// quotas.
fn check_makes_nothing(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.allow_partial.push(Capability::Disk);
        let client = engine.client(policy);
        let spec = engine.spec().writable_root(true);
        let disk_report = |report: &EnforcementReport| {
            let disk = report.get(Capability::Disk).expect("an entry");
            disk.to_string()
        };
        let report = client.check(&spec).await?.report;
        let before = disk_report(&report);
        let unmeasured = before.contains("not measured");
        let hopeless = before.contains("has no quotas;");
        assert!(unmeasured || hopeless, "{before}");
        let sandbox = client.create(&spec).await?;
        let measured = disk_report(sandbox.enforcement());
        assert!(!measured.contains("not measured"), "{measured}");
        sandbox.kill().await?;
        let report = client.check(&spec).await?.report;
        assert_eq!(disk_report(&report), measured, "what was measured is known");
        Ok(())
    })
}

fn image_volumes(engine: &'static TestEngine) -> TestResult {
    run(async {
        let api = engine.api();
        let image = engine.image_of(BUSYBOX, "true", "VOLUME /home").await;
        let client = engine.client(CapabilityPolicy::new());
        let sandbox = client.create(&engine.spec().image(&image)).await?;
        let id = format!("sandbox-{}", sandbox.name());
        let container = api.inspect_container(&id, None).await.expect("container");
        let result = shell(&sandbox, "ls -d /home && echo x > /home/x").await;
        sandbox.kill().await?;
        api.remove_image(&image, None::<RemoveImageOptions>, None)
            .await
            .expect("image");
        let result = result?;
        assert!(
            !result.success() && result.stderr_text().contains("Read-only"),
            "{result:?}"
        );
        let volumes = container
            .mounts
            .into_iter()
            .flatten()
            .filter_map(|mount| mount.name);
        let volumes = volumes.collect::<Vec<_>>();
        assert!(
            volumes
                .iter()
                .all(|name| name.starts_with("sandbox-agent-")),
            "{volumes:?}"
        );
        Ok(())
    })
}

fn no_log(engine: &'static TestEngine) -> TestResult {
    run(async {
        let sandbox = engine.sandbox().await?;
        let canary = "canary-3f9a1b7c";
        output(&sandbox, &format!("echo {canary}")).await?;
        let id = format!("sandbox-{}", sandbox.name());
        let container = engine
            .api()
            .inspect_container(&id, None)
            .await
            .expect("container");
        let log = container
            .host_config
            .and_then(|host| host.log_config)
            .and_then(|log| log.typ);
        assert_eq!(log.as_deref(), Some("none"));
        assert_eq!(container.log_path.unwrap_or_default(), "");
        let info = engine.api().info().await.expect("info");
        let folder = std::path::PathBuf::from(info.docker_root_dir.expect("root folder"))
            .join("containers")
            .join(container.id.expect("id"));
        let files = std::fs::read_dir(&folder);
        for file in files
            .into_iter()
            .flatten()
            .flatten()
            .filter(|file| file.path().is_file())
        {
            let content = std::fs::read(file.path()).expect("a file of the engine");
            let found = content
                .windows(canary.len())
                .any(|part| part == canary.as_bytes());
            assert!(
                !found,
                "{} holds what the sandbox wrote",
                file.path().display()
            );
        }
        sandbox.kill().await
    })
}

fn unsafe_tier(engine: &'static TestEngine) -> TestResult {
    run(async {
        let backend = engine.backend_without_policy(engine.config());
        let client: SandboxClient = client_of(backend, everything_allowed());
        let sandbox = client.create(&engine.spec()).await?;
        assert_eq!(sandbox.tier(), engine.family.unsafe_tier);
        assert_eq!(
            output(&sandbox, "id -u; echo x > /etc/x; cat /etc/x; pwd").await?,
            "0\nx\n/workspace\n"
        );
        assert!(sandbox.enforcement().enforced_capabilities().is_empty());
        sandbox.kill().await
    })
}

/// A policy that accepts that nothing is enforced.
pub fn everything_allowed() -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.allow_unenforced = Capability::ALL
        .iter()
        .copied()
        .filter(|c| !matches!(c, Capability::StdoutMaxBytes | Capability::StderrMaxBytes))
        .collect();
    policy
}

fn owner_killed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let name = unique_name("owned");
        let container = format!("sandbox-{name}");
        let mut owner = owner::start(&name);
        assert!(engine.exists(&container).await);
        let start = Instant::now();
        owner.kill();
        engine
            .wait_removed(&container, Duration::from_secs(20))
            .await;
        eprintln!("owner killed: container gone after {:?}", start.elapsed());
        Ok(())
    })
}
