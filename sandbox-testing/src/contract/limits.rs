//! Limits: each stops what exceeds it, reports that, and leaves the sandbox usable.

use std::time::{Duration, Instant};

use sandbox_core::{
    ByteSize, Capability, CapabilityPolicy, DenialKind, ErrorKind, ExecRequest, ExecResult,
    Outcome, SandboxHandle,
};

use super::{ContractTest, TestBackend, TestResult, output, run, shell};

pub const TESTS: &[ContractTest] = &[
    ("limits::memory_kills_are_attributed_to_executions", memory),
    ("limits::a_timeout_kills_the_tree", timeout),
    ("limits::empty_files_are_bounded", empty_files),
    ("limits::unenforceable_limits_are_refused", refused),
];

fn memory(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client
            .create(&backend.spec().memory(ByteSize::mib(64)))
            .await?;
        assert_memory_kills_are_attributed(&sandbox).await?;
        sandbox.kill().await
    })
}

/// How many memory kills an execution reports.
fn memory_kills(result: &ExecResult) -> u64 {
    let denials = result.denials.as_slice().iter();
    denials
        .filter(|denial| denial.kind == DenialKind::Memory)
        .map(|denial| denial.times)
        .sum()
}

/// Asserts, in a sandbox of 64 MiB, that a memory kill is reported by the executions that ran at
/// that time, whatever their outcome, and by no later one.
pub async fn assert_memory_kills_are_attributed(
    sandbox: &SandboxHandle,
) -> sandbox_core::Result<()> {
    // Nothing reads the counters in between: the second execution must not report the first one's
    // kills.
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
    // The kernel counts kills per sandbox, so all running executions report them.
    let neighbor = "touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.1; done";
    let inner = async {
        shell(sandbox, "until [ -e /tmp/up ]; do sleep 0.1; done").await?;
        let child = shell(sandbox, swallowing).await?;
        assert_eq!(memory_kills(&child), 1, "{child:?}");
        own_signal().await?;
        shell(sandbox, "touch /tmp/go").await
    };
    let (neighbor, inner) = tokio::join!(shell(sandbox, neighbor), inner);
    inner?;
    let neighbor = neighbor?;
    assert!(neighbor.success(), "{neighbor:?}");
    assert_eq!(memory_kills(&neighbor), 1, "{neighbor:?}");
    own_signal().await
}

fn timeout(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = backend.sandbox().await?;
        let script = "trap '' TERM; echo first; setsid sh -c 'trap \"\" TERM; sleep 1001' & \
                      (setsid sleep 1002 &) ; sleep 1003";
        let request = ExecRequest::shell(script).timeout(Duration::from_secs(1));
        let start = Instant::now();
        let result = sandbox.exec(&request).await?;
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert_eq!(result.stdout_text(), "first\n");
        assert!(
            start.elapsed() < Duration::from_secs(20),
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

/// The storage limits the number of inodes, or the memory limit does: the kernel charges inodes to
/// it.
fn empty_files(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(16));
        policy.allow_partial.push(Capability::Disk);
        let spec = backend.spec().memory(ByteSize::mib(32));
        let sandbox = backend.client(policy).create(&spec).await?;
        if backend.expectations().bounds_empty_files {
            let script = "cd /tmp; seq 1 9999 | xargs touch 2>/dev/null; ls | wc -l";
            let made = output(&sandbox, script).await?;
            let made: u64 = made.trim().parse().expect("a number");
            assert!((1000..=4096).contains(&made), "{made} empty files");
        } else {
            // At 500 bytes each, less than the kernel needs, these exceed the memory limit.
            let script = "cd /tmp; seq 1 70000 | xargs touch";
            let result = shell(&sandbox, script).await?;
            assert!(!result.success(), "{result:?}");
            let killed = result.outcome == Outcome::OutOfMemory || !result.denials.is_empty();
            assert!(killed, "{result:?}");
        }
        sandbox.kill().await
    })
}

/// A backend that cannot enforce limits refuses them. Where it can, the other tests show that it
/// accepts them.
fn refused(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        if backend.unenforceable_limits().await.is_none() {
            return Ok(());
        }
        let client = backend.client(CapabilityPolicy::new());
        let limited = client
            .create(&backend.spec().memory(ByteSize::mib(64)))
            .await;
        let error = limited.expect_err("a limit that was written");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let sandbox = client.create(&backend.spec()).await?;
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
