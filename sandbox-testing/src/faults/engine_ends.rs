//! An engine that ends during an execution, a copy or a creation.

use std::time::{Duration, Instant};

use sandbox_core::spi::unique_name;
use sandbox_core::{ErrorKind, ExecRequest, Outcome, SandboxHandle, SandboxSpec};
use tokio::task::JoinHandle;

use super::owner_killed::container_requests;
use super::private_engine::{PrivateEngine, run, spec};
use super::{EngineLauncher, FaultTest};
use crate::contract::TestResult;
use crate::fault_proxy::{Breakpoint, FaultProxy};
use crate::processes::Signal;

pub const TESTS: &[FaultTest] = &[
    (
        "engine_ends::a_killed_engine_leaves_nothing_after_its_restart",
        |launcher| all(launcher, Signal::Kill),
    ),
    (
        "engine_ends::a_stopped_engine_leaves_nothing_after_its_restart",
        |launcher| all(launcher, Signal::Term),
    ),
];

/// The longest that a call may take to fail after the engine was told to end. It usually takes less
/// than a second. An engine that ends slowly may keep a connection open without a response. The
/// backend waits 60 s for a response, and 20 s for the removal of what it created.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(90);

fn all(launcher: &'static dyn EngineLauncher, signal: Signal) -> TestResult {
    run(async {
        let mut engine = PrivateEngine::start(launcher).await;
        during_exec(&mut engine, signal).await?;
        during_copy(&mut engine, signal).await?;
        for delay in [0, 60] {
            during_create(&mut engine, signal, Duration::from_millis(delay)).await?;
        }
        for breakpoint in container_requests() {
            at_request(&mut engine, signal, *breakpoint).await?;
        }
        detached(&mut engine, signal).await
    })
}

/// Starts the engine again and asserts that a new client removes everything that was left.
async fn restart_and_clean(engine: &mut PrivateEngine, what: &str) {
    engine.wait_ended().await;
    engine.resume().await;
    // The current process is the owner of what is left.
    let findings = engine.client().diagnose().await;
    assert!(
        findings
            .iter()
            .any(|finding| finding.name == "engine" && finding.present)
    );
    engine
        .wait_for(what, Duration::from_secs(60), |_| false)
        .await;
    // The first call returns detached sandboxes that have ended with the engine.
    engine.client().prune().await.expect("an answer");
    let again = engine.client().prune().await.expect("an answer");
    assert!(again.is_empty(), "removed twice: {again:?}");
    assert_eq!(engine.volumes().len(), 1, "the agent's volume");
    let records = std::fs::read_dir(engine.state().join("containers"));
    let records = records.into_iter().flatten().flatten();
    let records = records.map(|record| record.file_name().to_string_lossy().into_owned());
    // A record is kept while the engine lists its container.
    let listed = engine.dead();
    let stale = records.filter(|record| !listed.iter().any(|(id, _)| id == record));
    assert_eq!(stale.collect::<Vec<_>>(), [""; 0], "{what}");
}

async fn during_exec(engine: &mut PrivateEngine, signal: Signal) -> sandbox_core::Result<()> {
    let sandbox = engine.client().create(&spec()).await?;
    let sandbox = std::sync::Arc::new(sandbox);
    let executing = sandbox.clone();
    let sleep = ExecRequest::shell("echo begun; exec sleep 60");
    let execution = tokio::spawn(async move { executing.exec(&sleep).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    engine.signal(signal);
    let start = Instant::now();
    let end = tokio::time::timeout(FAILURE_TIMEOUT, execution).await;
    let end = end.expect("no hang").expect("no panic");
    eprintln!(
        "{signal:?} during an execution: it failed after {:?}",
        start.elapsed()
    );
    match end {
        Ok(result) => {
            assert!(
                matches!(result.outcome, Outcome::Unknown { .. }),
                "{result:?}"
            );
            // The output until then is kept.
            assert_eq!(result.stdout_text(), "begun\n");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
    }
    assert_ended(&sandbox).await;
    drop(sandbox);
    restart_and_clean(engine, "after an execution").await;
    Ok(())
}

/// Asserts that further calls fail in time.
async fn assert_ended(sandbox: &SandboxHandle) {
    let start = Instant::now();
    let error = sandbox
        .exec(&ExecRequest::new("true"))
        .await
        .expect_err("ended");
    assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
    if let Err(error) = sandbox.kill().await {
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.fix().is_some(), "{error}");
    }
    assert!(start.elapsed() < FAILURE_TIMEOUT, "{:?}", start.elapsed());
}

async fn during_copy(engine: &mut PrivateEngine, signal: Signal) -> sandbox_core::Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let large = folder.path().join("large");
    std::fs::write(&large, vec![7; 24 << 20]).expect("written");
    for inwards in [true, false] {
        let sandbox = std::sync::Arc::new(engine.client().create(&spec()).await?);
        let (copying, source) = (sandbox.clone(), large.clone());
        let target = folder.path().join("copy");
        if !inwards {
            sandbox.copy_in(&source, "/workspace/large").await?;
        }
        let copy = tokio::spawn(async move {
            // Repeats: one copy may be complete before the signal.
            loop {
                let copied = match inwards {
                    true => copying.copy_in(&source, "/workspace/large").await,
                    false => copying.copy_out("/workspace/large", &target).await,
                };
                copied?;
            }
        });
        tokio::time::sleep(Duration::from_millis(400)).await;
        engine.signal(signal);
        let start = Instant::now();
        let end = tokio::time::timeout(FAILURE_TIMEOUT, copy).await;
        let end: Result<(), sandbox_core::Error> = end.expect("no hang").expect("no panic");
        let error = end.expect_err("the engine has ended");
        eprintln!(
            "{signal:?} during a copy: it failed after {:?}: {error}",
            start.elapsed()
        );
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        assert_ended(&sandbox).await;
        drop(sandbox);
        restart_and_clean(engine, "after a copy").await;
    }
    Ok(())
}

async fn during_create(
    engine: &mut PrivateEngine,
    signal: Signal,
    delay: Duration,
) -> sandbox_core::Result<()> {
    let client = engine.client();
    let creation = tokio::spawn(async move { client.create(&spec()).await });
    tokio::time::sleep(delay).await;
    engine.signal(signal);
    let what = format!("{signal:?} {delay:?} after a creation began");
    assert_fails_in_time(engine, creation, &what).await;
    restart_and_clean(engine, "after a creation").await;
    Ok(())
}

/// As [`during_create`], at a given request: some engines take long to describe themselves.
async fn at_request(
    engine: &mut PrivateEngine,
    signal: Signal,
    breakpoint: Breakpoint,
) -> sandbox_core::Result<()> {
    let name = unique_name("moment");
    let socket = engine.state().with_file_name(format!("{name}.sock"));
    let proxy = FaultProxy::unix(&engine.socket(), &socket, breakpoint);
    proxy.aim(engine.processes(), signal);
    let client = engine.client_with(engine.config_at(proxy.address()));
    let creation = tokio::spawn(async move { client.create(&SandboxSpec::new(name)).await });
    tokio::task::block_in_place(|| proxy.wait_signaled());
    let what = format!("{signal:?} at {breakpoint:?}");
    assert_fails_in_time(engine, creation, &what).await;
    // The backend removes what the request made through the proxy's socket.
    restart_and_clean(engine, &format!("after {breakpoint:?}")).await;
    Ok(())
}

/// Asserts that a creation succeeds, or fails in time.
async fn assert_fails_in_time(
    engine: &PrivateEngine,
    creation: JoinHandle<sandbox_core::Result<SandboxHandle>>,
    what: &str,
) {
    let start = Instant::now();
    let end = tokio::time::timeout(FAILURE_TIMEOUT, creation).await;
    let Ok(end) = end else {
        let log = engine.log_tail();
        panic!("{what}: no failure in {FAILURE_TIMEOUT:?}; the engine's log: {log}");
    };
    let end = end.expect("no panic");
    let elapsed = start.elapsed();
    match end {
        // The creation was faster than the signal.
        Ok(sandbox) => drop(sandbox),
        Err(error) => {
            eprintln!("{what}: it failed after {elapsed:?}: {error}");
            let kinds = [
                ErrorKind::SandboxUnavailable,
                ErrorKind::Protocol,
                ErrorKind::SetupFailed,
            ];
            assert!(kinds.contains(&error.kind()), "{:?} {error}", error.kind());
        }
    }
}

/// A detached sandbox ends with its engine, or outlives it, as the engine's other containers do.
async fn detached(engine: &mut PrivateEngine, signal: Signal) -> sandbox_core::Result<()> {
    let client = engine.client();
    let detached = spec().detached(true).lifetime(Duration::from_secs(120));
    let first = client.create(&detached).await?;
    let second = client.get(&detached.name).await?;
    first.exec(&ExecRequest::shell("echo before > own")).await?;
    engine.signal(signal);
    for sandbox in [&first, &second] {
        let start = Instant::now();
        let sleep = ExecRequest::new("sleep").arg("60");
        match sandbox.exec(&sleep).await {
            Ok(result) => assert!(
                matches!(result.outcome, Outcome::Unknown { .. }),
                "{result:?}"
            ),
            Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
        }
        assert!(start.elapsed() < FAILURE_TIMEOUT, "{:?}", start.elapsed());
    }
    let start = Instant::now();
    let error = client.get(&detached.name).await.expect_err("no engine");
    assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
    assert!(start.elapsed() < FAILURE_TIMEOUT, "{:?}", start.elapsed());
    drop((first, second));
    if engine.containers_outlive_it() {
        engine.wait_ended().await;
        engine.resume().await;
        // It is a later client's as if nothing had been.
        let client = engine.client();
        assert_eq!(client.prune().await?, [""; 0]);
        let again = client.get(&detached.name).await?;
        let look = ExecRequest::shell("cat own; pidof sleep | wc -w");
        assert_eq!(again.exec(&look).await?.stdout_text(), "before\n0\n");
        again.kill().await?;
        assert_eq!(engine.containers(), []);
    } else {
        restart_and_clean(engine, "after a detached sandbox").await;
    }
    let error = client.get(&detached.name).await.expect_err("it has ended");
    assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
    assert!(engine.client().list().await?.is_empty());
    Ok(())
}
