//! The engine, and sandboxes on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::CommitContainerOptions;
use futures_util::StreamExt;
use libtest_mimic::Failed;
use sandbox_core::{
    CapabilityPolicy, ExecRequest, ExecResult, SandboxClient, SandboxHandle, SandboxSpec,
    unique_name,
};

use crate::family::{self, Backend, Config};

pub const BUSYBOX: &str = "sandbox-test/busybox:latest";
pub const BUSYBOX_USER: &str = "sandbox-test/busybox-user:latest";
pub const SCRATCH: &str = "sandbox-test/scratch:latest";
pub const PYTHON: &str = "sandbox-test/python:latest";

/// Runs a test on a runtime of its own, for at most two minutes.
pub fn run<F>(test: F) -> Result<(), Failed>
where
    F: Future<Output = sandbox_core::Result<()>>,
{
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let bounded = async { tokio::time::timeout(Duration::from_secs(120), test).await };
    match runtime.block_on(bounded) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err("took longer than two minutes".into()),
    }
}

/// Waits for an answer to why tests cannot run, before there are tests.
pub fn reason(look: impl Future<Output = Option<String>>) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(look),
        Err(error) => Some(error.to_string()),
    }
}

/// Why the tests cannot run here; `None` where they can.
pub fn missing() -> Option<String> {
    reason(async {
        let client = client(CapabilityPolicy::new());
        let engine = client
            .diagnose()
            .await
            .into_iter()
            .find(|finding| finding.name == "engine");
        match engine {
            Some(engine) if engine.present => {}
            Some(engine) => return Some(engine.detail),
            None => return Some("the backend said nothing about an engine".into()),
        }
        for image in [BUSYBOX, BUSYBOX_USER, SCRATCH, PYTHON] {
            if let Err(error) = api().inspect_image(image).await {
                return Some(format!(
                    "image {image}: {error}; build it with `cargo xtask images`"
                ));
            }
        }
        None
    })
}

/// The engine's own API, to look at what the backend has made.
pub fn api() -> Docker {
    family::api()
}

pub fn config() -> Config {
    Config::default().default_image(BUSYBOX)
}

pub fn client(policy: CapabilityPolicy) -> SandboxClient {
    client_of(Backend::new(config()), policy)
}

pub fn client_of(backend: Backend, policy: CapabilityPolicy) -> SandboxClient {
    SandboxClient::with_backend(Arc::new(backend), policy).expect("a valid policy")
}

pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("test"))
}

/// A busybox sandbox under the default policy.
pub async fn sandbox() -> sandbox_core::Result<SandboxHandle> {
    client(CapabilityPolicy::new()).create(&spec()).await
}

pub async fn shell(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<ExecResult> {
    sandbox.exec(&ExecRequest::shell(script)).await
}

/// The standard output of a script that must succeed.
pub async fn output(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Result<String> {
    let result = shell(sandbox, script).await?;
    assert!(
        result.ok(),
        "{script}: {:?} {}",
        result.outcome,
        result.output()
    );
    Ok(result.stdout_text())
}

/// Makes a container of an image without us, waits for its end, and gives its id.
pub async fn ran(image: &str, user: &str, command: &[&str]) -> String {
    let engine = api();
    let body = ContainerCreateBody {
        image: Some(image.into()),
        user: Some(user.into()),
        cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        ..Default::default()
    };
    let id = engine
        .create_container(None, body)
        .await
        .expect("container")
        .id;
    engine.start_container(&id, None).await.expect("start");
    let end = engine.wait_container(&id, None).next().await;
    end.expect("an end").expect("success");
    id
}

/// An image made of another without us, by a script of root's and by instructions of a Dockerfile. Gives its name.
pub async fn image_of(base: &str, script: &str, instructions: &str) -> String {
    let engine = api();
    let container = ran(base, "0:0", &["sh", "-c", script]).await;
    let tag = unique_name("made");
    let commit = CommitContainerOptions {
        container: Some(container.clone()),
        repo: Some("sandbox-test/made".into()),
        tag: Some(tag.clone()),
        changes: Some(instructions.into()),
        ..CommitContainerOptions::default()
    };
    let committed = engine
        .commit_container(commit, ContainerConfig::default())
        .await;
    engine
        .remove_container(&container, None)
        .await
        .expect("the container is removed");
    committed.expect("commit");
    format!("sandbox-test/made:{tag}")
}

/// Whether the engine has a container of this name, in any state.
pub async fn exists(container: &str) -> bool {
    // One whose state Docker's clients do not know, or that is going at this moment, is there.
    !matches!(
        api().inspect_container(container, None).await,
        Err(bollard::errors::Error::DockerResponseServerError {
            status_code: 404,
            ..
        })
    )
}

/// Waits until the engine has no such container, for at most `bound`.
pub async fn wait_gone(container: &str, bound: Duration) {
    let start = std::time::Instant::now();
    while exists(container).await {
        assert!(
            start.elapsed() < bound,
            "{container} is still there after {bound:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
