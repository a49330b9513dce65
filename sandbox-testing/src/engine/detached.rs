//! Sandboxes that outlive their creators.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::spi::{Backend, unique_name};
use sandbox_core::{
    CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxClient, SandboxSpec, SandboxState,
};

use super::owner::{self, READY};
use super::{EngineTest, TestEngine};
use crate::contract::{TestBackend, TestResult, client_of, output, run};

pub const TESTS: &[EngineTest] = &[
    (
        "detached::another_client_uses_it_and_ends_it",
        used_by_another,
    ),
    ("detached::it_survives_its_killed_creator", creator_killed),
    ("detached::it_ends_after_its_lifetime", time_over),
    ("detached::its_key_is_in_the_state_folder_alone", key),
    (
        "detached::a_client_with_another_state_folder_cannot_use_or_remove_it",
        other_state_folder,
    ),
    ("detached::a_cancelled_creation_leaves_nothing", given_up),
    (
        "detached::the_record_of_a_vanished_container_is_removed",
        vanished,
    ),
    (
        "detached::code_that_takes_all_processes_does_not_lock_clients_out",
        crowded,
    ),
    (
        "detached::the_state_folder_is_not_seen_in_a_root_around_it",
        hidden,
    ),
    (
        "detached::the_tier_without_a_policy_supports_it",
        without_policy,
    ),
    ("detached::the_code_cannot_reach_the_agents_socket", socket),
];

fn container(name: &str) -> String {
    format!("sandbox-{name}")
}

fn client_in(engine: &'static TestEngine, state: &Path) -> SandboxClient {
    engine.client_with(engine.config().state_folder(state), CapabilityPolicy::new())
}

fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("kept"))
        .detached(true)
        .lifetime(Duration::from_secs(120))
}

/// A state folder that is removed with the test.
struct State(tempfile::TempDir);

impl State {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// The path of a folder that does not exist yet.
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("state")
    }
}

/// The number of records in a state folder.
fn kept(state: &Path) -> usize {
    std::fs::read_dir(state.join("containers")).map_or(0, Iterator::count)
}

fn used_by_another(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let spec = spec().label("team", "x");
        let name = spec.name.clone();
        let first = client.create(&spec).await?;
        output(&first, "echo one > /workspace/file; echo written").await?;
        let other = client_in(engine, &state.path());
        let second = other.get(&name).await?;
        assert_eq!(output(&second, "cat /workspace/file").await?, "one\n");
        drop(first);
        assert_eq!(output(&second, "cat file; id -u").await?, "one\n1000\n");
        let listed = other.list().await?;
        let info = listed
            .iter()
            .find(|info| info.name == name)
            .expect("listed");
        assert_eq!(info.state, SandboxState::Running);
        assert_eq!(info.labels["team"], "x");
        assert!(info.expires.is_some_and(|end| end > info.created));
        let taken = client.create(&spec).await.expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{taken}");
        let logs = second.logs(None).await?;
        assert!(String::from_utf8_lossy(&logs).contains("written"));
        drop(second);
        other.get(&name).await?.stop().await?;
        assert!(!engine.exists(&container(&name)).await);
        assert_eq!(kept(&state.path()), 0);
        for error in [
            other.get(&name).await.expect_err("ended"),
            other.remove(&name).await.expect_err("ended"),
        ] {
            assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        }
        Ok(())
    })
}

fn creator_killed(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let name = unique_name("kept");
        let mut owner = owner::detached(&name, &state.path());
        owner.wait_until(READY);
        owner.kill();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let client = client_in(engine, &state.path());
        let sandbox = client.get(&name).await?;
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        sandbox.kill().await?;
        assert!(!engine.exists(&container(&name)).await);
        Ok(())
    })
}

fn time_over(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let spec = spec().lifetime(Duration::from_secs(3));
        let sandbox = client.create(&spec).await?;
        let sleep = ExecRequest::new("sleep").arg("60");
        let result = sandbox.exec(&sleep).await?;
        assert!(
            matches!(&result.outcome, Outcome::Unknown { reason } if reason.contains("time to live")),
            "{result:?}"
        );
        drop(sandbox);
        engine
            .wait_removed(&container(&spec.name), Duration::from_secs(20))
            .await;
        assert!(client.list().await?.is_empty());
        assert_eq!(kept(&state.path()), 0);
        let error = client.get(&spec.name).await.expect_err("over");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        Ok(())
    })
}

fn key(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let sandbox = client.create(&spec()).await?;
        let id = engine
            .api()
            .inspect_container(&container(sandbox.name()), None)
            .await
            .expect("there");
        let folder = state
            .path()
            .join("containers")
            .join(id.id.clone().expect("an id"));
        let key = std::fs::read(folder.join("key")).expect("a key");
        assert_eq!(key.len(), 32);
        let shown = format!("{id:?}");
        let hex = key
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let list = format!("{key:?}");
        assert!(!shown.contains(&hex) && !shown.contains(&list));
        // A client with another key is refused, and other clients are not affected.
        std::fs::write(folder.join("key"), [0; 32]).expect("written");
        let error = client.get(sandbox.name()).await.expect_err("wrong key");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        sandbox.kill().await
    })
}

fn other_state_folder(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    let other = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let sandbox = client.create(&spec()).await?;
        let other_client = client_in(engine, &other.path());
        let error = other_client.get(sandbox.name()).await.expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        assert!(error.fix().is_some_and(|fix| fix.contains("state folder")));
        assert!(other_client.list().await?.is_empty());
        assert_eq!(output(&sandbox, "echo alive").await?, "alive\n");
        sandbox.kill().await
    })
}

fn given_up(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let (mut cut, mut names) = (0, Vec::new());
        for delay in [0, 5, 15, 50, 120, 200, 260, 320, 400, 500] {
            let spec = spec();
            let creation = client.create(&spec);
            let made = tokio::time::timeout(Duration::from_millis(delay), creation).await;
            match made {
                Err(_) => cut += 1,
                Ok(made) => made?.kill().await?,
            }
            names.push(container(&spec.name));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        for name in names {
            engine.wait_removed(&name, Duration::from_secs(20)).await;
        }
        assert!(cut >= 4, "only {cut} creations were cut off");
        assert_eq!(kept(&state.path()), 0);
        Ok(())
    })
}

fn vanished(engine: &'static TestEngine) -> TestResult {
    use bollard::query_parameters::RemoveContainerOptions;
    let state = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let spec = spec();
        drop(client.create(&spec).await?);
        let options = RemoveContainerOptions {
            force: true,
            ..Default::default()
        };
        let (engine, container) = (engine.api(), container(&spec.name));
        let removed = engine.remove_container(&container, Some(options));
        removed.await.expect("removed without the backend");
        assert_eq!(kept(&state.path()), 1);
        assert!(client.list().await?.is_empty());
        assert_eq!(kept(&state.path()), 0);
        // The name can be used again.
        client.create(&spec).await?.kill().await
    })
}

fn crowded(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.pids = Some(16);
        let backend = engine.backend(engine.config().state_folder(state.path()));
        let client = client_of(backend, policy);
        let sandbox = client.create(&spec()).await?;
        let greedy = "while :; do sleep 100 & done 2>/dev/null";
        let greedy = ExecRequest::shell(greedy);
        let running = sandbox.start(&greedy, sandbox_core::Stdin::Null).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut served = 0;
        for _ in 0..5 {
            match client.get(sandbox.name()).await {
                Ok(_) => served += 1,
                Err(error) => {
                    // The error has a kind and a fix.
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    assert!(error.fix().is_some(), "{error}");
                }
            }
        }
        eprintln!("{served} of 5 clients were served in a crowded sandbox");
        drop(running);
        client.remove(sandbox.name()).await?;
        assert!(!engine.exists(&container(sandbox.name())).await);
        Ok(())
    })
}

fn hidden(engine: &'static TestEngine) -> TestResult {
    let place = tempfile::tempdir().expect("a folder");
    let state = place.path().join("state");
    std::fs::write(place.path().join("data"), "seen").expect("written");
    {
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path(), open).expect("mode");
    }
    run(async {
        let holder = client_in(engine, &state).create(&spec()).await?;
        assert_eq!(kept(&state), 1);
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(vec![place.path().into()]);
        policy.allow_partial = sandbox_core::Capability::ALL.to_vec();
        for user in ["0:0", "1000:1000"] {
            let backend = engine.backend(engine.config().state_folder(&state));
            let client = client_of(backend, policy.clone());
            let spec = SandboxSpec::new(unique_name("curious")).user(user);
            let sandbox = client.create(&spec).await?;
            let root = place.path().display();
            let script = format!(
                "cat {root}/data; echo; find {root}/state | wc -l; ls {root}/state/* || true"
            );
            assert_eq!(output(&sandbox, &script).await?, "seen\n1\n", "as {user}");
            sandbox.kill().await?;
        }
        holder.kill().await
    })
}

/// A client that accepts that nothing is enforced.
fn without_gate(backend: Arc<dyn Backend>) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    let accepted = sandbox_core::Capability::ALL.iter().copied();
    policy.allow_unenforced = accepted
        .filter(|capability| {
            !matches!(
                capability,
                sandbox_core::Capability::StdoutMaxBytes | sandbox_core::Capability::StderrMaxBytes
            )
        })
        .collect();
    client_of(backend, policy)
}

fn without_policy(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let backend = || engine.backend_without_policy(engine.config().state_folder(state.path()));
        let client = without_gate(backend());
        let spec = spec();
        drop(client.create(&spec).await?);
        let error = client_in(engine, &state.path())
            .get(&spec.name)
            .await
            .expect_err("another tier's");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains(engine.family.unsafe_tier)),
            "{error}"
        );
        let sandbox = client.get(&spec.name).await?;
        assert_eq!(output(&sandbox, "id -u").await?, "0\n");
        client.remove(&spec.name).await?;
        assert!(!engine.exists(&container(&spec.name)).await);
        Ok(())
    })
}

fn socket(engine: &'static TestEngine) -> TestResult {
    let state = State::new();
    run(async {
        let client = client_in(engine, &state.path());
        let sandbox = client.create(&spec()).await?;
        let script = "ls /.sandbox-socket 2>&1; /.sandbox-agent/agent connect /.sandbox-socket/agent </dev/null 2>&1; echo $?";
        let listing = output(&sandbox, script).await?;
        assert!(
            listing.contains("Permission denied") && listing.ends_with("68\n"),
            "{listing}"
        );
        sandbox.kill().await
    })
}
