//! Resource limits.

use std::time::{Duration, Instant};

use sandbox_core::{ByteSize, Capability, ExecRequest, Outcome};
use sandbox_testing::processes;
use sandbox_testing::wait::wait_until;

use crate::harness::{Need, Test, test};

use crate::support::{create, enforced, namespaces, policy, run, sh};

pub const TESTS: &[Test] = &[
    test!(async exceeding_memory_is_an_outcome),
    test!(async memory_limit_covers_all_processes),
    test!(async fork_bomb_is_limited),
    test!(async timeout_ends_the_whole_tree),
    test!(async disk_limit_covers_all_folders, Need::Namespaces),
    test!(async number_of_empty_files_is_limited, Need::Namespaces),
    test!(async minimal_limits_are_enforced),
    test!(async stats_have_the_peak_of_memory, Need::Enforced(Capability::Memory)),
];

async fn stats_have_the_peak_of_memory() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(128));
    let sandbox = create(policy).await;
    let stats = sandbox.stats().await.expect("the sandbox works");
    assert!(stats.memory_peak.is_some(), "{stats:?}");
    // The host sees no connections without rules for them.
    assert_eq!((stats.egress_sent, stats.egress_received), (None, None));
}

async fn exceeding_memory_is_an_outcome() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let sandbox = create(policy).await;
    // This program keeps an endless line in memory.
    let hungry = ExecRequest::new("tail")
        .arg("/dev/zero")
        .timeout(Duration::from_secs(20));
    let result = sandbox.exec(&hungry).await.expect("it runs");
    if enforced(&sandbox, Capability::Memory) {
        assert_eq!(result.outcome, Outcome::OutOfMemory);
    } else {
        assert!(
            !matches!(result.outcome, Outcome::TimedOut),
            "{:?}",
            result.outcome
        );
        assert!(!result.success());
    }
    // The sandbox can still be used.
    let result = sandbox.exec(&sh("echo still here")).await.expect("it runs");
    assert_eq!(result.stdout_text(), "still here\n");
}

async fn memory_limit_covers_all_processes() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    policy.disk = Some(ByteSize::mib(16));
    let sandbox = create(policy).await;
    // Each takes less memory than the limit, and keeps it until enough were killed.
    let script = "import os, time
read, write = os.pipe()
for i in range(6):
    if os.fork() == 0:
        os.close(write)
        data = bytearray(os.urandom(1)) * (24 << 20)
        os.read(read, 1)
        os._exit(0)
codes, end = [], time.monotonic() + 10
def killed(): return sum(1 for code in codes if code & 127 == 9)
while killed() < 3 and time.monotonic() < end:
    process, code = os.waitpid(-1, os.WNOHANG)
    if process: codes.append(code)
    else: time.sleep(0.02)
os.close(write)
while len(codes) < 6: codes.append(os.wait()[1])
print(killed())";
    let python = ExecRequest::new("python3")
        .arg("-c")
        .arg(script)
        .timeout(Duration::from_secs(30));
    let result = sandbox.exec(&python).await.expect("it runs");
    match result.outcome {
        Outcome::Exited { code: 0 } => {
            let killed = result
                .stdout_text()
                .trim()
                .parse::<u32>()
                .expect("a number");
            assert!(killed >= 3, "{killed} were killed");
        }
        // The kernel may also kill the first one.
        Outcome::OutOfMemory => {}
        ref other => panic!("{other:?} {}", result.stderr_text()),
    }
}

async fn fork_bomb_is_limited() {
    let mut policy = policy();
    policy.pids = Some(24);
    let sandbox = create(policy).await;
    let script = "i=0; while [ $i -lt 100 ]; do sleep 5 & echo started; i=$((i+1)); done";
    let request = sh(script).timeout(Duration::from_secs(20));
    let result = sandbox.exec(&request).await.expect("it runs");
    let started = result.stdout_text().lines().count();
    assert!(!result.success(), "all were started");
    assert!(
        (5..=24).contains(&started) || !enforced(&sandbox, Capability::Pids),
        "{started} were started"
    );
    let result = sandbox.exec(&sh("echo still here")).await.expect("it runs");
    assert_eq!(result.stdout_text(), "still here\n");
}

async fn timeout_ends_the_whole_tree() {
    let marker = format!("300.{}", std::process::id());
    let sandbox = create(policy()).await;
    let script = format!(
        "trap '' TERM INT HUP; echo first; setsid sh -c '(sleep {marker} &) & sleep {marker}' & sleep {marker}"
    );
    let start = Instant::now();
    let result = sandbox
        .exec(&sh(&script).timeout(Duration::from_millis(400)))
        .await;
    let result = result.expect("it runs");
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert_eq!(result.stdout_text(), "first\n");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    wait_until("the tree has ended", Duration::from_secs(20), || {
        processes::containing(&marker).is_empty()
    });
    let result = sandbox.exec(&sh("echo still here")).await.expect("it runs");
    assert_eq!(result.stdout_text(), "still here\n");
}

async fn disk_limit_covers_all_folders() {
    let mut policy = policy();
    policy.disk = Some(ByteSize::mib(8));
    policy.artifact_export_paths = vec!["/output/*".into()];
    let script = "for folder in /tmp /workspace /dev/shm /output; do head -c 3M /dev/zero > $folder/x; done; \
                  cat /tmp/x /workspace/x /dev/shm/x /output/x | wc -c; ! touch /x";
    let result = run(policy, script).await;
    assert_eq!(
        result.stdout_text(),
        (8 << 20).to_string() + "\n",
        "{}",
        result.stderr_text()
    );
    assert!(
        result.stderr_text().contains("No space left"),
        "{}",
        result.stderr_text()
    );
    assert!(result.success());
}

async fn number_of_empty_files_is_limited() {
    let mut policy = policy();
    policy.disk = Some(ByteSize::mib(1));
    let script = "i=0; while [ $i -lt 3000 ] && printf '' > /tmp/f$i; do i=$((i+1)); done 2>/dev/null; echo $i";
    let result = run(policy, script).await;
    let made = result
        .stdout_text()
        .trim()
        .parse::<u32>()
        .unwrap_or(u32::MAX);
    assert!(
        (100..1000).contains(&made),
        "{made} {}",
        result.stderr_text()
    );
}

async fn minimal_limits_are_enforced() {
    let mut policy = policy();
    policy.disk = Some(ByteSize::bytes(4096));
    policy.pids = Some(1);
    let sandbox = create(policy).await;
    let result = sandbox
        .exec(&sh("echo alone; (echo two) || exit 3"))
        .await
        .expect("it runs");
    assert!(
        result.stdout_text().starts_with("alone\n"),
        "{}",
        result.stderr_text()
    );
    if enforced(&sandbox, Capability::Pids) {
        assert!(!result.success(), "a second process was started");
    }
    if namespaces() {
        let python = "import os; os.path.getsize('x') <= 4096 or exit(1)";
        sandbox
            .exec(
                &ExecRequest::new("sh")
                    .arg("-c")
                    .arg("exec head -c 65536 /dev/zero > x"),
            )
            .await
            .expect("it runs");
        let result = sandbox
            .exec(&ExecRequest::new("python3").arg("-c").arg(python))
            .await;
        assert!(
            result.expect("python runs").success(),
            "more than a page was written"
        );
    }
}
