//! Executions as streams of events.

use std::time::Duration;

use sandbox_core::{ExecEvent, ExecRequest, Execution, Outcome, SandboxHandle, Stdin, StdinWriter};
use sandbox_testing::processes;
use sandbox_testing::wait::wait_until_async;
use tokio::io::{AsyncWriteExt, ReadBuf};

use crate::harness::{Test, test};

use crate::support::{create, policy, sh};

pub const TESTS: &[Test] = &[
    test!(async events_are_ordered_and_exit_is_last),
    test!(async unread_output_is_in_the_result),
    test!(async missing_program_is_an_error_of_start),
    test!(async closing_stdin_does_not_end_the_output),
    test!(async endless_stdin_is_read_on_demand),
    test!(async writing_to_closed_stdin_is_a_broken_pipe),
    test!(async signals_and_kill_work_while_output_is_unread),
    test!(async dropped_execution_ends_only_its_program),
    test!(async dropped_sandbox_handle_ends_its_executions),
    test!(sync slow_reader_gets_all_output_in_constant_memory),
    test!(async late_reader_still_gets_the_exit_code),
    test!(async binary_output_is_unchanged),
    test!(async unread_output_does_not_block_stdin),
];

async fn start(sandbox: &SandboxHandle, script: &str, stdin: Stdin) -> Execution {
    let request = sh(script).timeout(Duration::from_secs(30));
    sandbox.start(&request, stdin).await.expect("it starts")
}

async fn piped(sandbox: &SandboxHandle, script: &str) -> (Execution, StdinWriter) {
    let mut execution = start(sandbox, script, Stdin::Piped).await;
    let stdin = execution.take_stdin().expect("it is piped");
    (execution, stdin)
}

/// The events as short texts. Consecutive output is joined.
async fn events(execution: &mut Execution) -> Vec<String> {
    let mut events = Vec::<String>::new();
    while let Some(event) = execution.next_event().await.expect("the sandbox works") {
        let (name, text) = match event {
            ExecEvent::Started => ("started", String::new()),
            ExecEvent::Stdout(bytes) => ("out ", String::from_utf8_lossy(&bytes).into_owned()),
            ExecEvent::Stderr(bytes) => ("err ", String::from_utf8_lossy(&bytes).into_owned()),
            ExecEvent::Exited(result) => ("exited ", result.outcome.to_string()),
            other => ("other ", format!("{other:?}")),
        };
        match events.last_mut() {
            Some(last) if name.ends_with(' ') && last.starts_with(name) => last.push_str(&text),
            _ => events.push(name.to_owned() + &text),
        }
    }
    events
}

async fn events_are_ordered_and_exit_is_last() {
    let sandbox = create(policy()).await;
    let script = "echo one; sleep 0.2; echo two >&2; sleep 0.2; echo three; exit 7";
    let mut execution = start(&sandbox, script, Stdin::Null).await;
    let expected = [
        "started",
        "out one\n",
        "err two\n",
        "out three\n",
        "exited exited with code 7",
    ];
    assert_eq!(events(&mut execution).await, expected);
    assert_eq!(execution.next_event().await.expect("no error"), None);
    let result = execution.wait().await.expect("the end stays");
    assert_eq!(result.exit_code(), Some(7));
    assert_eq!((result.stdout.total, result.stderr.total), (10, 4));
    let again = execution.wait().await.expect("as often as it is asked");
    assert_eq!(again, result);
}

async fn unread_output_is_in_the_result() {
    let sandbox = create(policy()).await;
    let mut execution = start(
        &sandbox,
        "echo first; read x; echo $x >&2; echo last",
        Stdin::from_bytes("in\n"),
    )
    .await;
    let result = execution.wait().await.expect("it ends");
    assert_eq!(
        (result.stdout_text(), result.stderr_text()),
        ("first\nlast\n".into(), "in\n".into())
    );
    assert!(!result.truncated() && result.success());

    let mut execution = start(&sandbox, "echo first; sleep 0.3; echo last", Stdin::Null).await;
    assert_eq!(
        execution.next_event().await.expect("it works"),
        Some(ExecEvent::Started)
    );
    assert_eq!(
        execution.next_event().await.expect("it works"),
        Some(ExecEvent::Stdout("first\n".into()))
    );
    let result = execution.wait().await.expect("it ends");
    assert_eq!(
        (result.stdout_text(), result.stdout.total),
        ("last\n".into(), 11)
    );
}

async fn missing_program_is_an_error_of_start() {
    let sandbox = create(policy()).await;
    let error = sandbox
        .start(&ExecRequest::new("no-such-program"), Stdin::Piped)
        .await;
    assert_eq!(
        error.map(drop).expect_err("nothing runs").kind(),
        sandbox_core::ErrorKind::ProgramNotFound
    );
    // The sandbox can still be used.
    assert!(sandbox.exec(&sh("true")).await.expect("it runs").success());
}

async fn closing_stdin_does_not_end_the_output() {
    let sandbox = create(policy()).await;
    for close_by_drop in [false, true] {
        let (mut execution, mut stdin) = piped(&sandbox, "exec sort").await;
        stdin.write_all(b"b\nc\n").await.expect("written");
        stdin.write_all(b"a\n").await.expect("written");
        if close_by_drop {
            drop(stdin);
        } else {
            stdin.shutdown().await.expect("closed");
        }
        let result = execution.wait().await.expect("it ends");
        assert_eq!(result.stdout_text(), "a\nb\nc\n");
        assert!(result.success());
    }
    // `wait` closes an input that was not taken.
    let mut execution = start(&sandbox, "exec cat", Stdin::Piped).await;
    assert!(execution.wait().await.expect("it ends").success());
}

/// An endless reader that counts its bytes.
struct Endless(std::sync::Arc<std::sync::atomic::AtomicU64>);

impl tokio::io::AsyncRead for Endless {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let room = buffer.remaining();
        buffer.put_slice(&vec![b'x'; room]);
        self.0
            .fetch_add(room as u64, std::sync::atomic::Ordering::Relaxed);
        std::task::Poll::Ready(Ok(()))
    }
}

async fn endless_stdin_is_read_on_demand() {
    let sandbox = create(policy()).await;
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let source = || Stdin::from_reader(Endless(count.clone()));
    // The program reads a part, and ends.
    let mut execution = start(&sandbox, "head -c 1000000 | wc -c; exit 3", source()).await;
    let result = execution.wait().await.expect("it ends");
    assert_eq!(
        (result.stdout_text(), result.exit_code()),
        ("1000000\n".into(), Some(3))
    );
    // The program closes its input and keeps running.
    count.store(0, std::sync::atomic::Ordering::Relaxed);
    let mut execution = start(&sandbox, "exec 0<&-; sleep 1; exit 4", source()).await;
    let result = execution.wait().await.expect("it ends");
    assert_eq!(result.exit_code(), Some(4));
    let read = count.load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        read < 4 << 20,
        "{read} bytes were read for a program that reads nothing"
    );
}

async fn writing_to_closed_stdin_is_a_broken_pipe() {
    let sandbox = create(policy()).await;
    // During the execution and after it.
    for script in ["echo closed; exec 0<&-; sleep 20", "echo closed; exit 5"] {
        let (mut execution, mut stdin) = piped(&sandbox, script).await;
        let piece = vec![b'x'; 64 * 1024];
        let write = async {
            for _ in 0..1000 {
                if let Err(error) = stdin.write_all(&piece).await {
                    return error.kind();
                }
            }
            panic!("64 MiB were taken");
        };
        let kind = tokio::time::timeout(Duration::from_secs(10), write).await;
        assert_eq!(kind.expect("in time"), std::io::ErrorKind::BrokenPipe);
        if script.contains("sleep") {
            execution.kill().await;
        }
        let result = execution.wait().await.expect("it ends");
        let expected = match script.contains("sleep") {
            true => Outcome::Signaled { signal: 9 },
            false => Outcome::Exited { code: 5 },
        };
        assert_eq!(
            (result.outcome, result.stdout.bytes.as_slice()),
            (expected, &b"closed\n"[..])
        );
    }
}

async fn signals_and_kill_work_while_output_is_unread() {
    let sandbox = create(policy()).await;
    let script = "trap 'exit 42' USR1; echo ready; while :; do sleep 0.05; done";
    let mut execution = start(&sandbox, script, Stdin::Null).await;
    while execution.next_event().await.expect("it works")
        != Some(ExecEvent::Stdout("ready\n".into()))
    {}
    execution.signal(10).await.expect("SIGUSR1");
    assert_eq!(
        execution.wait().await.expect("it ends").exit_code(),
        Some(42)
    );
    execution.signal(10).await.expect("harmless");
    execution.kill().await;
    for number in [0, 65] {
        assert!(execution.signal(number).await.is_err());
    }

    let marker = format!("orders-{}-", std::process::id());
    let flood = format!("sh -c 'sleep 600; : {marker}' & exec yes");
    let mut execution = start(&sandbox, &flood, Stdin::Null).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    execution.kill().await;
    wait_until_ended(&marker).await;
    let result = execution.wait().await.expect("it ends");
    assert_eq!(result.outcome, Outcome::Signaled { signal: 9 });
    assert!(
        result.stdout.total > 0 && result.stragglers >= 1,
        "{result:?}"
    );
}

async fn wait_until_ended(marker: &str) {
    let ended = async || processes::containing(marker).is_empty();
    wait_until_async("the tree has ended", Duration::from_secs(20), ended).await;
}

async fn dropped_execution_ends_only_its_program() {
    let sandbox = create(policy()).await;
    let marker = format!("reader-{}-", std::process::id());
    let script = format!("sh -c 'setsid sleep 600; : {marker}' & exec yes {marker}");
    let mut execution = start(&sandbox, &script, Stdin::Piped).await;
    let mut read = 0;
    while read < 1 << 20 {
        if let Some(ExecEvent::Stdout(bytes)) = execution.next_event().await.expect("it works") {
            read += bytes.len();
        }
    }
    // While a process executes a program, it has no arguments for a moment.
    let run = async || processes::containing(&marker).len() >= 2;
    wait_until_async("both programs run", Duration::from_secs(20), run).await;
    let mut stdin = execution.take_stdin().expect("piped");
    drop(execution);
    wait_until_ended(&marker).await;
    assert!(sandbox.exec(&sh("true")).await.expect("it runs").success());
    let error = stdin
        .write_all(&[0; 1 << 20])
        .await
        .expect_err("there is no reader");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

async fn dropped_sandbox_handle_ends_its_executions() {
    let sandbox = create(policy()).await;
    let marker = format!("handle-{}-", std::process::id());
    let script = format!("setsid sh -c 'sleep 600; : {marker}' & echo ready; sleep 600");
    let mut execution = start(&sandbox, &script, Stdin::Null).await;
    while execution.next_event().await.expect("it works")
        != Some(ExecEvent::Stdout("ready\n".into()))
    {}
    drop(sandbox);
    let error = execution.wait().await.expect_err("its sandbox has ended");
    assert!(error.to_string().contains("handle was dropped"), "{error}");
    assert_eq!(error.kind(), sandbox_core::ErrorKind::SandboxEnded);
    wait_until_ended(&marker).await;
}

/// Runs in its own process, because its memory is measured.
fn slow_reader_gets_all_output_in_constant_memory() {
    crate::users::alone(
        "streams::slow_reader_gets_all_output_in_constant_memory",
        || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let mut policy = policy();
                policy.timeout = Some(Duration::from_secs(120));
                let sandbox = create(policy).await;
                let script = "head -c 268435456 /dev/zero | tr '\\0' 'a'; exit 9";
                let request = sh(script).timeout(Duration::from_secs(110));
                let mut execution = sandbox
                    .start(&request, Stdin::Null)
                    .await
                    .expect("it starts");
                let before = resident();
                let (mut total, mut largest, mut pieces) = (0, 0, 0u32);
                let result = loop {
                    match execution.next_event().await.expect("it works") {
                        Some(ExecEvent::Stdout(bytes)) => {
                            assert!(bytes.iter().all(|byte| *byte == b'a'));
                            total += bytes.len();
                            pieces += 1;
                            if pieces % 64 == 0 {
                                tokio::time::sleep(Duration::from_millis(5)).await;
                                largest = largest.max(resident());
                            }
                        }
                        Some(ExecEvent::Exited(result)) => break result,
                        _ => {}
                    }
                };
                assert_eq!((total, result.exit_code()), (256 << 20, Some(9)));
                assert_eq!(result.stdout.total, 256 << 20);
                let grown = largest.saturating_sub(before);
                println!("{pieces} pieces; {grown} KiB more memory");
                assert!(grown < 16 * 1024, "{grown} KiB more memory");
            });
        },
    );
}

/// Resident memory of this process, KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let mut fields = line.expect("there").split_ascii_whitespace();
    fields
        .nth(1)
        .and_then(|field| field.parse().ok())
        .expect("a number")
}

/// The reader takes longer than the time limit and all grace periods. The program ended before.
async fn late_reader_still_gets_the_exit_code() {
    let sandbox = create(policy()).await;
    let late = async |bytes: u32| {
        let request = sh(&format!("head -c {bytes} /dev/zero; exit 11"));
        let request = request.timeout(Duration::from_secs(1));
        let mut execution = sandbox
            .start(&request, Stdin::Null)
            .await
            .expect("it starts");
        tokio::time::sleep(Duration::from_secs(7)).await;
        execution.wait().await.expect("it ends")
    };
    let (result, small) = tokio::join!(late(3_000_000), late(500_000));
    // The larger output does not fit into the buffers, so its program waits until the time limit.
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(result.stdout.total > 0, "{result:?}");
    assert_eq!(
        (small.exit_code(), small.stdout.bytes.len()),
        (Some(11), 500_000)
    );
    assert!(sandbox.exec(&sh("true")).await.expect("it lives").success());
}

async fn binary_output_is_unchanged() {
    let sandbox = create(policy()).await;
    // Every byte value, and a character that is split into two pieces.
    let python = "import os, time
os.write(1, bytes(range(256)))
os.write(2, b'\\xc3')
time.sleep(0.2)
os.write(2, b'\\xa4')";
    let request = ExecRequest::new("python3").arg("-c").arg(python);
    let mut execution = sandbox
        .start(&request, Stdin::Null)
        .await
        .expect("it starts");
    let mut stderr = Vec::new();
    while let Some(event) = execution.next_event().await.expect("it works") {
        match event {
            ExecEvent::Stdout(bytes) => assert_eq!(bytes, (0..=255).collect::<Vec<u8>>()),
            ExecEvent::Stderr(bytes) => stderr.push(bytes),
            _ => {}
        }
    }
    assert_eq!(stderr, [&b"\xc3"[..], &b"\xa4"[..]]);
}

/// A full output pipe does not block input.
async fn unread_output_does_not_block_stdin() {
    let sandbox = create(policy()).await;
    let (mut execution, mut stdin) = piped(
        &sandbox,
        "head -c 2000000 /dev/zero; cat > ${TMPDIR:-/tmp}/in; wc -c < ${TMPDIR:-/tmp}/in >&2",
    )
    .await;
    // Without a reader the program blocks before it reads its input, which stays in the buffers.
    let write = async {
        stdin
            .write_all(&vec![b'x'; 200_000])
            .await
            .expect("it fits on the way");
        stdin.shutdown().await.expect("closed");
    };
    tokio::time::timeout(Duration::from_secs(10), write)
        .await
        .expect("in time");
    let result = execution.wait().await.expect("it ends");
    assert_eq!(
        (result.stdout.total, result.stderr_text()),
        (2_000_000, "200000\n".into())
    );
}
