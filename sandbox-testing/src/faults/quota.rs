//! Storage with quotas: a private engine on its own btrfs.

use std::path::Path;

use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Enforcement, ErrorKind, ExecRequest, SandboxClient,
    SandboxHandle, SandboxSpec,
};

use super::private_engine::{EngineSetup, PrivateEngine, run, spec};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::users::is_root;

pub const TESTS: &[FaultTest] = &[
    (
        "quota::a_layer_over_the_image_is_bounded_by_simple_quotas",
        simple,
    ),
    ("quota::suspended_quotas_are_not_claimed", suspended),
];

/// Why the host has no such storage; `None` where it has.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("only root mounts a file system".into());
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim() == "btrfs") {
        return Some("the kernel has no btrfs".into());
    }
    let programs = ["/usr/sbin/mkfs.btrfs", "/usr/bin/perl"];
    let lacking = programs.iter().find(|path| !Path::new(path).exists());
    lacking.map(|path| format!("no {path}; Debian's package btrfs-progs has what is missing"))
}

/// Mounts a btrfs for the engine's data. The kernel frees it with the engine's mount namespace.
const BTRFS: &str = "truncate -s 2G \"$1/disk\" && mkfs.btrfs -q \"$1/disk\" && mkdir \"$1/data\" \
                     && mount -o loop \"$1/disk\" \"$1/data\"";

/// Enables simple quotas, which do not count shared extents: `BTRFS_IOC_QUOTA_CTL`, for which older
/// versions of `btrfs` have no option.
const SIMPLE_QUOTAS: &str = r#"perl -e 'open(F, "<", $ARGV[0]) or die $!; my $enable = pack("QQ", 4, 0); ioctl(F, 0xC0109428, $enable) or die $!' "$1/data""#;

fn setup(quotas: Option<&str>) -> EngineSetup {
    let script = [Some(BTRFS), quotas].into_iter().flatten();
    EngineSetup {
        arguments: &["--storage-driver", "btrfs"],
        script: script.collect::<Vec<_>>().join(" && "),
    }
}

/// A client that requires a limit of 64 MiB: 8 are shared memory, and the layer and `/tmp` have
/// half of the rest each.
fn client(engine: &PrivateEngine) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.disk = Some(ByteSize::mib(64));
    engine.client_under(engine.config(), policy)
}

/// How many MiB code can write to a file.
async fn writable_mebibytes(sandbox: &SandboxHandle, path: &str) -> sandbox_core::Result<u64> {
    let script = format!(
        "dd if=/dev/urandom of={path} bs=1M count=100 2>/dev/null; stat -c %s {path}; rm {path}"
    );
    let result = sandbox.exec(&ExecRequest::shell(script)).await?;
    let bytes = result.stdout_text().trim().parse::<u64>();
    Ok(bytes.expect("a number of bytes") >> 20)
}

/// A check makes no container, so that it cannot know what the storage bounds.
async fn assert_not_measured(
    client: &SandboxClient,
    spec: &SandboxSpec,
) -> sandbox_core::Result<()> {
    let support = client.check(spec).await?;
    let unmet = support.unmet();
    let disk = support.report.get(Capability::Disk).expect("an entry");
    assert!(
        matches!(disk, Enforcement::Partial { gap, .. } if gap.contains("not measured")),
        "{disk}"
    );
    assert!(
        unmet
            .iter()
            .any(|unmet| unmet.demand.capability == Capability::Disk),
        "{unmet:?}"
    );
    Ok(())
}

fn simple(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start_with(launcher, setup(Some(SIMPLE_QUOTAS))).await;
        let client = client(&engine);
        let spec = || spec().writable_root(true);
        assert_not_measured(&client, &spec()).await?;
        // A second sandbox as well: the kernel suspends other kinds of quotas when it removes the
        // first layer.
        for _ in 0..2 {
            let sandbox = client.create(&spec()).await?;
            let disk = sandbox.enforcement().get(Capability::Disk);
            let disk = disk.expect("an entry").to_string();
            assert!(
                disk.contains("enforced") && disk.contains("28MiB"),
                "{disk}"
            );
            let writable = writable_mebibytes(&sandbox, "/workspace/big").await?;
            assert!(
                (20..=28).contains(&writable),
                "{writable} MiB in a layer of 28"
            );
            // The space of removed files can be used again.
            let result = sandbox.shell("echo fine > /workspace/small").await?;
            assert!(result.success(), "{result:?}");
            sandbox.kill().await?;
        }
        let images = engine.api().list_images(None::<All>).await;
        let images = images.expect("a list").len();
        assert_eq!(images, 1, "the image of the backend's quota check is left");
        Ok(())
    })
}

type All = bollard::query_parameters::ListImagesOptions;

fn suspended(launcher: &'static dyn EngineLauncher) -> TestResult {
    run(async {
        let engine = PrivateEngine::start_with(launcher, setup(None)).await;
        let client = client(&engine);
        let spec = spec().writable_root(true);
        assert_not_measured(&client, &spec).await?;
        let refused = client.create(&spec).await.expect_err("it is required");
        assert_eq!(refused.kind(), ErrorKind::NotEnforceable);
        assert!(refused.to_string().contains("simple"), "{refused}");
        // Without the requirement, the sandbox is created without a quota.
        let sandbox = engine.client().create(&spec).await?;
        let result = sandbox.shell("echo fine > /workspace/small").await?;
        assert!(result.success(), "{result:?}");
        sandbox.kill().await
    })
}
