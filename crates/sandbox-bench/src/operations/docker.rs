//! Docker's own ways to do the same, as rivals: its API without any client, and its client.

use std::process::Command;
use std::time::Duration;

use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::StreamExt;

use super::{BUSYBOX, Stopwatch, failed, plain};
use crate::failure::{Context, Failure, Result};
use crate::protocol::Sample;

const PATIENCE: Duration = Duration::from_secs(2);

/// A connection to the engine and a container that runs, both made when first needed.
#[derive(Debug, Default)]
pub struct Engine {
    docker: Option<Docker>,
    container: Option<String>,
    /// The container's stdin. However this process ends, it closes, and so the container ends.
    stdin: Option<AttachContainerResults>,
}

impl Engine {
    /// Create, start, wait, remove: a container without network that runs `true`.
    pub async fn run(&mut self) -> Result<Sample> {
        let docker = self.docker().await?;
        let body = body(&["true"]);
        let mut watch = Stopwatch::start();
        let id = docker
            .create_container(None, body)
            .await
            .context("create a container")?
            .id;
        watch.part("create");
        docker
            .start_container(&id, None::<StartContainerOptions>)
            .await
            .context("start a container")?;
        watch.part("start");
        let ended = docker.wait_container(&id, None).next().await;
        watch.part("wait");
        remove(&docker, &id).await?;
        watch.part("remove");
        let sample = watch.stop();
        match ended {
            Some(Ok(end)) if end.status_code == 0 => Ok(sample),
            other => Err(failed(format!("the container ended with {other:?}"))),
        }
    }

    /// Runs `true` in a container that runs, and asks for its exit code.
    pub async fn exec(&mut self) -> Result<Sample> {
        let docker = self.docker().await?;
        let container = self.container(&docker).await?;
        let options = CreateExecOptions {
            cmd: Some(vec!["true"]),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..CreateExecOptions::default()
        };
        let watch = Stopwatch::start();
        let id = docker
            .create_exec(&container, options)
            .await
            .context("create an exec")?
            .id;
        match docker
            .start_exec(&id, None)
            .await
            .context("start an exec")?
        {
            StartExecResults::Attached { mut output, .. } => {
                while let Some(piece) = output.next().await {
                    piece.context("read an exec's output")?;
                }
            }
            StartExecResults::Detached => return Err(failed("the exec is detached")),
        }
        let code = docker
            .inspect_exec(&id)
            .await
            .context("inspect an exec")?
            .exit_code;
        let sample = watch.stop();
        if code == Some(0) {
            Ok(sample)
        } else {
            Err(failed(format!("exec ended with {code:?}")))
        }
    }

    /// `docker exec CONTAINER true`.
    pub async fn client_exec(&mut self) -> Result<Sample> {
        if let Err(failure) = plain::timed(Command::new("docker").arg("--version")) {
            return Err(Failure::Missing(format!(
                "{failure}; fix: install Docker's client"
            )));
        }
        let docker = self.docker().await?;
        let container = self.container(&docker).await?;
        plain::timed(Command::new("docker").args(["exec", &container, "true"]))
    }

    /// Removes the container that runs, without waiting for the end of its stdin.
    pub async fn end(self) -> Result<()> {
        match (self.docker, self.container) {
            (Some(docker), Some(container)) => remove(&docker, &container).await,
            _ => Ok(()),
        }
    }

    async fn docker(&mut self) -> Result<Docker> {
        if let Some(docker) = &self.docker {
            return Ok(docker.clone());
        }
        let missing = |error: &dyn std::fmt::Display| {
            Failure::Missing(format!(
                "no Docker engine: {error}; fix: cargo xtask engines up docker"
            ))
        };
        let docker = Docker::connect_with_defaults().map_err(|error| missing(&error))?;
        tokio::time::timeout(PATIENCE, docker.ping())
            .await
            .map_err(|error| missing(&error))?
            .map_err(|error| missing(&error))?;
        if let Err(error) = docker.inspect_image(BUSYBOX).await {
            return Err(Failure::Missing(format!(
                "{error}; fix: cargo xtask images busybox"
            )));
        }
        Ok(self.docker.insert(docker).clone())
    }

    async fn container(&mut self, docker: &Docker) -> Result<String> {
        if let Some(id) = &self.container {
            return Ok(id.clone());
        }
        let mut body = body(&["cat"]);
        (body.open_stdin, body.stdin_once) = (Some(true), Some(true));
        if let Some(host) = &mut body.host_config {
            host.auto_remove = Some(true);
        }
        let id = docker
            .create_container(None, body)
            .await
            .context("create a container")?
            .id;
        // Kept before the start, so that it is removed also where the start fails.
        self.container = Some(id.clone());
        let stdin = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stream(true)
            .build();
        let stdin = docker
            .attach_container(&id, Some(stdin))
            .await
            .context("attach")?;
        self.stdin = Some(stdin);
        docker
            .start_container(&id, None::<StartContainerOptions>)
            .await
            .context("start a container")?;
        Ok(id)
    }
}

fn body(command: &[&str]) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(BUSYBOX.to_owned()),
        cmd: Some(command.iter().map(|&word| word.to_owned()).collect()),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

async fn remove(docker: &Docker, id: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::default()
        .force(true)
        .v(true)
        .build();
    docker
        .remove_container(id, Some(options))
        .await
        .context("remove a container")
}
