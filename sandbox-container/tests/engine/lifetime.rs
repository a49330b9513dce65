//! When sandboxes end, and that nothing is left of them.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest};

use crate::family;
use crate::suite::Test;
use crate::suite::engine::{client, exists, output, remove, run, sandbox, spec, wait_gone};

pub const TESTS: &[Test] = &[
    ("lifetime::kill_returns_when_the_container_is_gone", kill),
    ("lifetime::stop_ends_programs_and_the_container", stop),
    (
        "lifetime::a_dropped_handle_takes_the_container_along",
        dropped,
    ),
    (
        "lifetime::a_dropped_creation_leaves_nothing",
        dropped_creation,
    ),
    ("lifetime::the_time_to_live_is_over", time_to_live),
    ("lifetime::a_name_is_taken_once", name_taken),
    ("lifetime::a_container_that_vanishes_is_told", vanished),
];

fn container(name: &str) -> String {
    format!("sandbox-{name}")
}

fn kill() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let id = container(sandbox.name());
        assert!(exists(&id).await);
        sandbox.kill().await?;
        assert!(!exists(&id).await);
        sandbox.kill().await?;
        let error = sandbox
            .exec(&ExecRequest::new("true"))
            .await
            .expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded);
        Ok(())
    })
}

fn stop() -> Result<(), Failed> {
    run(async {
        let sandbox = std::sync::Arc::new(sandbox().await?);
        let other = sandbox.clone();
        let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
        let program = tokio::spawn(async move { other.exec(&ExecRequest::shell(script)).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        let start = Instant::now();
        sandbox.stop().await?;
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert!(!exists(&container(sandbox.name())).await);
        let result = program.await.expect("no panic")?;
        assert_eq!(result.stdout_text(), "ready\nasked\n", "{result:?}");
        Ok(())
    })
}

fn dropped() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let id = container(sandbox.name());
        drop(sandbox);
        wait_gone(&id, Duration::from_secs(5)).await;
        Ok(())
    })
}

fn dropped_creation() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let mut cut = 0;
        // From before the first request to well into the start of the container.
        for delay in [0, 3, 6, 10, 15, 20, 30, 50, 80, 120] {
            let spec = spec();
            let creation = client.create(&spec);
            let made = tokio::time::timeout(Duration::from_millis(delay), creation).await;
            cut += usize::from(made.is_err());
            drop(made);
            // A program that ends now leaves nothing, also of what the engine did not know of yet.
            client.settle().await;
            assert!(!exists(&container(&spec.name)).await, "after {delay} ms");
        }
        assert!(cut >= 5, "only {cut} creations were cut off");
        Ok(())
    })
}

fn time_to_live() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let sandbox = client.create(&spec().lifetime(family::SHORT_LIFE)).await?;
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        wait_gone(
            &container(sandbox.name()),
            family::SHORT_LIFE + Duration::from_secs(5),
        )
        .await;
        Ok(())
    })
}

fn name_taken() -> Result<(), Failed> {
    run(async {
        let first = sandbox().await?;
        let client = client(CapabilityPolicy::new());
        let second = client
            .create(&sandbox_core::SandboxSpec::new(first.name()))
            .await;
        assert_eq!(second.expect_err("taken").kind(), ErrorKind::AlreadyExists);
        assert_eq!(output(&first, "echo alive").await?, "alive\n");
        first.kill().await
    })
}

fn vanished() -> Result<(), Failed> {
    run(async {
        let sandbox = std::sync::Arc::new(sandbox().await?);
        let other = sandbox.clone();
        let program =
            tokio::spawn(async move { other.exec(&ExecRequest::new("sleep").arg("20")).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        remove(&container(sandbox.name())).await;
        let start = Instant::now();
        let result = program.await.expect("no panic")?;
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert!(result.exit_code().is_none() && !result.ok(), "{result:?}");
        sandbox.kill().await
    })
}
