//! Several clients of one real agent.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use common::{Kept, Listening, all, run, shell, wait_until};
use sandbox_agent::protocol::MAX_CLIENTS;
use sandbox_core::spi::{Flow, Instance, OutputSink, OutputStream};
use sandbox_core::{ErrorKind, Outcome};
use sandbox_host::ClientKey;
use tokio::sync::Notify;

#[tokio::test]
async fn later_client_continues_the_sandbox() {
    let (sandbox, first) = Listening::detached().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").to_str().unwrap().to_owned();
    let (end, _) = run(&first, &shell(&format!("echo kept >{file}")), None).await;
    assert!(end.outcome.success(), "{end:?}");
    drop(first);
    let second = sandbox.attach().await;
    let (end, kept) = run(&second, &shell(&format!("cat {file}; exit 4")), None).await;
    assert_eq!(end.outcome, Outcome::Exited { code: 4 });
    assert_eq!(kept.stdout, b"kept\n");
    assert_eq!(sandbox.process.destroyed(), 0);
    second.kill().await.unwrap();
    wait_until("the agent ends", || sandbox.process.ended().is_some()).await;
}

#[tokio::test]
async fn wrong_key_is_refused_without_side_effects() {
    let (sandbox, first) = Listening::detached().await;
    let error = sandbox
        .attach_with(&ClientKey::new([1; 32]))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("wrong key"), "{error}");
    let (end, _) = run(&first, &shell("true"), None).await;
    assert!(end.outcome.success());
    assert_eq!(sandbox.process.destroyed(), 0);
}

#[tokio::test]
async fn stop_ends_the_sandbox_for_all_clients() {
    let (sandbox, first) = Listening::detached().await;
    let second = sandbox.attach().await;
    let third = sandbox.stream().await;
    let request = shell("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    let mut kept = Kept::default();
    let program = first.exec(&request, None.into(), &mut kept);
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        second.stop(Duration::from_secs(2)).await
    };
    let (end, stopped) = tokio::join!(program, stop);
    stopped.unwrap();
    assert_eq!(end.unwrap().outcome, Outcome::Exited { code: 3 });
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "ready\nbye\n");
    for instance in [&first, &second] {
        let error = instance
            .exec(&shell("true"), None.into(), &mut Kept::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SandboxEnded);
        instance.stop(Duration::from_secs(1)).await.unwrap();
    }
    let late = sandbox.attach_over(third, &sandbox.key).await.map(drop);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::SandboxEnded);
}

#[tokio::test]
async fn two_clients_run_a_hundred_executions() {
    let (sandbox, first) = Listening::detached().await;
    let second = sandbox.attach().await;
    let clients = [&first, &second];
    let runs = (0..100u8).map(|number| async move {
        let client = clients[usize::from(number) % 2];
        let digit = number % 10;
        let script = format!("head -c 30000 /dev/zero | tr '\\0' {digit}; exit {number}");
        let (end, kept) = run(client, &shell(&script), None).await;
        let code = number.into();
        assert_eq!(end.outcome, Outcome::Exited { code });
        assert_eq!(kept.stdout, vec![b'0' + digit; 30_000]);
    });
    all(runs).await;
}

#[tokio::test]
async fn dropped_client_ends_only_its_executions() {
    let (sandbox, first) = Listening::detached().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let second = sandbox.attach().await;
    let script = format!(
        "touch {}; sleep 2; echo late >{}",
        path("begun"),
        path("late")
    );
    let request = shell(&script);
    let mut kept = Kept::default();
    let other = tokio::spawn(async move {
        let (end, kept) = run(&first, &shell("sleep 3; echo unharmed"), None).await;
        (end.outcome, kept.stdout)
    });
    let begun = path("begun");
    {
        let execution = second.exec(&request, None.into(), &mut kept);
        let begins = wait_until("it has begun", || std::path::Path::new(&begun).exists());
        tokio::select! {
            end = execution => panic!("{end:?}"),
            () = begins => {}
        }
    }
    drop(second);
    let (outcome, stdout) = other.await.unwrap();
    assert!(outcome.success());
    assert_eq!(stdout, b"unharmed\n");
    assert!(!std::path::Path::new(&path("late")).exists());
    assert_eq!(sandbox.process.destroyed(), 0);
}

#[tokio::test]
async fn owner_ends_the_sandbox_for_later_clients() {
    let (sandbox, first) = Listening::owned().await;
    let second = sandbox.attach().await;
    let request = shell("sleep 20");
    let mut kept = Kept::default();
    let execution = second.exec(&request, None.into(), &mut kept);
    let end = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(first);
    };
    let (lost, ()) = tokio::join!(execution, end);
    assert!(matches!(lost.unwrap().outcome, Outcome::Unknown { .. }));
    assert!(sandbox.process.destroyed() > 0);
}

#[tokio::test]
async fn excess_client_is_refused() {
    let (sandbox, _first) = Listening::detached().await;
    let mut others = Vec::new();
    for _ in 1..MAX_CLIENTS {
        others.push(sandbox.attach().await);
    }
    let error = sandbox
        .attach_with(&sandbox.key)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("too many clients"), "{error}");
    others.pop();
    // The agent notices asynchronously that a client has disconnected.
    let deadline = Instant::now() + Duration::from_secs(10);
    let late = loop {
        match sandbox.attach_with(&sandbox.key).await {
            Ok(late) => break late,
            Err(error) => assert!(
                error.to_string().contains("too many clients") && Instant::now() < deadline,
                "{error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let (end, _) = run(&late, &shell("true"), None).await;
    assert!(end.outcome.success());
}

/// Collects a log, and stops when it ends with this text.
struct UntilText {
    text: &'static [u8],
    log: Vec<u8>,
}

impl UntilText {
    fn new(text: &'static [u8]) -> Self {
        Self {
            text,
            log: Vec::new(),
        }
    }
}

#[async_trait]
impl OutputSink for UntilText {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        assert_eq!(stream, OutputStream::Stdout);
        self.log.extend_from_slice(bytes);
        if self.log.ends_with(self.text) {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}

/// Collects a log, and notifies when it ends with this text.
struct NotifyOnText {
    text: &'static [u8],
    log: Vec<u8>,
    notify: Arc<Notify>,
}

#[async_trait]
impl OutputSink for NotifyOnText {
    async fn write(&mut self, _: OutputStream, bytes: &[u8]) -> Flow {
        self.log.extend_from_slice(bytes);
        if self.log.ends_with(self.text) {
            self.notify.notify_one();
        }
        Flow::Continue
    }
}

#[tokio::test]
async fn logs_are_followed_by_another_client() {
    let (sandbox, first) = Listening::detached().await;
    run(&first, &shell("echo before"), None).await;
    let second = sandbox.attach().await;
    let script = "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three";
    // One client reads the whole log, the other one only new output.
    let mut all = UntilText::new(b"three\n");
    let mut new = UntilText::new(b"three\n");
    let ended = AtomicUsize::new(0);
    let follow = async |last, log| {
        let result = second.follow_logs(last, log).await;
        ended.fetch_add(1, Ordering::Relaxed);
        result
    };
    let (one, other, (end, _)) =
        tokio::join!(follow(None, &mut all), follow(Some(0), &mut new), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let end = run(&first, &shell(script), None).await;
            // A request that arrives after the last line gets the next one.
            while ended.load(Ordering::Relaxed) < 2 {
                run(&first, &shell("echo three"), None).await;
            }
            end
        },);
    one.unwrap();
    other.unwrap();
    assert!(end.outcome.success());
    assert_eq!(all.log, b"before\none\ntwo\nthree\n");
    // The request may reach the agent late on a busy machine, after the first lines.
    assert!(b"one\ntwo\nthree\n".ends_with(&new.log));
    // A stop delivers the rest of the log, and is not an error for its reader.
    let up = Arc::new(Notify::new());
    let mut rest = NotifyOnText {
        text: b"up\n",
        log: Vec::new(),
        notify: Arc::clone(&up),
    };
    let request = shell("trap 'echo bye; exit' TERM; sleep 100 & echo up; wait");
    let mut kept = Kept::default();
    let (followed, _, stopped) = tokio::join!(
        second.follow_logs(None, &mut rest),
        first.exec(&request, None.into(), &mut kept),
        async {
            up.notified().await;
            first.stop(Duration::from_secs(5)).await
        }
    );
    stopped.unwrap();
    followed.unwrap();
    assert!(rest.log.starts_with(b"before\none\ntwo\nthree\n"));
    assert!(rest.log.ends_with(b"three\nup\nbye\n"));
}

#[tokio::test]
async fn interrupted_log_is_an_error() {
    let (sandbox, first) = Listening::detached().await;
    let second = sandbox.attach().await;
    let mut log = UntilText::new(b"never");
    let (followed, killed) = tokio::join!(second.follow_logs(None, &mut log), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        first.kill().await
    });
    killed.unwrap();
    assert_eq!(followed.unwrap_err().kind(), ErrorKind::SandboxEnded);
}
