//! An API server that is killed during executions, copies, creations and removals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, ExecRequest, Outcome, SandboxClient};
use tokio::time::timeout;

use super::cluster::{run, sandboxes, spec};
use super::server::FaultyServer;
use super::{ClusterTest, TestResult};
use crate::test_namespace::TestNamespace;

pub const TESTS: &[ClusterTest] = &[
    (
        "server::operations_end_as_expected_after_a_restart",
        comes_back,
    ),
    (
        "server::operations_fail_in_time_without_a_server",
        stays_away,
    ),
    (
        "server::an_end_during_an_outage_is_reported_after_it",
        ended_during_outage,
    ),
];

/// The longest wait for an outcome or an error: the lease, and a removal's wait for a server.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(150);
/// The longest that a pod may run without its owner.
const LEASE: Duration = Duration::from_secs(180);
/// Lines that an execution writes, two in a second.
const LINES: usize = 60;

/// A program that runs longer than a server needs to end and start.
fn counting() -> ExecRequest {
    let script =
        format!("i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); sleep 0.5; done; exit 9");
    ExecRequest::shell(script)
}

/// The program's output.
fn counted() -> String {
    (0..LINES).map(|line| format!("{line}\n")).collect()
}

/// Whether an error reports that the cluster or the sandbox cannot be used.
fn is_outage(kind: ErrorKind) -> bool {
    [
        ErrorKind::SandboxEnded,
        ErrorKind::SandboxUnavailable,
        ErrorKind::SetupFailed,
        ErrorKind::Protocol,
    ]
    .contains(&kind)
}

fn comes_back() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let mut server = FaultyServer::start().await;
        let client = sandboxes(namespace.config_with(&server.kubeconfig()));
        everything_at_once(&namespace, &client, &mut server).await?;
        namespace
            .wait_for("after the restart", LEASE, has_ended)
            .await;
        namespace.wait_clean("after the restart").await?;
        Ok(())
    })
}

/// An execution that ends before its time limit is not a timeout, even if its end is known much
/// later.
fn ended_during_outage() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let mut server = FaultyServer::start().await;
        let client = sandboxes(namespace.config_with(&server.kubeconfig()));
        let sandbox = Arc::new(client.create(&spec()).await?);
        let running = Arc::clone(&sandbox);
        let execution = tokio::spawn(async move {
            let request = ExecRequest::shell("sleep 2; echo done").timeout(Duration::from_secs(4));
            running.exec(&request).await
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.kill();
        // Longer than the time limit and its tolerance.
        tokio::time::sleep(Duration::from_secs(12)).await;
        server.resume().await;
        let end = timeout(OUTCOME_TIMEOUT, execution).await.expect("no hang");
        let result = end.expect("no panic")?;
        assert_eq!(result.exit_code(), Some(0), "{result:?}");
        assert_eq!(result.stdout_text(), "done\n");
        assert!(sandbox.shell("true").await?.success());
        sandbox.kill().await?;
        Ok(())
    })
}

fn has_ended(phase: &str) -> bool {
    ["Succeeded", "Failed"].contains(&phase)
}

/// Kills the server during an execution, a copy, creations and a removal, and restarts it.
async fn everything_at_once(
    namespace: &TestNamespace,
    client: &SandboxClient,
    server: &mut FaultyServer,
) -> sandbox_core::Result<()> {
    let running = Arc::new(client.create(&spec()).await?);
    let copied = Arc::new(client.create(&spec()).await?);
    let removed = client.create(&spec()).await?;

    let sandbox = running.clone();
    let execution = tokio::spawn(async move { sandbox.exec(&counting()).await });
    let sandbox = copied.clone();
    let copy = tokio::spawn(async move {
        for _ in 0..40 {
            sandbox.write("/workspace/file", vec![7; 4 << 20]).await?;
        }
        sandbox.read("/workspace/file").await
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let creations = [0, 150, 400, 900].map(|delay| {
        let client = client.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            client.create(&spec()).await
        })
    });
    let removal = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(950)).await;
        removed.kill().await
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.kill();
    let begin = Instant::now();
    eprintln!("killed; there are {:?}", namespace.phases().await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resume().await;
    eprintln!("back after {:?}", begin.elapsed());

    let end = timeout(OUTCOME_TIMEOUT, execution).await.expect("no hang");
    eprintln!("the execution: {:?}: {end:?}", begin.elapsed());
    // The outage is shorter than the lease, so the execution and the sandbox survive it.
    let result = end.expect("no panic")?;
    assert_eq!(result.exit_code(), Some(9), "{result:?}");
    assert_eq!(result.stdout_text(), counted());
    assert!(running.shell("true").await?.success());
    match timeout(OUTCOME_TIMEOUT, copy)
        .await
        .expect("no hang")
        .expect("no panic")
    {
        Ok(bytes) => assert!(bytes == [7; 4 << 20], "{} bytes", bytes.len()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
    }
    for creation in creations {
        match timeout(OUTCOME_TIMEOUT, creation)
            .await
            .expect("no hang")
            .expect("no panic")
        {
            Ok(made) => {
                // A sandbox that was created before the outage works, or its use is an error.
                match made.shell("exit 3").await {
                    Ok(result) if result.exit_code().is_some() => {
                        assert_eq!(result.exit_code(), Some(3));
                    }
                    Ok(result) => assert!(matches!(result.outcome, Outcome::Unknown { .. })),
                    Err(error) => assert!(is_outage(error.kind()), "{error}"),
                }
            }
            Err(error) => {
                eprintln!("a creation: {error}");
                assert!(is_outage(error.kind()), "{:?}: {error}", error.kind());
            }
        }
    }
    if let Err(error) = timeout(OUTCOME_TIMEOUT, removal)
        .await
        .expect("no hang")
        .expect("no panic")
    {
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.fix().is_some(), "{error}");
    }
    Ok(())
}

/// Operations fail soon after the lease, and the pods end without their owner.
fn stays_away() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let mut server = FaultyServer::start().await;
        let client = sandboxes(namespace.config_with(&server.kubeconfig()));
        let sandbox = Arc::new(client.create(&spec()).await?);
        let other = sandbox.clone();
        let sleep = ExecRequest::shell("echo begun; exec sleep 400");
        let execution = tokio::spawn(async move { other.exec(&sleep).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.kill();
        let begin = Instant::now();
        // A creation fails soon, because the server is unreachable.
        let error = client.create(&spec()).await.expect_err("no server");
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        eprintln!("a creation after {:?}: {error}", begin.elapsed());
        let end = timeout(OUTCOME_TIMEOUT, execution).await.expect("no hang");
        eprintln!("the execution after {:?}: {end:?}", begin.elapsed());
        match end.expect("no panic") {
            Ok(result) => {
                assert!(
                    matches!(result.outcome, Outcome::Unknown { .. }),
                    "{result:?}"
                );
                assert_eq!(result.stdout_text(), "begun\n");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
        }
        let error = sandbox.shell("true").await.expect_err("it has ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        drop(sandbox);
        namespace
            .wait_for("without a server", LEASE, has_ended)
            .await;
        namespace.wait_clean("without a server").await?;
        Ok(())
    })
}
