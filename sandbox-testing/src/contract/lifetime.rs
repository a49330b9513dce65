//! When sandboxes end, and that they leave nothing.

use std::time::{Duration, Instant};

use sandbox_core::{CapabilityPolicy, ErrorKind, ExecRequest, SandboxOwner};

use super::{ContractTest, TestBackend, TestResult, output, run};

pub const TESTS: &[ContractTest] = &[
    (
        "lifetime::kill_returns_after_the_container_is_removed",
        kill,
    ),
    (
        "lifetime::stop_returns_after_the_container_is_removed",
        stop,
    ),
    ("lifetime::a_dropped_handle_removes_the_container", dropped),
    (
        "lifetime::a_dropped_creation_leaves_nothing",
        dropped_creation,
    ),
    ("lifetime::a_sandbox_ends_after_its_lifetime", time_to_live),
    ("lifetime::a_name_is_used_once", name_taken),
    (
        "lifetime::only_the_creator_finds_its_attached_sandbox_by_name",
        found_by_name,
    ),
    ("lifetime::a_vanished_container_ends_the_sandbox", vanished),
];

fn container(name: &str) -> String {
    format!("sandbox-{name}")
}

fn kill(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = backend.sandbox().await?;
        let id = container(sandbox.name());
        assert!(backend.exists(&id).await);
        sandbox.kill().await?;
        assert!(!backend.exists(&id).await);
        sandbox.kill().await?;
        let error = sandbox
            .exec(&ExecRequest::new("true"))
            .await
            .expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded);
        Ok(())
    })
}

fn found_by_name(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let other = backend.client(CapabilityPolicy::new());
        let created = client.create(&backend.spec()).await?;
        let name = created.name().to_owned();
        let list = client.list_all().await?;
        let own = list.iter().filter(|info| info.name == name);
        let owners = own.map(|info| info.owner.clone()).collect::<Vec<_>>();
        assert_eq!(owners, [Some(SandboxOwner::this_process())], "listed once");
        let list = other.list_all().await?;
        let info = list.iter().find(|info| info.name == name);
        let owner = info.expect("listed").owner.clone().expect("attached");
        for error in [
            other.get(&name).await.expect_err("not its own"),
            other.remove(&name).await.expect_err("not its own"),
        ] {
            assert_eq!(error.kind(), ErrorKind::SandboxAttached, "{error}");
            assert!(error.context().contains(&owner.to_string()), "{error}");
        }
        let found = client.get(&name).await?;
        assert_eq!(output(&found, "echo found").await?, "found\n");
        client.remove(&name).await?;
        let error = client.get(&name).await.expect_err("removed");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        let error = created.shell("true").await.expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        Ok(())
    })
}

fn stop(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = backend.sandbox().await?;
        let start = Instant::now();
        sandbox.stop().await?;
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        assert!(!backend.exists(&container(sandbox.name())).await);
        Ok(())
    })
}

fn dropped(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = backend.sandbox().await?;
        let id = container(sandbox.name());
        drop(sandbox);
        backend.wait_removed(&id, Duration::from_secs(20)).await;
        Ok(())
    })
}

fn dropped_creation(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let (mut cut, mut names) = (0, Vec::new());
        // From before the first request until the container starts.
        for delay in [0, 3, 6, 10, 15, 20, 30, 50, 80, 120] {
            let spec = backend.spec();
            let creation = client.create(&spec);
            let made = tokio::time::timeout(Duration::from_millis(delay), creation).await;
            cut += usize::from(made.is_err());
            drop(made);
            names.push((delay, container(&spec.name)));
        }
        // `settle` also waits for the removal of what the engine has yet to make.
        client.settle().await;
        for (delay, name) in names {
            assert!(!backend.exists(&name).await, "after {delay} ms");
        }
        assert!(cut >= 5, "only {cut} creations were cut off");
        Ok(())
    })
}

fn time_to_live(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client
            .create(
                &backend
                    .spec()
                    .lifetime(backend.expectations().short_lifetime),
            )
            .await?;
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        backend
            .wait_removed(
                &container(sandbox.name()),
                backend.expectations().short_lifetime + Duration::from_secs(20),
            )
            .await;
        Ok(())
    })
}

fn name_taken(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let first = backend.sandbox().await?;
        let client = backend.client(CapabilityPolicy::new());
        let second = client
            .create(&sandbox_core::SandboxSpec::new(first.name()))
            .await;
        assert_eq!(second.expect_err("taken").kind(), ErrorKind::AlreadyExists);
        assert_eq!(output(&first, "echo alive").await?, "alive\n");
        first.kill().await
    })
}

fn vanished(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = std::sync::Arc::new(backend.sandbox().await?);
        let other = sandbox.clone();
        let program =
            tokio::spawn(async move { other.exec(&ExecRequest::new("sleep").arg("60")).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        backend.remove(&container(sandbox.name())).await;
        let start = Instant::now();
        let result = program.await.expect("no panic")?;
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        assert!(
            result.exit_code().is_none() && !result.success(),
            "{result:?}"
        );
        sandbox.kill().await
    })
}
