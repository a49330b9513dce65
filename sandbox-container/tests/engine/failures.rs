//! Failures: typed, soon, with a fix.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{Capability, CapabilityPolicy, Error, ErrorKind};

use crate::family::{Backend, Config};
use crate::suite::engine::{client, client_of, config, run, spec};
use crate::suite::{COMMAND, Test};

pub const WITH_ENGINE: &[Test] = &[
    ("failures::an_image_that_is_not_there", missing_image),
    ("failures::a_reference_that_is_none", bad_reference),
    ("failures::a_runtime_that_is_not_there", missing_runtime),
    ("failures::a_root_that_is_not_there", missing_root),
    ("failures::what_cannot_be_enforced_is_refused", refused),
    ("failures::an_agent_that_does_not_start", broken_agent),
];

pub const WITHOUT_ENGINE: &[Test] = &[
    ("failures::no_socket", no_socket),
    ("failures::a_socket_where_nobody_listens", stale_socket),
    ("failures::an_engine_that_does_not_answer", silent_engine),
    ("failures::an_address_of_no_engine", not_an_engine),
];

/// The error of creating a sandbox with this configuration.
async fn error_of(config: Config) -> Error {
    let client = client_of(Backend::new(config), CapabilityPolicy::new());
    client.create(&spec()).await.expect_err("no sandbox")
}

/// The error of creating a sandbox where no engine answers, which must come within two seconds.
async fn no_engine(config: Config) -> Error {
    let client = client_of(Backend::new(config), CapabilityPolicy::new());
    let start = Instant::now();
    let error = client.create(&spec()).await.expect_err("no sandbox");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}: {error}",
        start.elapsed()
    );
    error
}

fn unavailable(config: Config, says: &str) -> Result<(), Failed> {
    run(async {
        let error = no_engine(config.clone()).await;
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.fix().is_some(), "{error}");
        let findings = client_of(Backend::new(config), CapabilityPolicy::new())
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

fn no_socket() -> Result<(), Failed> {
    unavailable(
        config().host("unix:///nonexistent/engine.sock"),
        "no such socket",
    )
}

fn stale_socket() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("engine.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    unavailable(
        config().host(format!("unix://{}", path.display())),
        "nobody listens",
    )
}

fn silent_engine() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("engine.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    unavailable(
        config().host(format!("unix://{}", path.display())),
        "no answer in time",
    )
}

fn not_an_engine() -> Result<(), Failed> {
    unavailable(config().host("ssh://somewhere"), "ssh://somewhere")
}

fn missing_image() -> Result<(), Failed> {
    run(async {
        let error = error_of(config().default_image("sandbox-test/nothing:here")).await;
        assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error}");
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains(&format!("{COMMAND} pull"))),
            "{error}"
        );
        Ok(())
    })
}

fn bad_reference() -> Result<(), Failed> {
    run(async {
        for reference in ["../containers/json", "a?b", "a b"] {
            let error = error_of(config().default_image(reference)).await;
            assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{error}");
        }
        Ok(())
    })
}

fn missing_runtime() -> Result<(), Failed> {
    run(async {
        let error = error_of(config().runtime("no-such-runtime")).await;
        assert_eq!(error.kind(), ErrorKind::SandboxUnavailable, "{error}");
        assert!(error.to_string().contains("no-such-runtime"), "{error}");
        Ok(())
    })
}

fn missing_root() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(vec!["/nonexistent/folder".into()]);
        let error = client(policy)
            .create(&spec())
            .await
            .expect_err("no such folder");
        assert!(error.to_string().contains("/nonexistent/folder"), "{error}");
        Ok(())
    })
}

fn refused() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.network = Some(NetworkPolicy::Allow(vec![
            "example.org".parse().expect("a rule"),
        ]));
        let error = client(policy)
            .create(&spec())
            .await
            .expect_err("no rules by name yet");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let unmet = error.unmet().iter().map(|unmet| unmet.demand.capability);
        assert!(
            unmet.collect::<Vec<_>>().contains(&Capability::Egress),
            "{error}"
        );
        Ok(())
    })
}

fn broken_agent() -> Result<(), Failed> {
    run(async {
        let start = Instant::now();
        let config = config().agent(b"no program at all".as_slice());
        let spec = spec();
        let client = client_of(Backend::new(config), CapabilityPolicy::new());
        let error = client.create(&spec).await.expect_err("no agent");
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}: {error}",
            start.elapsed()
        );
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert!(error.to_string().contains("exec format error"), "{error}");
        let name = format!("sandbox-{}", spec.name);
        crate::suite::engine::wait_gone(&name, Duration::from_secs(5)).await;
        crate::suite::volume::remove(b"no program at all").await;
        Ok(())
    })
}
