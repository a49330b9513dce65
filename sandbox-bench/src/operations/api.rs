//! The bare calls of an engine's API, as rivals.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::StreamExt;
use futures_util::future::try_join_all;

use super::{BUSYBOX, PYTHON, Stopwatch, failed};
use crate::case::{CROWD, Engine};
use crate::failure::{Context, Failure, Result};
use crate::protocol::Sample;

const PATIENCE: Duration = Duration::from_secs(2);
/// Most time for one answer, as bollard counts it: in seconds.
const TIMEOUT: u64 = 120;
/// Where Podman is found that nobody named.
const PODMAN_HOST: &str = "unix:///run/podman/podman.sock";

/// A connection to the engine and the containers that run, all made when first needed.
#[derive(Debug)]
pub struct Api {
    engine: Engine,
    docker: Option<Docker>,
    /// By their image.
    running: BTreeMap<&'static str, Running>,
    opened: Option<Running>,
}

/// A container that runs `cat`. However this process ends, its stdin closes, and so it ends.
#[derive(Debug)]
struct Running {
    id: String,
    _stdin: AttachContainerResults,
}

impl Api {
    /// Of `engine`; nothing is opened yet.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            docker: None,
            running: BTreeMap::new(),
            opened: None,
        }
    }

    /// Create, start, wait, remove: a container without network that runs `true`.
    pub async fn run(&mut self) -> Result<Sample> {
        cycle(&self.docker().await?).await
    }

    /// [`CROWD`] of them at the same time; the share of one.
    pub async fn crowd(&mut self) -> Result<Sample> {
        let docker = self.docker().await?;
        let watch = Stopwatch::start();
        try_join_all((0..CROWD).map(|_| cycle(&docker))).await?;
        Ok(watch.stop().share(CROWD))
    }

    /// Runs a program in a container that runs, and asks for its exit code.
    pub async fn exec(&mut self, image: &'static str, program: &[&str]) -> Result<Sample> {
        let docker = self.docker().await?;
        let container = self.container(image).await?;
        let options = CreateExecOptions {
            cmd: Some(program.to_vec()),
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

    /// Create and start a container that stays.
    pub async fn open(&mut self) -> Result<Sample> {
        let docker = self.docker().await?;
        if let Some(earlier) = self.opened.take() {
            remove(&docker, &earlier.id).await?;
        }
        let watch = Stopwatch::start();
        self.opened = Some(start(&docker, PYTHON).await?);
        Ok(watch.stop())
    }

    /// Remove that container, which runs.
    pub async fn close(&mut self) -> Result<Sample> {
        if self.opened.is_none() {
            self.open().await?;
        }
        let docker = self.docker().await?;
        let opened = self
            .opened
            .take()
            .ok_or_else(|| failed("nothing is open"))?;
        let watch = Stopwatch::start();
        remove(&docker, &opened.id).await?;
        Ok(watch.stop())
    }

    /// Removes the containers that run, without waiting for the end of their stdin.
    pub async fn end(self) -> Result<()> {
        let Some(docker) = self.docker else {
            return Ok(());
        };
        let mut result = Ok(());
        for container in self.running.into_values().chain(self.opened) {
            result = result.and(remove(&docker, &container.id).await);
        }
        result
    }

    /// The identifier of the container of `image` that runs.
    pub async fn container(&mut self, image: &'static str) -> Result<String> {
        if let Some(container) = self.running.get(image) {
            return Ok(container.id.clone());
        }
        let container = start(&self.docker().await?, image).await?;
        let id = container.id.clone();
        self.running.insert(image, container);
        Ok(id)
    }

    /// A connection to an engine that answers and has the test images.
    pub async fn docker(&mut self) -> Result<Docker> {
        if let Some(docker) = &self.docker {
            return Ok(docker.clone());
        }
        let name = self.engine.name();
        let missing = |error: &dyn std::fmt::Display| {
            Failure::Missing(format!(
                "no {name} engine: {error}; fix: cargo xtask engines up {name}"
            ))
        };
        let docker = match self.engine {
            Engine::Docker => Docker::connect_with_defaults(),
            Engine::Podman => {
                let host = env::var("CONTAINER_HOST")
                    .ok()
                    .filter(|host| !host.is_empty());
                let host = host.as_deref().unwrap_or(PODMAN_HOST);
                Docker::connect_with_unix(host, TIMEOUT, bollard::API_DEFAULT_VERSION)
            }
        };
        let docker = docker.map_err(|error| missing(&error))?;
        tokio::time::timeout(PATIENCE, docker.ping())
            .await
            .map_err(|error| missing(&error))?
            .map_err(|error| missing(&error))?;
        for image in [BUSYBOX, PYTHON] {
            if let Err(error) = docker.inspect_image(image).await {
                return Err(Failure::Missing(format!(
                    "{name}: {error}; fix: cargo xtask images --engine {name}"
                )));
            }
        }
        Ok(self.docker.insert(docker).clone())
    }
}

async fn cycle(docker: &Docker) -> Result<Sample> {
    let body = body(BUSYBOX, "true");
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
    remove(docker, &id).await?;
    watch.part("remove");
    let sample = watch.stop();
    match ended {
        Some(Ok(end)) if end.status_code == 0 => Ok(sample),
        other => Err(failed(format!("the container ended with {other:?}"))),
    }
}

async fn start(docker: &Docker, image: &str) -> Result<Running> {
    let mut body = body(image, "cat");
    (body.open_stdin, body.stdin_once) = (Some(true), Some(true));
    if let Some(host) = &mut body.host_config {
        host.auto_remove = Some(true);
    }
    let id = docker
        .create_container(None, body)
        .await
        .context("create a container")?
        .id;
    let stdin = AttachContainerOptionsBuilder::default()
        .stdin(true)
        .stream(true)
        .build();
    let started = async {
        let stdin = docker.attach_container(&id, Some(stdin)).await;
        let stdin = stdin.context("attach")?;
        docker
            .start_container(&id, None::<StartContainerOptions>)
            .await
            .context("start a container")?;
        Ok(stdin)
    };
    match started.await {
        Ok(_stdin) => Ok(Running { id, _stdin }),
        Err(failure) => {
            // The failure counts; what cannot be removed after it is not known to be there.
            let _ = remove(docker, &id).await;
            Err(failure)
        }
    }
}

fn body(image: &str, command: &str) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(vec![command.to_owned()]),
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
