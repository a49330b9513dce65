//! Failures: each has an error kind and a fix, and comes in time.

use std::time::{Duration, Instant};

use sandbox_container::ContainerConfig;
use sandbox_core::{ByteSize, Capability, CapabilityPolicy, Enforcement, Error, ErrorKind};

use super::{EngineTest, TestEngine};
use crate::contract::{TestBackend, TestResult, run};

pub const WITH_ENGINE: &[EngineTest] = &[
    ("failures::a_missing_image_is_reported", missing_image),
    (
        "failures::an_invalid_image_reference_is_refused",
        bad_reference,
    ),
    ("failures::a_missing_runtime_is_reported", missing_runtime),
    ("failures::a_missing_root_is_reported", missing_root),
    ("failures::an_unenforceable_policy_is_refused", refused),
    (
        "failures::an_agent_that_does_not_start_is_reported",
        broken_agent,
    ),
];

pub const WITHOUT_ENGINE: &[EngineTest] = &[
    ("failures::a_missing_socket_is_unavailable", no_socket),
    (
        "failures::a_socket_without_a_listener_is_unavailable",
        stale_socket,
    ),
    (
        "failures::an_engine_that_does_not_answer_is_unavailable",
        silent_engine,
    ),
    (
        "failures::a_server_that_is_no_engine_is_unavailable",
        not_an_engine,
    ),
];

/// The error of creating a sandbox with this configuration.
async fn error_of(engine: &'static TestEngine, config: ContainerConfig) -> Error {
    let client = engine.client_with(config, CapabilityPolicy::new());
    client.create(&engine.spec()).await.expect_err("no sandbox")
}

/// The error of creating a sandbox where no engine answers. It must not wait for one.
async fn no_engine(engine: &'static TestEngine, config: ContainerConfig) -> Error {
    let client = engine.client_with(config, CapabilityPolicy::new());
    let start = Instant::now();
    let error = client.create(&engine.spec()).await.expect_err("no sandbox");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}: {error}",
        start.elapsed()
    );
    error
}

fn unavailable(engine: &'static TestEngine, config: ContainerConfig, says: &str) -> TestResult {
    run(async {
        let error = no_engine(engine, config.clone()).await;
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.fix().is_some(), "{error}");
        let findings = engine
            .client_with(config, CapabilityPolicy::new())
            .diagnose()
            .await;
        assert!(
            findings
                .iter()
                .any(|finding| !finding.present && !finding.fix.is_empty())
        );
        Ok(())
    })
}

fn no_socket(engine: &'static TestEngine) -> TestResult {
    unavailable(
        engine,
        engine.config().host("unix:///nonexistent/engine.sock"),
        "no such socket",
    )
}

fn stale_socket(engine: &'static TestEngine) -> TestResult {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("engine.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    unavailable(
        engine,
        engine.config().host(format!("unix://{}", path.display())),
        "no process listens",
    )
}

fn silent_engine(engine: &'static TestEngine) -> TestResult {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("engine.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    unavailable(
        engine,
        engine.config().host(format!("unix://{}", path.display())),
        "no answer in 10 s",
    )
}

fn not_an_engine(engine: &'static TestEngine) -> TestResult {
    unavailable(
        engine,
        engine.config().host("ssh://somewhere"),
        "ssh://somewhere",
    )
}

fn missing_image(engine: &'static TestEngine) -> TestResult {
    run(async {
        let error = error_of(
            engine,
            engine.config().default_image("sandbox-test/nothing:here"),
        )
        .await;
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains(&format!("{} pull", engine.family.command))),
            "{error}"
        );
        Ok(())
    })
}

fn bad_reference(engine: &'static TestEngine) -> TestResult {
    run(async {
        for reference in ["../containers/json", "a?b", "a b"] {
            let error = error_of(engine, engine.config().default_image(reference)).await;
            assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        }
        Ok(())
    })
}

fn missing_runtime(engine: &'static TestEngine) -> TestResult {
    run(async {
        let error = error_of(engine, engine.config().runtime("no-such-runtime")).await;
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.to_string().contains("no-such-runtime"), "{error}");
        Ok(())
    })
}

fn missing_root(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(vec!["/nonexistent/folder".into()]);
        let error = engine
            .client(policy)
            .create(&engine.spec())
            .await
            .expect_err("no such folder");
        assert!(error.to_string().contains("/nonexistent/folder"), "{error}");
        Ok(())
    })
}

fn refused(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.disk = Some(ByteSize::mib(64));
        // Most engines have no quotas for it.
        let spec = engine.spec().writable_root(true);
        match engine.client(policy).create(&spec).await {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
                let mut unmet = error.unmet().iter().map(|unmet| unmet.demand.capability);
                assert!(
                    unmet.any(|capability| capability == Capability::Disk),
                    "{error}"
                );
                Ok(())
            }
            Ok(sandbox) => {
                let disk = sandbox.enforcement().get(Capability::Disk);
                assert!(disk.is_some_and(Enforcement::is_enforced), "{disk:?}");
                sandbox.kill().await
            }
        }
    })
}

fn broken_agent(engine: &'static TestEngine) -> TestResult {
    run(async {
        let config = engine.config().agent(b"no program at all".as_slice());
        let spec = engine.spec();
        let client = engine.client_with(config, CapabilityPolicy::new());
        let error = client.create(&spec).await.expect_err("no agent");
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        // Not that of an agent that runs and does not greet its client.
        assert!(error.to_string().contains("exec format error"), "{error}");
        let name = format!("sandbox-{}", spec.name);
        engine.wait_removed(&name, Duration::from_secs(20)).await;
        engine.remove_agent(b"no program at all").await;
        Ok(())
    })
}
