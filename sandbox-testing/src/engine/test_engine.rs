//! The engine under test, and what the backend has made on it.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerConfig as ImageConfig, ContainerCreateBody, HostConfig, ImageInspect,
};
use bollard::query_parameters::{CommitContainerOptions, RemoveContainerOptions};
use futures_util::StreamExt;
use sandbox_container::{ContainerConfig, Family, ProfileForm};
use sandbox_core::spi::{Backend, unique_name};
use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxHandle, SandboxSpec};

use super::{features, volume};
use crate::contract::{
    BUSYBOX, BUSYBOX_USER, Expectations, PYTHON, SCRATCH, TestBackend, client_of,
};

/// An engine with Docker's API, and the backend that uses it.
pub struct TestEngine {
    /// What the backend knows about such engines.
    pub family: &'static Family,
    /// Makes the backend of [`Family::tier`].
    pub backend: fn(ContainerConfig) -> Arc<dyn Backend>,
    /// Makes the backend of [`Family::unsafe_tier`].
    pub backend_without_policy: fn(ContainerConfig) -> Arc<dyn Backend>,
    /// Tests that do not apply: the beginnings of their names, each with the reason.
    pub not_applicable: &'static [(&'static str, &'static str)],
    /// The path of the engine's socket.
    pub socket: fn() -> String,
    /// The folder of registries' certificates; `None` where the engine takes a registry on loopback
    /// without TLS.
    pub certificates: fn() -> Option<PathBuf>,
    /// Connects to the engine's own API.
    pub api: fn() -> Docker,
}

impl TestEngine {
    pub(super) fn config(&self) -> ContainerConfig {
        ContainerConfig::default().default_image(BUSYBOX)
    }

    pub(super) fn backend(&self, config: ContainerConfig) -> Arc<dyn Backend> {
        (self.backend)(config)
    }

    pub(super) fn backend_without_policy(&self, config: ContainerConfig) -> Arc<dyn Backend> {
        (self.backend_without_policy)(config)
    }

    /// A client of [`TestEngine::config`].
    pub(super) fn client(&self, policy: CapabilityPolicy) -> SandboxClient {
        self.client_with(self.config(), policy)
    }

    pub(super) fn client_with(
        &self,
        config: ContainerConfig,
        policy: CapabilityPolicy,
    ) -> SandboxClient {
        client_of(self.backend(config), policy)
    }

    /// A specification with a unique name.
    pub(super) fn spec(&self) -> SandboxSpec {
        SandboxSpec::new(unique_name("test"))
    }

    /// A busybox sandbox under the default policy.
    pub(super) async fn sandbox(&self) -> sandbox_core::Result<SandboxHandle> {
        self.client(CapabilityPolicy::new())
            .create(&self.spec())
            .await
    }

    pub(super) fn socket(&self) -> String {
        (self.socket)()
    }

    pub(super) fn certificates(&self) -> Option<PathBuf> {
        (self.certificates)()
    }

    pub(super) fn api(&self) -> Docker {
        (self.api)()
    }

    /// What the engine says of an image; `None` if it has none of this name or id. Podman fails
    /// while other tests remove images, which it says itself (podman #6510); the next request works.
    pub(super) async fn image(&self, name: &str) -> Option<ImageInspect> {
        let mut last = None;
        for _ in 0..5 {
            match self.api().inspect_image(name).await {
                Ok(image) => return Some(image),
                Err(Error::DockerResponseServerError {
                    status_code: 404, ..
                }) => return None,
                Err(error) => last = Some(error),
            }
        }
        panic!("inspecting image {name}: {last:?}")
    }

    /// Why the tests cannot run; `None` where they can.
    pub(super) fn missing(&self) -> Option<String> {
        block_on(async {
            let client = self.client(CapabilityPolicy::new());
            let engine = client
                .diagnose()
                .await
                .into_iter()
                .find(|finding| finding.name == "engine");
            match engine {
                Some(engine) if engine.present => {}
                Some(engine) => return Some(engine.detail),
                None => return Some("the backend's diagnosis has no entry `engine`".into()),
            }
            for image in [BUSYBOX, BUSYBOX_USER, SCRATCH, PYTHON] {
                if let Err(error) = self.api().inspect_image(image).await {
                    return Some(format!(
                        "image {image}: {error}; build it with `cargo xtask images`"
                    ));
                }
            }
            None
        })
    }

    /// Why tests that need an image cannot run; `None` where they can.
    pub(super) fn lacks(&self, image: &str) -> Option<String> {
        let found = block_on(self.image(image));
        found.is_none().then(|| format!("needs the image {image}"))
    }

    /// Runs a command in a container that the backend has not made, waits for its end, and returns
    /// its ID.
    pub(super) async fn run_container(&self, image: &str, user: &str, command: &[&str]) -> String {
        let api = self.api();
        let body = ContainerCreateBody {
            image: Some(image.into()),
            user: Some(user.into()),
            cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            host_config: Some(HostConfig {
                // A rootless engine may have no other network.
                network_mode: Some("none".into()),
                ..HostConfig::default()
            }),
            ..Default::default()
        };
        let id = api
            .create_container(None, body)
            .await
            .expect("container")
            .id;
        api.start_container(&id, None).await.expect("start");
        let end = api.wait_container(&id, None).next().await;
        end.expect("an end").expect("success");
        id
    }

    /// Makes an image without the backend: runs a script as root in `base` and commits the
    /// container with instructions of a Dockerfile. Returns the image's name.
    pub(super) async fn image_of(&self, base: &str, script: &str, instructions: &str) -> String {
        let api = self.api();
        let container = self.run_container(base, "0:0", &["sh", "-c", script]).await;
        let tag = unique_name("made");
        let commit = CommitContainerOptions {
            container: Some(container.clone()),
            repo: Some("sandbox-test/made".into()),
            tag: Some(tag.clone()),
            changes: Some(instructions.into()),
            ..CommitContainerOptions::default()
        };
        let committed = api.commit_container(commit, ImageConfig::default()).await;
        api.remove_container(&container, None)
            .await
            .expect("the container is removed");
        committed.expect("commit");
        format!("sandbox-test/made:{tag}")
    }
}

#[async_trait]
impl TestBackend for TestEngine {
    fn expectations(&self) -> Expectations {
        Expectations {
            agent_folder: match self.family.profile_form {
                ProfileForm::Text => "agent\nhosts\nresolv.conf\n",
                ProfileForm::File => "agent\nhosts\nresolv.conf\nseccomp.json\n",
            },
            bounds_empty_files: self.family.full_tmpfs,
            has_down_interfaces: false,
            has_stats: true,
            short_lifetime: Duration::from_secs(1),
        }
    }

    fn backend(&self) -> Arc<dyn Backend> {
        self.backend(self.config())
    }

    fn backend_with_agent(&self, program: &[u8]) -> Arc<dyn Backend> {
        self.backend(self.config().agent(program))
    }

    fn is_sandbox_user(&self, user: &str) -> bool {
        user == "1000"
    }

    async fn exists(&self, container: &str) -> bool {
        // A container that cannot be inspected exists: Podman has states that Docker's clients do
        // not know.
        let inspected = self.api().inspect_container(container, None).await;
        !matches!(
            inspected,
            Err(Error::DockerResponseServerError {
                status_code: 404,
                ..
            })
        )
    }

    async fn remove(&self, container: &str) {
        let options = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        let removed = self.api().remove_container(container, Some(options)).await;
        removed.expect("the container is removed");
    }

    async fn wait_removed(&self, container: &str, timeout: Duration) {
        let start = std::time::Instant::now();
        while self.exists(container).await {
            assert!(
                start.elapsed() < timeout,
                "{container} still exists after {timeout:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn remove_agent(&self, program: &[u8]) {
        volume::remove(self, program).await;
    }

    async fn unenforceable_limits(&self) -> Option<String> {
        features::unenforceable_limits(self).await
    }
}

/// Waits for a future outside of a test.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}
