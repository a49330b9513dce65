//! Storage with quotas: an engine on a btrfs of its own. That of the machine's engines has none.

use std::path::Path;

use libtest_mimic::Failed;
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, Enforcement, ErrorKind, ExecRequest, SandboxClient,
    SandboxHandle, SandboxSpec,
};

use super::Test;
use super::engine::{Engine, Setup, client_under, is_root, run, spec};

pub const TESTS: &[Test] = &[
    (
        "quota::a_layer_over_the_image_is_bounded_by_simple_quotas",
        simple,
    ),
    (
        "quota::quotas_that_the_kernel_suspends_are_not_claimed",
        suspended,
    ),
];

/// Why there is no such storage here; `None` where there is.
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

/// A file system for the engine's data, of which nothing is left once the engine's mounts go.
const BTRFS: &str = "truncate -s 2G \"$1/disk\" && mkfs.btrfs -q \"$1/disk\" && mkdir \"$1/data\" \
                     && mount -o loop \"$1/disk\" \"$1/data\"";

/// Turns quotas on that count what was written and nothing that is shared: `BTRFS_IOC_QUOTA_CTL`, for which older programs have no
/// option.
const SIMPLE_QUOTAS: &str = r#"perl -e 'open(F, "<", $ARGV[0]) or die $!; my $enable = pack("QQ", 4, 0); ioctl(F, 0xC0109428, $enable) or die $!' "$1/data""#;

fn setup(quotas: Option<&str>) -> Setup {
    let script = [Some(BTRFS), quotas].into_iter().flatten();
    Setup {
        arguments: &["--storage-driver", "btrfs"],
        script: script.collect::<Vec<_>>().join(" && "),
    }
}

/// A client who insists on 64 MiB: 8 of them are shared memory, and the layer and `/tmp` have half of the rest each.
fn client(engine: &Engine) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.disk = Some(ByteSize::mib(64));
    client_under(engine.config(), policy)
}

/// How many MiB code can write to a file.
async fn room(sandbox: &SandboxHandle, path: &str) -> sandbox_core::Result<u64> {
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
    let (_, report, unmet) = client.check(spec).await?;
    let disk = report.get(Capability::Disk).expect("an entry");
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

fn simple() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start_with(setup(Some(SIMPLE_QUOTAS))).await;
        let client = client(&engine);
        let spec = || spec().writable_root(true);
        assert_not_measured(&client, &spec()).await?;
        // A second one, after the first has gone: other quotas are off by then.
        for _ in 0..2 {
            let sandbox = client.create(&spec()).await?;
            let disk = sandbox.enforcement().get(Capability::Disk);
            let disk = disk.expect("an entry").to_string();
            assert!(
                disk.contains("enforced") && disk.contains("28MiB"),
                "{disk}"
            );
            let room = room(&sandbox, "/workspace/big").await?;
            assert!((20..=28).contains(&room), "{room} MiB in a layer of 28");
            // What was removed can be written again, and the sandbox goes on.
            let result = sandbox.shell("echo fine > /workspace/small").await?;
            assert!(result.ok(), "{result:?}");
            sandbox.kill().await?;
        }
        let images = engine.api().list_images(None::<All>).await;
        let images = images.expect("a list").len();
        assert_eq!(images, 1, "the trial has left its image");
        Ok(())
    })
}

type All = bollard::query_parameters::ListImagesOptions;

fn suspended() -> Result<(), Failed> {
    run(async {
        let engine = Engine::start_with(setup(None)).await;
        let client = client(&engine);
        let spec = spec().writable_root(true);
        assert_not_measured(&client, &spec).await?;
        let refused = client.create(&spec).await.expect_err("it is required");
        assert_eq!(refused.kind(), ErrorKind::NotEnforceable);
        assert!(refused.to_string().contains("simple"), "{refused}");
        // Who does not insist gets it, without the engine's quota.
        let sandbox = engine.client().create(&spec).await?;
        let result = sandbox.shell("echo fine > /workspace/small").await?;
        assert!(result.ok(), "{result:?}");
        sandbox.kill().await
    })
}
