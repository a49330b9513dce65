//! Containers that the backend has not made, and sandboxes that become images.

use std::task::Poll;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions};
use sandbox_core::spi::unique_name;
use sandbox_core::{
    Capability, CapabilityPolicy, ErrorKind, ExecRequest, Outcome, SandboxClient, TerminalSize,
};

use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, LANGUAGES, TestResult, output, run, shell};
use crate::wait::wait_until_async;

pub const TESTS: &[EngineTest] = &[
    (
        "adopt::a_foreign_container_is_entered_and_left_as_it_was",
        entered,
    ),
    ("adopt::admission_checks_a_foreign_container", gate),
    ("adopt::processes_end_with_the_handle", ends),
    ("adopt::programs_get_terminals", terminals),
    ("adopt::sessions_show_plots", sessions),
    (
        "adopt::a_missing_or_stopped_container_is_an_error",
        missing_or_stopped,
    ),
    ("adopt::a_read_only_root_cannot_be_entered", read_only),
    (
        "adopt::an_interrupted_adoption_leaves_nothing_in_the_container",
        interrupted,
    ),
];

pub fn no_network() -> HostConfig {
    HostConfig {
        network_mode: Some("none".into()),
        ..HostConfig::default()
    }
}

/// A container that the backend has not made. `ContainerFixture::remove` removes it.
pub struct ContainerFixture {
    engine: &'static TestEngine,
    pub name: String,
}

impl ContainerFixture {
    pub async fn start(
        engine: &'static TestEngine,
        image: &str,
        command: &[&str],
        host: HostConfig,
    ) -> Self {
        let name = unique_name("foreign");
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(command.iter().map(|&part| part.to_owned()).collect()),
            cmd: Some(Vec::new()),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            ..CreateContainerOptions::default()
        };
        let api = engine.api();
        api.create_container(Some(options), body)
            .await
            .expect("container");
        api.start_container(&name, None).await.expect("started");
        Self { engine, name }
    }

    async fn busybox(engine: &'static TestEngine, command: &[&str]) -> Self {
        Self::start(engine, BUSYBOX, command, no_network()).await
    }

    async fn changes(&self) -> Vec<String> {
        let changes = self
            .engine
            .api()
            .container_changes(&self.name)
            .await
            .expect("changes");
        changes
            .into_iter()
            .flatten()
            .map(|change| change.path)
            .collect()
    }

    async fn is_running(&self) -> bool {
        let found = match self.engine.api().inspect_container(&self.name, None).await {
            // Podman's state of a container that has ended and is not cleaned up. Docker's API does
            // not know it.
            Err(Error::JsonDataError { message, .. }) if message.contains("`stopped`") => {
                return false;
            }
            found => found.expect("container"),
        };
        found.state.and_then(|state| state.running) == Some(true)
    }

    pub async fn remove(self) {
        let options = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        self.engine
            .api()
            .remove_container(&self.name, Some(options))
            .await
            .expect("removed");
    }
}

/// A client that accepts what cannot be enforced in a foreign container.
pub fn accepting(engine: &'static TestEngine, more: &[Capability]) -> SandboxClient {
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = vec![Capability::EnvVarAccess, Capability::Processes];
    policy.allow_unenforced = more.to_vec();
    engine.client(policy)
}

fn entered(engine: &'static TestEngine) -> TestResult {
    run(async {
        let foreign = ContainerFixture::busybox(engine, &["/bin/sleep", "300"]).await;
        let before = foreign.changes().await;
        let sandbox = accepting(engine, &[])
            .adopt(&foreign.name, &engine.spec())
            .await?;
        assert_eq!(
            foreign.changes().await,
            before,
            "the agent's program is gone"
        );
        assert_eq!(output(&sandbox, "pwd").await?, "/\n");
        sandbox.stop().await?;
        assert!(foreign.is_running().await, "never stopped");
        let left = foreign.changes().await;
        assert!(left.iter().all(|path| !path.contains("agent")), "{left:?}");
        foreign.remove().await;
        Ok(())
    })
}

/// Drops a future after this many polls. Returns its result if it is ready before.
async fn at_most<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

fn interrupted(engine: &'static TestEngine) -> TestResult {
    run(async {
        let foreign = ContainerFixture::busybox(engine, &["/bin/sleep", "300"]).await;
        let before = foreign.changes().await;
        let client = accepting(engine, &[]);
        // Finds the engine first, so that the attempts are interrupted in the adoption itself.
        client
            .adopt(&foreign.name, &engine.spec())
            .await?
            .kill()
            .await?;
        let mut completed = false;
        for polls in 0..MOST_POLLS {
            let spec = engine.spec();
            let adopted = at_most(polls, client.adopt(&foreign.name, &spec)).await;
            client.settle().await;
            assert_eq!(foreign.changes().await, before, "after {polls} polls");
            if let Some(adopted) = adopted {
                adopted?.kill().await?;
                completed = true;
                break;
            }
        }
        assert!(
            completed,
            "no adoption was complete after {MOST_POLLS} polls"
        );
        foreign.remove().await;
        Ok(())
    })
}

/// More polls than an adoption takes.
const MOST_POLLS: usize = 200;

fn gate(engine: &'static TestEngine) -> TestResult {
    run(async {
        let host = HostConfig {
            binds: Some(vec!["/usr:/host:ro".into()]),
            ..HostConfig::default()
        };
        let foreign = ContainerFixture::start(engine, BUSYBOX, &["/bin/sleep", "300"], host).await;
        let plain = engine.client(CapabilityPolicy::new());
        let error = plain
            .adopt(&foreign.name, &engine.spec())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
        let mut unmet = error
            .unmet()
            .iter()
            .map(|unmet| unmet.demand.capability)
            .collect::<Vec<_>>();
        unmet.sort();
        use Capability::*;
        assert_eq!(
            unmet,
            [FilesystemReadRoots, NetworkAccess, EnvVarAccess, Processes]
        );
        assert!(error.to_string().contains("/usr of the host"), "{error}");
        let client = accepting(engine, &[FilesystemReadRoots, NetworkAccess]);
        let sandbox = client.adopt(&foreign.name, &engine.spec()).await?;
        sandbox.kill().await?;
        foreign.remove().await;
        Ok(())
    })
}

fn terminals(engine: &'static TestEngine) -> TestResult {
    run(async {
        let foreign = ContainerFixture::busybox(engine, &["sleep", "600"]).await;
        let client = accepting(engine, &[]);
        let sandbox = client.adopt(&foreign.name, &engine.spec()).await?;
        let request = ExecRequest::shell("stty size; : </dev/tty && echo own");
        let request = request.terminal(TerminalSize::new(33, 101));
        let result = sandbox.exec(&request).await?;
        assert_eq!(result.stdout_text(), "33 101\r\nown\r\n");
        drop(sandbox);
        foreign.remove().await;
        Ok(())
    })
}

fn sessions(engine: &'static TestEngine) -> TestResult {
    run(async {
        let command = ["/bin/sleep", "300"];
        let foreign = ContainerFixture::start(engine, LANGUAGES, &command, no_network()).await;
        let client = accepting(engine, &[]);
        let sandbox = client.adopt(&foreign.name, &engine.spec()).await?;
        crate::sessions::python::state_is_kept(&sandbox).await;
        crate::sessions::plot_libraries::python_shows_figures_and_tables(&sandbox).await;
        drop(sandbox);
        foreign.remove().await;
        Ok(())
    })
}

fn ends(engine: &'static TestEngine) -> TestResult {
    run(async {
        let foreign = ContainerFixture::busybox(engine, &["/bin/sleep", "300"]).await;
        let client = accepting(engine, &[]);
        let sandbox = client.adopt(&foreign.name, &engine.spec()).await?;
        let started = sandbox
            .start(
                &ExecRequest::shell("exec sleep 287"),
                sandbox_core::Stdin::Null,
            )
            .await?;
        let other = client.adopt(&foreign.name, &engine.spec()).await?;
        let runs = "ps | grep -c '[s]leep 287'";
        assert_eq!(shell(&other, runs).await?.stdout_text(), "1\n");
        drop(started);
        drop(sandbox);
        wait_until_async(
            "the process has ended",
            Duration::from_secs(20),
            async || {
                let count = shell(&other, runs).await.expect("an execution");
                count.stdout_text() == "0\n"
            },
        )
        .await;
        // The sandbox ends with the container.
        foreign.remove().await;
        let error = other.exec(&ExecRequest::shell("true")).await;
        let ended = match error {
            Err(error) => error.kind() == ErrorKind::SandboxEnded,
            Ok(result) => matches!(result.outcome, Outcome::Unknown { .. }),
        };
        assert!(ended);
        other.kill().await
    })
}

fn missing_or_stopped(engine: &'static TestEngine) -> TestResult {
    run(async {
        let client = accepting(engine, &[]);
        let error = client
            .adopt("no-such-container", &engine.spec())
            .await
            .expect_err("none");
        assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        for bad in ["", "../images", "a b", "-x"] {
            let error = client.adopt(bad, &engine.spec()).await.expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        }
        let foreign = ContainerFixture::busybox(engine, &["/bin/true"]).await;
        wait_until_async(
            "the container has ended",
            Duration::from_secs(20),
            async || !foreign.is_running().await,
        )
        .await;
        let error = client
            .adopt(&foreign.name, &engine.spec())
            .await
            .expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        foreign.remove().await;
        let sandbox = client.create(&engine.spec()).await?;
        let name = format!("sandbox-{}", sandbox.name());
        let error = client
            .adopt(&name, &engine.spec())
            .await
            .expect_err("a sandbox");
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        sandbox.kill().await
    })
}

fn read_only(engine: &'static TestEngine) -> TestResult {
    run(async {
        let host = HostConfig {
            network_mode: Some("none".into()),
            readonly_rootfs: Some(true),
            ..HostConfig::default()
        };
        let foreign = ContainerFixture::start(engine, BUSYBOX, &["/bin/sleep", "300"], host).await;
        let error = accepting(engine, &[])
            .adopt(&foreign.name, &engine.spec())
            .await
            .expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        foreign.remove().await;
        Ok(())
    })
}
