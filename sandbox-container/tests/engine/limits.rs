//! Limits: each stops what goes beyond, says so, and leaves the sandbox alive.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, DenialKind, ErrorKind, ExecRequest, ExecResult,
    Outcome, SandboxHandle,
};

use crate::family;
use crate::suite::Test;
use crate::suite::abilities::without_limits;
use crate::suite::engine::{client, output, run, sandbox, shell, spec};

pub const TESTS: &[Test] = &[
    ("limits::memory_kills_are_told_apart", memory),
    ("limits::a_timeout_kills_the_tree", timeout),
    ("limits::the_disk_is_bounded_in_all", disk),
    ("limits::empty_files_are_bounded", empty_files),
    ("limits::a_fork_bomb_is_stopped", pids),
    ("limits::what_is_not_limited_is_refused", refused),
    ("limits::output_is_cut_at_its_cap", output_cap),
    ("limits::open_files", open_files),
    (
        "limits::a_process_that_holds_the_output_open_does_not_stall",
        stragglers,
    ),
];

fn memory() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let sandbox = client.create(&spec().memory(ByteSize::mib(64))).await?;
        memory_kills_are_told_apart(&sandbox).await?;
        if family::LIMITS_SWAP {
            let file = "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes";
            if let Ok(limit) = sandbox.fetch(file, 64).await {
                let limit = String::from_utf8_lossy(&limit).trim().to_owned();
                assert_eq!(limit, (64 << 20).to_string(), "swap counts into the limit");
            }
        }
        sandbox.kill().await
    })
}

/// How many kills for memory an execution was told of.
fn memory_kills(result: &ExecResult) -> u64 {
    let denials = result.denials.as_slice().iter();
    denials
        .filter(|denial| denial.kind == DenialKind::Memory)
        .map(|denial| denial.times)
        .sum()
}

/// In a sandbox of 64 MiB: a kill for memory belongs to the executions that ran when it happened, whatever they made of it, and to none
/// that comes later.
pub async fn memory_kills_are_told_apart(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    // Nothing is looked at between the two: what the first one has kept for itself must not be the second one's.
    let own_signal = async || {
        let killed = shell(sandbox, "kill -9 $$").await?;
        let signaled = Outcome::Signaled { signal: 9 };
        assert_eq!(killed.outcome, signaled, "{killed:?}");
        assert_eq!(memory_kills(&killed), 0, "{killed:?}");
        sandbox_core::Result::Ok(())
    };
    own_signal().await?;
    for _ in 0..2 {
        let hungry = ExecRequest::new("tail").arg("/dev/zero");
        let hungry = sandbox.exec(&hungry).await?;
        assert_eq!(hungry.outcome, Outcome::OutOfMemory, "{hungry:?}");
        assert_eq!(memory_kills(&hungry), 1, "{hungry:?}");
        own_signal().await?;
    }
    let swallowing = "tail /dev/zero; echo child ended with $?";
    for _ in 0..2 {
        let child = shell(sandbox, swallowing).await?;
        assert_eq!(child.stdout_text(), "child ended with 137\n", "{child:?}");
        assert_eq!(memory_kills(&child), 1, "{child:?}");
        own_signal().await?;
    }
    // The kernel counts for all together: whoever ran is told.
    let neighbour = "touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.1; done";
    let inner = async {
        shell(sandbox, "until [ -e /tmp/up ]; do sleep 0.1; done").await?;
        let child = shell(sandbox, swallowing).await?;
        assert_eq!(memory_kills(&child), 1, "{child:?}");
        own_signal().await?;
        shell(sandbox, "touch /tmp/go").await
    };
    let (neighbour, inner) = tokio::join!(shell(sandbox, neighbour), inner);
    inner?;
    let neighbour = neighbour?;
    assert!(neighbour.ok(), "{neighbour:?}");
    assert_eq!(memory_kills(&neighbour), 1, "{neighbour:?}");
    own_signal().await
}

fn timeout() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let script = "trap '' TERM; echo first; setsid sh -c 'trap \"\" TERM; sleep 1001' & \
                      (setsid sleep 1002 &) ; sleep 1003";
        let request = ExecRequest::shell(script).timeout(Duration::from_millis(400));
        let start = Instant::now();
        let result = sandbox.exec(&request).await?;
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert_eq!(result.stdout_text(), "first\n");
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "{:?}",
            start.elapsed()
        );
        let left = output(
            &sandbox,
            "ps | grep 'sleep 100[0-9]' | grep -v grep || true",
        )
        .await?;
        assert_eq!(left, "");
        sandbox.kill().await
    })
}

fn disk() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(16));
        // Of empty files, which the next test is about.
        policy.allow_partial.push(Capability::Disk);
        let sandbox = client(policy).create(&spec()).await?;
        let fill = |place: &str| format!("dd if=/dev/zero of={place}/big bs=64k count=512 2>&1");
        for place in ["/tmp", "/workspace", "/dev/shm"] {
            let result = shell(&sandbox, &fill(place)).await?;
            assert!(
                result.output().contains("No space left"),
                "{place}: {result:?}"
            );
        }
        let script = "cat /tmp/big /workspace/big /dev/shm/big | wc -c";
        let written: u64 = output(&sandbox, script)
            .await?
            .trim()
            .parse()
            .expect("a number");
        assert!(written <= 16 << 20, "{written}");
        assert!(written >= 12 << 20, "{written}");
        sandbox.kill().await
    })
}

/// By the storage itself where the engine takes a bound on its inodes, else by the memory, which the kernel counts them into.
fn empty_files() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(16));
        policy.allow_partial.push(Capability::Disk);
        let spec = spec().memory(ByteSize::mib(32));
        let sandbox = client(policy).create(&spec).await?;
        if family::BOUNDS_EMPTY_FILES {
            let script = "cd /tmp; seq 1 9999 | xargs touch 2>/dev/null; ls | wc -l";
            let made = output(&sandbox, script).await?;
            let made: u64 = made.trim().parse().expect("a number");
            assert!((1000..=4096).contains(&made), "{made} empty files");
        } else {
            // At 500 bytes each, less than the kernel needs for one, these are more than the memory.
            let script = "cd /tmp; seq 1 70000 | xargs touch";
            let result = shell(&sandbox, script).await?;
            assert!(!result.ok(), "{result:?}");
            let killed = result.outcome == Outcome::OutOfMemory || !result.denials.is_empty();
            assert!(killed, "{result:?}");
        }
        sandbox.kill().await
    })
}

fn pids() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.pids = Some(20);
        // Where it counts for code's user alone.
        policy.allow_partial.push(Capability::Pids);
        let sandbox = client(policy).create(&spec()).await?;
        let script = "i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i+1)); done; echo all";
        let result = shell(&sandbox, script).await?;
        assert!(!result.stdout_text().contains("all"), "{result:?}");
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        sandbox.kill().await
    })
}

/// Where an engine has no limits. Where it has them, they are accepted, and work by the other tests.
fn refused() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let limited = client.create(&spec().memory(ByteSize::mib(64))).await;
        if without_limits().await.is_none() {
            return limited?.kill().await;
        }
        let error = limited.expect_err("a limit that was written");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let sandbox = client.create(&spec()).await?;
        let entry = sandbox.enforcement().get(Capability::Memory);
        assert_eq!(entry.map(|entry| entry.status()), Some("unenforced"));
        let killed = shell(&sandbox, "kill -9 $$").await?;
        assert_eq!(
            killed.outcome,
            Outcome::Signaled { signal: 9 },
            "no kill for memory: {killed:?}"
        );
        sandbox.kill().await
    })
}

fn output_cap() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.stdout_max_bytes = Some(ByteSize::kib(64));
        let sandbox = client(policy).create(&spec()).await?;
        let result = shell(&sandbox, "yes | head -c 200000").await?;
        assert_eq!(result.stdout.bytes.len(), 64 * 1024);
        assert_eq!(result.stdout.total, 200_000);
        let endless = sandbox.exec(&ExecRequest::new("yes")).await?;
        assert_eq!(endless.outcome, Outcome::OutputLimit);
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        sandbox.kill().await
    })
}

fn open_files() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.open_files = Some(32);
        let sandbox = client(policy).create(&spec()).await?;
        assert_eq!(
            output(&sandbox, "ulimit -n; ulimit -Hn; ulimit -c").await?,
            "32\n32\n0\n"
        );
        sandbox.kill().await
    })
}

fn stragglers() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let start = Instant::now();
        let result = shell(&sandbox, "(setsid sleep 60 &) ; echo done").await?;
        assert!(
            result.ok() && start.elapsed() < Duration::from_secs(3),
            "{result:?}"
        );
        assert_eq!(result.stdout_text(), "done\n");
        assert!(result.stragglers > 0, "{result:?}");
        sandbox.kill().await
    })
}
