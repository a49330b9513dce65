//! Denials are reported as data and as text. Other failures are not.

use std::time::Duration;

use sandbox_core::{
    ByteSize, Capability, Denial, DenialKind, ErrorKind, ExecEvent, ExecRequest, ExecResult,
    Outcome, SandboxHandle, Stdin,
};
use sandbox_testing::users::is_root;

use crate::harness::{Need, Test, test};

use crate::support::{client, create, enforced, namespaces, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async ordinary_work_has_no_denials),
    test!(async denied_processes_and_programs_are_counted, Need::Enforced(Capability::SubprocessExecution)),
    test!(async network_attempts_are_denials, Need::Namespaces),
    test!(async limit_denials_name_their_rule),
    test!(async concurrent_executions_all_report_a_memory_kill, Need::Enforced(Capability::Memory)),
    test!(async process_limit_is_a_denial_where_the_kernel_counts),
    test!(async denial_events_precede_the_exit, Need::Enforced(Capability::SubprocessExecution)),
    test!(async file_transfers_and_exports_report_denials, Need::Namespaces),
    test!(async specification_beyond_the_policy_is_a_denial),
    test!(async many_denials_are_one_entry_with_a_count, Need::Enforced(Capability::SubprocessExecution)),
];

async fn exec(sandbox: &SandboxHandle, request: &ExecRequest) -> ExecResult {
    sandbox.exec(request).await.expect("it runs")
}

fn of(result: &ExecResult, kind: DenialKind) -> Option<&Denial> {
    result.denials.iter().find(|denial| denial.kind == kind)
}

#[track_caller]
fn nothing_denied(result: &ExecResult) {
    assert!(result.denials.is_empty(), "{:?}", result.denials);
}

async fn ordinary_work_has_no_denials() {
    let sandbox = create(policy()).await;
    // The program's own failures are not denials, and neither are the kernel's usual refusals.
    let script =
        "cat /no/such; echo x > /proc/version; (exit 3) & wait; ls / | sort > /tmp/x; kill -9 $$";
    nothing_denied(&exec(&sandbox, &sh(script)).await);
    // A closed port of the sandbox's own loopback is not a denial.
    let python = "import socket
for family, address in [(socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')]:
    try:
        socket.socket(family).connect((address, 9))
    except OSError as error:
        print(error)";
    nothing_denied(&exec(&sandbox, &ExecRequest::new("python3").arg("-c").arg(python)).await);
    assert!(sandbox.denials().is_empty());
}

async fn denied_processes_and_programs_are_counted() {
    let mut policy = policy();
    policy.subprocess_execution = Some(false);
    let sandbox = create(policy).await;
    let python = "import os, subprocess
for attempt in range(3):
    try:
        subprocess.run(['/bin/true'])
    except PermissionError:
        print('refused')
try:
    os.execv('/bin/true', ['true'])
except PermissionError:
    print('refused')";
    let request = ExecRequest::new("python3").arg("-c").arg(python);
    let result = exec(&sandbox, &request).await;
    assert_eq!(
        result.stdout_text(),
        "refused\n".repeat(4),
        "{}",
        result.stderr_text()
    );
    let process = of(&result, DenialKind::Process).expect("a denial");
    assert_eq!(process.capability, Capability::SubprocessExecution);
    // The library tries another system call after the first one fails.
    assert!(process.times >= 3, "{process}");
    let words = format!(
        "starting another process is denied by the policy (subprocess_execution = false), {} times; a retry will not help: \
         do the work in one process, or ask the operator for subprocess_execution = true",
        process.times
    );
    assert_eq!(process.to_string(), words);
    assert_eq!(of(&result, DenialKind::Program).expect("a denial").times, 1);
    nothing_denied(&exec(&sandbox, &ExecRequest::new("true")).await);
    assert_eq!(sandbox.denials().as_slice(), result.denials.as_slice());
}

/// Every connection attempt and name lookup is counted.
async fn network_attempts_are_denials() {
    let sandbox = create(policy()).await;
    for attempt in [
        "socket.socket().connect(('1.2.3.4', 80))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))",
        "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
        "socket.getaddrinfo('example.com', 80)",
    ] {
        let python = format!("import socket\ntry: {attempt}\nexcept OSError: print('failed')");
        let result = exec(&sandbox, &ExecRequest::new("python3").arg("-c").arg(python)).await;
        assert_eq!(
            result.stdout_text(),
            "failed\n",
            "{attempt}: {}",
            result.stderr_text()
        );
        let denial = of(&result, DenialKind::Network).unwrap_or_else(|| panic!("{attempt}"));
        assert_eq!(denial.rule, "network_access = none");
        assert!(!denial.retry_helps && denial.times >= 1);
    }
    nothing_denied(&exec(&sandbox, &sh("true")).await);
    assert!(sandbox.denials().as_slice()[0].times >= 4);
}

async fn limit_denials_name_their_rule() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    policy.timeout = Some(Duration::from_secs(5));
    policy.stdout_max_bytes = Some(ByteSize::bytes(4));
    let sandbox = create(policy).await;
    if enforced(&sandbox, Capability::Memory) {
        // A child was killed, and the program continued.
        let result = exec(&sandbox, &sh("tail /dev/zero; exit 0")).await;
        let times = of(&result, DenialKind::Memory).map(|denial| denial.times);
        assert_eq!((result.success(), times), (true, Some(1)), "{result:?}");
        // The next execution does not report it.
        let result = exec(&sandbox, &sh("kill -9 $$")).await;
        assert_eq!(result.outcome, Outcome::Signaled { signal: 9 });
        nothing_denied(&result);
    }
    let result = exec(&sandbox, &sh("sleep 9").timeout(Duration::from_millis(200))).await;
    let denial = of(&result, DenialKind::Time).expect("a denial");
    assert_eq!(denial.rule, "timeout = 200ms, asked for with the execution");
    assert!(denial.advice.contains("the policy allows 5s"), "{denial}");
    let result = exec(&sandbox, &sh("echo 12345678; echo err >&2")).await;
    let denial = of(&result, DenialKind::Output).expect("a denial");
    assert_eq!(
        (denial.rule.as_str(), result.denials.as_slice().len()),
        ("stdout_max_bytes = 4B", 1)
    );
}

async fn concurrent_executions_all_report_a_memory_kill() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let sandbox = create(policy).await;
    let wait = sh("touch up; until [ -e go ]; do sleep 0.1; done");
    let others = async {
        exec(&sandbox, &sh("until [ -e up ]; do sleep 0.1; done")).await;
        let child = exec(&sandbox, &sh("tail /dev/zero; exit 0")).await;
        assert!(of(&child, DenialKind::Memory).is_some(), "{child:?}");
        // This execution began after the kill.
        let later = exec(&sandbox, &sh("kill -9 $$")).await;
        assert_eq!(later.outcome, Outcome::Signaled { signal: 9 });
        nothing_denied(&later);
        exec(&sandbox, &sh("touch go")).await;
    };
    let (long, ()) = tokio::join!(exec(&sandbox, &wait), others);
    assert!(long.success(), "{long:?}");
    let times = of(&long, DenialKind::Memory).map(|denial| denial.times);
    assert_eq!(times, Some(1), "{long:?}");
}

/// Needs the limit of a control group. The kernel does not count refusals by the limit of a user.
async fn process_limit_is_a_denial_where_the_kernel_counts() {
    let mut policy = policy();
    policy.pids = Some(16);
    let sandbox = create(policy).await;
    let script = "i=0; while [ $i -lt 60 ]; do sleep 1 & i=$((i+1)); done";
    let result = exec(&sandbox, &sh(script)).await;
    if let Some(denial) = of(&result, DenialKind::ProcessLimit) {
        assert_eq!(denial.rule, "pids = 16");
    } else {
        let counted = !namespaces() && enforced(&sandbox, Capability::Pids);
        assert!(!counted, "{result:?}");
    }
}

async fn denial_events_precede_the_exit() {
    let mut policy = policy();
    policy.subprocess_execution = Some(false);
    let sandbox = create(policy).await;
    let mut execution = sandbox
        .start(&sh("exec /bin/true"), Stdin::Null)
        .await
        .expect("it starts");
    let mut seen = Vec::new();
    while let Some(event) = execution.next_event().await.expect("it works") {
        match event {
            ExecEvent::Denied(denial) => seen.push(denial.kind),
            ExecEvent::Exited(result) => {
                assert_eq!(seen, [DenialKind::Program]);
                assert_eq!(result.denials.as_slice().len(), 1);
            }
            _ => assert!(seen.is_empty()),
        }
    }
    assert_eq!(seen.len(), 1);
}

async fn file_transfers_and_exports_report_denials() {
    let mut policy = policy();
    policy.disk = Some(ByteSize::mib(4));
    policy.artifact_export_paths = vec!["/output/*".into()];
    let sandbox = create(policy).await;
    let error = sandbox
        .write("/usr/x", "xxx")
        .await
        .expect_err("no write root");
    assert_eq!(error.kind(), ErrorKind::Path);
    let [denial] = error.denials() else {
        panic!("{error}")
    };
    assert_eq!(
        (denial.kind, denial.capability),
        (DenialKind::FileWrite, Capability::FilesystemWriteRoots)
    );
    let error = sandbox
        .write("/tmp/big", vec![b'x'; 8 << 20])
        .await
        .expect_err("no room");
    assert_eq!(error.denials()[0].kind, DenialKind::Storage, "{error}");
    assert_eq!(error.denials()[0].rule, "disk = 4MiB");
    // A missing file is not a denial.
    let error = sandbox.read("/tmp/none").await.expect_err("missing");
    assert!(error.denials().is_empty(), "{error}");
    exec(&sandbox, &sh("ln -s /etc/passwd /tmp/link; ln -s /etc/passwd /output/link; mkfifo /output/pipe; echo x > /output/x")).await;
    let error = sandbox.read("/tmp/link").await.expect_err("a link");
    assert_eq!(error.denials()[0].kind, DenialKind::FileRead, "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let export = sandbox.export(folder.path()).await.expect("exported");
    let whats = export
        .denials
        .iter()
        .map(|denial| denial.what.as_str())
        .collect::<Vec<_>>();
    assert_eq!(whats.len(), 2, "{whats:?}");
    assert!(whats.contains(&"exporting /output/link was denied: it is a symbolic link"));
    // The list of the sandbox contains each denial.
    assert_eq!(sandbox.denials().as_slice().len(), 5);
}

async fn specification_beyond_the_policy_is_a_denial() {
    let mut policy = policy();
    policy.memory = Some(ByteSize::mib(64));
    let error = client(policy)
        .create(&spec().memory(ByteSize::mib(128)))
        .await
        .expect_err("too much");
    let [denial] = error.denials() else {
        panic!("{error}")
    };
    assert_eq!(
        (denial.kind, denial.rule.as_str()),
        (DenialKind::Specification, "memory = 64MiB")
    );
    assert!(denial.to_string().contains("128MiB"), "{denial}");
}

/// A program that triggers denials forever ends at its time limit.
async fn many_denials_are_one_entry_with_a_count() {
    let mut policy = policy();
    policy.subprocess_execution = Some(false);
    let sandbox = create(policy).await;
    let python = "import os
while True:
    try: os.fork()
    except PermissionError: pass";
    let request = ExecRequest::new("python3")
        .arg("-c")
        .arg(python)
        .timeout(Duration::from_secs(1));
    let result = exec(&sandbox, &request).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert_eq!(result.denials.as_slice().len(), 2);
    let times = of(&result, DenialKind::Process).expect("a denial").times;
    assert!(times > 100, "{times}");
    println!("{times} in a second, as root: {}", is_root());
}
