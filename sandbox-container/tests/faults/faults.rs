//! An engine that ends in the middle of something.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sandbox_core::{
    ArtifactLimits, ErrorKind, ExecRequest, Outcome, SandboxHandle, SandboxSpec, unique_name,
};
use tokio::task::JoinHandle;

use super::Test;
use super::engine::{Engine, client_of, run, spec};
use super::moments::of_containers;
use super::processes::Signal;
use super::proxy::{Moment, Proxy};
use crate::family::OUTLIVE;

pub const TESTS: &[Test] = &[
    ("faults::an_engine_is_killed", || all(Signal::Kill)),
    ("faults::an_engine_is_stopped", || all(Signal::Term)),
];

/// How long it may take until the caller knows.
const SOON: Duration = Duration::from_secs(2);

fn all(signal: Signal) -> Result<(), Failed> {
    run(async {
        let mut engine = Engine::start().await;
        during_exec(&mut engine, signal).await?;
        during_copy(&mut engine, signal).await?;
        for delay in [0, 60] {
            during_create(&mut engine, signal, Duration::from_millis(delay)).await?;
        }
        for moment in of_containers() {
            at_request(&mut engine, signal, *moment).await?;
        }
        detached(&mut engine, signal).await
    })
}

/// The engine is there again, and once a client has started, nothing of ours is.
async fn back(engine: &mut Engine, what: &str) {
    engine.wait_ended().await;
    engine.resume().await;
    // Another process would find the same: who asked is the owner of what is left.
    let findings = engine.client().diagnose().await;
    assert!(
        findings
            .iter()
            .any(|finding| finding.name == "engine" && finding.present)
    );
    engine
        .wait_for(what, Duration::from_secs(10), |_| false)
        .await;
    // The first names what was detached, and ended with the engine.
    engine.client().prune().await.expect("an answer");
    let again = engine.client().prune().await.expect("an answer");
    assert!(again.is_empty(), "nothing was there: {again:?}");
    assert_eq!(engine.volumes().len(), 1, "the agent's");
}

async fn during_exec(engine: &mut Engine, signal: Signal) -> sandbox_core::Result<()> {
    let sandbox = engine.client().create(&spec()).await?;
    let sandbox = std::sync::Arc::new(sandbox);
    let other = sandbox.clone();
    let sleep = ExecRequest::shell("echo begun; exec sleep 60");
    let execution = tokio::spawn(async move { other.exec(&sleep).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    engine.signal(signal);
    let start = Instant::now();
    let end = tokio::time::timeout(Duration::from_secs(30), execution).await;
    let end = end.expect("no hang").expect("no panic");
    eprintln!(
        "{signal:?} during an execution: told after {:?}",
        start.elapsed()
    );
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    match end {
        Ok(result) => {
            assert!(
                matches!(result.outcome, Outcome::Unknown { .. }),
                "{result:?}"
            );
            // What came until then is there.
            assert_eq!(result.stdout_text(), "begun\n");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
    }
    ended(&sandbox).await;
    drop(sandbox);
    back(engine, "after an execution").await;
    Ok(())
}

/// Everything else is told too, and soon.
async fn ended(sandbox: &SandboxHandle) {
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
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

async fn during_copy(engine: &mut Engine, signal: Signal) -> sandbox_core::Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let large = folder.path().join("large");
    std::fs::write(&large, vec![7; 24 << 20]).expect("written");
    for inwards in [true, false] {
        let sandbox = std::sync::Arc::new(engine.client().create(&spec()).await?);
        let (other, source) = (sandbox.clone(), large.clone());
        let target = folder.path().join("copy");
        if !inwards {
            sandbox.copy_in(&source, "/workspace/large").await?;
        }
        let copy = tokio::spawn(async move {
            // Again and again: one may be over before the signal comes.
            loop {
                let copied = match inwards {
                    true => other.copy_in(&source, "/workspace/large").await,
                    false => {
                        other
                            .copy_out("/workspace/large", &target, ArtifactLimits::default())
                            .await
                    }
                };
                copied?;
            }
        });
        tokio::time::sleep(Duration::from_millis(400)).await;
        engine.signal(signal);
        let start = Instant::now();
        let end = tokio::time::timeout(Duration::from_secs(30), copy).await;
        let end: Result<(), sandbox_core::Error> = end.expect("no hang").expect("no panic");
        let error = end.expect_err("the engine has ended");
        eprintln!(
            "{signal:?} during a copy: told after {:?}: {error}",
            start.elapsed()
        );
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        ended(&sandbox).await;
        drop(sandbox);
        back(engine, "after a copy").await;
    }
    Ok(())
}

async fn during_create(
    engine: &mut Engine,
    signal: Signal,
    delay: Duration,
) -> sandbox_core::Result<()> {
    let client = engine.client();
    let creation = tokio::spawn(async move { client.create(&spec()).await });
    tokio::time::sleep(delay).await;
    engine.signal(signal);
    told(
        creation,
        &format!("{signal:?} {delay:?} after a creation began"),
    )
    .await;
    back(engine, "after a creation").await;
    Ok(())
}

/// The same, when the backend asks for a given thing: asking an engine what it is takes long on some.
async fn at_request(
    engine: &mut Engine,
    signal: Signal,
    moment: Moment,
) -> sandbox_core::Result<()> {
    let name = unique_name("moment");
    let socket = engine.state().with_file_name(format!("{name}.sock"));
    let proxy = Proxy::start(&engine.socket(), &socket, moment);
    proxy.aim(engine.processes(), signal);
    let client = client_of(engine.config_at(&proxy.address()));
    let creation = tokio::spawn(async move { client.create(&SandboxSpec::new(name)).await });
    tokio::task::block_in_place(|| proxy.wait());
    told(creation, &format!("{signal:?} at {moment:?}")).await;
    // What was asked for is removed by way of the same socket.
    back(engine, &format!("after {moment:?}")).await;
    Ok(())
}

/// Whoever creates a sandbox is told, and soon.
async fn told(creation: JoinHandle<sandbox_core::Result<SandboxHandle>>, what: &str) {
    let start = Instant::now();
    let end = tokio::time::timeout(Duration::from_secs(30), creation).await;
    let end = end.expect("no hang").expect("no panic");
    let told = start.elapsed();
    match end {
        // It was faster than the signal.
        Ok(sandbox) => drop(sandbox),
        Err(error) => {
            eprintln!("{what}: told after {told:?}: {error}");
            let kinds = [
                ErrorKind::SandboxUnavailable,
                ErrorKind::Protocol,
                ErrorKind::SetupFailed,
            ];
            assert!(kinds.contains(&error.kind()), "{:?} {error}", error.kind());
            assert!(told < SOON, "{told:?}");
        }
    }
}

/// A detached sandbox ends with its engine, or outlives it, as its engine's containers do.
async fn detached(engine: &mut Engine, signal: Signal) -> sandbox_core::Result<()> {
    let client = engine.client();
    let kept = spec().detached(true).lifetime(Duration::from_secs(120));
    let first = client.create(&kept).await?;
    let second = client.get(&kept.name).await?;
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
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
    let start = Instant::now();
    let error = client.get(&kept.name).await.expect_err("no engine");
    assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop((first, second));
    if OUTLIVE {
        engine.wait_ended().await;
        engine.resume().await;
        // It is a later client's as if nothing had been.
        let client = engine.client();
        assert_eq!(client.prune().await?, [""; 0]);
        let again = client.get(&kept.name).await?;
        let look = ExecRequest::shell("cat own; pidof sleep | wc -w");
        assert_eq!(again.exec(&look).await?.stdout_text(), "before\n0\n");
        again.kill().await?;
        assert_eq!(engine.containers(), []);
    } else {
        back(engine, "after a detached sandbox").await;
    }
    let error = client.get(&kept.name).await.expect_err("it has ended");
    assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
    assert!(engine.client().list().await?.is_empty());
    Ok(())
}
