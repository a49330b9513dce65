//! An API server that is killed in the middle of something.

use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, ExecRequest, Outcome, SandboxClient};
use tokio::time::timeout;

use super::cluster::{Space, run, sandboxes, spec};
use super::server::Server;
use super::{Done, Test};

pub const TESTS: &[Test] = &[
    ("server::it_is_killed_and_comes_back", comes_back),
    ("server::it_is_killed_and_stays_away", stays_away),
    (
        "server::an_end_while_it_is_away_is_told_as_it_was",
        ended_meanwhile,
    ),
];

/// The longest that anybody may be left without a word: the agent's lease, and what a removal waits for a server.
const BOUND: Duration = Duration::from_secs(150);
/// How long a pod may run that nobody comes back to: an agent waits that long for its first visitor.
const LEASE: Duration = Duration::from_secs(180);
/// Lines that an execution writes, two in a second.
const LINES: usize = 60;

/// What an execution writes that takes long enough for a server to end and to start.
fn counting() -> ExecRequest {
    let script =
        format!("i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i+1)); sleep 0.5; done; exit 9");
    ExecRequest::shell(script)
}

/// All that was written, as it must be.
fn counted() -> String {
    (0..LINES).map(|line| format!("{line}\n")).collect()
}

/// The kinds of errors that say that the cluster or the sandbox is not there.
fn is_told(kind: ErrorKind) -> bool {
    [
        ErrorKind::SandboxEnded,
        ErrorKind::SandboxUnavailable,
        ErrorKind::SetupFailed,
        ErrorKind::Protocol,
    ]
    .contains(&kind)
}

fn comes_back() -> Done {
    run(async {
        let space = Space::make().await;
        let mut server = Server::start().await;
        let client = sandboxes(space.config(&server.kubeconfig()));
        everything_at_once(&space, &client, &mut server).await?;
        space.wait_for("afterwards", LEASE, has_ended).await;
        space.is_clean("afterwards").await?;
        Ok(())
    })
}

/// The agent ends executions at their time limits, and this one ended before: that nobody could hear of it until long after is no time out.
fn ended_meanwhile() -> Done {
    run(async {
        let space = Space::make().await;
        let mut server = Server::start().await;
        let client = sandboxes(space.config(&server.kubeconfig()));
        let sandbox = Arc::new(client.create(&spec()).await?);
        let running = Arc::clone(&sandbox);
        let execution = tokio::spawn(async move {
            let request = ExecRequest::shell("sleep 2; echo done").timeout(Duration::from_secs(4));
            running.exec(&request).await
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.kill();
        // Longer than the time limit, and what is allowed for beyond it.
        tokio::time::sleep(Duration::from_secs(12)).await;
        server.resume().await;
        let end = timeout(BOUND, execution).await.expect("no hang");
        let result = end.expect("no panic")?;
        assert_eq!(result.exit_code(), Some(0), "{result:?}");
        assert_eq!(result.stdout_text(), "done\n");
        assert!(sandbox.shell("true").await?.ok());
        sandbox.kill().await?;
        Ok(())
    })
}

fn has_ended(phase: &str) -> bool {
    ["Succeeded", "Failed"].contains(&phase)
}

/// An execution, a copy, creations and a removal are under way when the server is killed.
async fn everything_at_once(
    space: &Space,
    client: &SandboxClient,
    server: &mut Server,
) -> sandbox_core::Result<()> {
    let running = Arc::new(client.create(&spec()).await?);
    let copied = Arc::new(client.create(&spec()).await?);
    let removed = client.create(&spec()).await?;

    let sandbox = running.clone();
    let execution = tokio::spawn(async move { sandbox.exec(&counting()).await });
    let sandbox = copied.clone();
    let copy = tokio::spawn(async move {
        for _ in 0..40 {
            let content = Box::new(Cursor::new(vec![7; 4 << 20]));
            sandbox.put("/workspace/file", 0o644, content).await?;
        }
        sandbox.fetch("/workspace/file", 8 << 20).await
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
    eprintln!("killed; there are {:?}", space.pods().await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resume().await;
    eprintln!("back after {:?}", begin.elapsed());

    let end = timeout(BOUND, execution).await.expect("no hang");
    eprintln!("the execution: {:?}: {end:?}", begin.elapsed());
    match end.expect("no panic") {
        Ok(result) => match result.outcome {
            Outcome::Exited { code } => {
                assert_eq!(code, 9, "{result:?}");
                assert_eq!(result.stdout_text(), counted());
                // It is as if nothing had been.
                assert!(running.shell("true").await?.ok());
            }
            // What came until then is there, from the beginning.
            Outcome::Unknown { .. } => {
                assert!(counted().starts_with(&*result.stdout_text()), "{result:?}");
                assert_ne!(result.stdout_text(), "");
            }
            _ => panic!("{result:?}"),
        },
        Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
    }
    match timeout(BOUND, copy)
        .await
        .expect("no hang")
        .expect("no panic")
    {
        Ok(bytes) => assert!(bytes == [7; 4 << 20], "{} bytes", bytes.len()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
    }
    for creation in creations {
        match timeout(BOUND, creation)
            .await
            .expect("no hang")
            .expect("no panic")
        {
            Ok(made) => {
                // Handed over before, and used afterwards: a whole one, or its user is told.
                match made.shell("exit 3").await {
                    Ok(result) if result.exit_code().is_some() => {
                        assert_eq!(result.exit_code(), Some(3));
                    }
                    Ok(result) => assert!(matches!(result.outcome, Outcome::Unknown { .. })),
                    Err(error) => assert!(is_told(error.kind()), "{error}"),
                }
            }
            Err(error) => {
                eprintln!("a creation: {error}");
                assert!(is_told(error.kind()), "{:?}: {error}", error.kind());
            }
        }
    }
    if let Err(error) = timeout(BOUND, removal)
        .await
        .expect("no hang")
        .expect("no panic")
    {
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.fix().is_some(), "{error}");
    }
    Ok(())
}

/// Whoever waits is told before the lease is long over, and everything ends without anybody.
fn stays_away() -> Done {
    run(async {
        let space = Space::make().await;
        let mut server = Server::start().await;
        let client = sandboxes(space.config(&server.kubeconfig()));
        let sandbox = Arc::new(client.create(&spec()).await?);
        let other = sandbox.clone();
        let sleep = ExecRequest::shell("echo begun; exec sleep 400");
        let execution = tokio::spawn(async move { other.exec(&sleep).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.kill();
        let begin = Instant::now();
        // A creation is told soon: there is nobody whom to ask.
        let error = client.create(&spec()).await.expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        eprintln!("a creation after {:?}: {error}", begin.elapsed());
        let end = timeout(BOUND, execution).await.expect("no hang");
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
        space.wait_for("without a server", LEASE, has_ended).await;
        space.is_clean("without a server").await?;
        Ok(())
    })
}
