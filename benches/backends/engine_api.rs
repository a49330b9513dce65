//! Containers, by direct calls of an engine's API.

use std::env;
use std::io::{self, Read};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, DownloadFromContainerOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions, UploadToContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};

use crate::workload::{Choices, Contender, MeasureError, Timings, Workload, expect_bytes, timed};

/// An available engine answers within this time.
const PING_TIME_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of one request, in seconds.
const REQUEST_TIME_LIMIT: u64 = 120;

/// The socket of Podman if `CONTAINER_HOST` names none.
const PODMAN_HOST: &str = "unix:///run/podman/podman.sock";

/// Containers of an engine with Docker's API.
pub struct EngineApi {
    engine: &'static str,
    /// How many bytes a transfer moves.
    bytes: u64,
    docker: Option<Docker>,
    warm: Option<WaitingContainer>,
}

/// A container that runs `cat`. When this process ends, its standard input closes, and it ends.
struct WaitingContainer {
    id: String,
    _stdin: AttachContainerResults,
}

impl EngineApi {
    /// Connects when first needed.
    pub fn new(engine: &'static str, bytes: u64) -> Self {
        Self {
            engine,
            bytes,
            docker: None,
            warm: None,
        }
    }

    async fn docker(&mut self) -> Result<Docker, MeasureError> {
        if let Some(docker) = &self.docker {
            return Ok(docker.clone());
        }
        let docker = connect(self.engine).await;
        let docker = docker.map_err(MeasureError::into_unavailable)?;
        Ok(self.docker.insert(docker).clone())
    }

    async fn warm(&mut self, docker: &Docker) -> Result<String, MeasureError> {
        if let Some(container) = &self.warm {
            return Ok(container.id.clone());
        }
        let container = start_waiting(docker).await?;
        Ok(self.warm.insert(container).id.clone())
    }

    /// Copies tar archives in both directions, as `docker cp` does.
    async fn copy(&self, docker: &Docker, container: &str) -> Timings {
        let bytes = self.bytes;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_data(&mut header, "file", io::repeat(7).take(bytes))?;
        let body = bollard::body_full(archive.into_inner()?.into());
        let upload = UploadToContainerOptionsBuilder::new().path("/tmp").build();
        let upload = docker.upload_to_container(container, Some(upload), body);
        let ((), copy_in) = timed(upload).await?;

        let download = DownloadFromContainerOptionsBuilder::new();
        let download = download.path("/tmp/file").build();
        let archive = docker.download_from_container(container, Some(download));
        let archive = archive.try_fold(Vec::new(), async |mut archive, piece| {
            archive.extend_from_slice(&piece);
            Ok(archive)
        });
        let (archive, copy_out) = timed(archive).await?;
        let mut archive = tar::Archive::new(archive.as_slice());
        let size = archive
            .entries()?
            .next()
            .transpose()?
            .map(|entry| entry.size());
        expect_bytes(size.unwrap_or_default() as usize, bytes)?;
        exec(docker, container, &["rm", "/tmp/file"]).await?;
        Ok(vec![("copy in", copy_in), ("copy out", copy_out)])
    }
}

#[async_trait(?Send)]
impl Contender for EngineApi {
    fn name(&self) -> &'static str {
        match self.engine {
            "podman" => "podman API",
            _ => "docker API",
        }
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        let docker = &self.docker().await?;
        let elapsed = match workload {
            Workload::OneShot => timed(run_to_end(docker)).await?.1,
            Workload::Create => {
                let (container, create) = timed(start_waiting(docker)).await?;
                let ((), remove) = timed(remove(docker, &container.id)).await?;
                return Ok(vec![("create", create), ("remove", remove)]);
            }
            Workload::Output => {
                let bytes = self.bytes;
                let program = ["head", "-c", &bytes.to_string(), "/dev/zero"];
                let container = self.warm(docker).await?;
                let (received, elapsed) = timed(exec(docker, &container, &program)).await?;
                expect_bytes(received, bytes)?;
                elapsed
            }
            Workload::Copy => {
                let container = self.warm(docker).await?;
                return self.copy(docker, &container).await;
            }
            Workload::WarmCell | Workload::ForkedCell | Workload::Claim => {
                unreachable!("it supports none of them")
            }
            Workload::WarmExec => {
                let container = self.warm(docker).await?;
                timed(exec(docker, &container, &["true"])).await?.1
            }
        };
        Ok(vec![(workload.measurement(), elapsed)])
    }

    async fn finish(&mut self) -> Result<(), MeasureError> {
        match (&self.docker, self.warm.take()) {
            (Some(docker), Some(container)) => remove(docker, &container.id).await,
            _ => Ok(()),
        }
    }
}

/// Connects to an engine that answers and has the image.
async fn connect(engine: &str) -> Result<Docker, MeasureError> {
    let docker = if engine == "podman" {
        let host = env::var("CONTAINER_HOST").unwrap_or_default();
        let host = if host.is_empty() { PODMAN_HOST } else { &host };
        Docker::connect_with_unix(host, REQUEST_TIME_LIMIT, bollard::API_DEFAULT_VERSION)?
    } else {
        Docker::connect_with_defaults()?
    };
    tokio::time::timeout(PING_TIME_LIMIT, docker.ping()).await??;
    docker.inspect_image(&Choices::get().image).await?;
    Ok(docker)
}

/// Runs a program to its end, and returns how many bytes it wrote.
async fn exec(docker: &Docker, container: &str, program: &[&str]) -> Result<usize, MeasureError> {
    let options = CreateExecOptions {
        cmd: Some(program.to_vec()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..CreateExecOptions::default()
    };
    let exec = docker.create_exec(container, options).await?.id;
    let mut received = 0;
    if let StartExecResults::Attached { mut output, .. } = docker.start_exec(&exec, None).await? {
        while let Some(piece) = output.try_next().await? {
            received += piece.into_bytes().len();
        }
    }
    match docker.inspect_exec(&exec).await?.exit_code {
        Some(0) => Ok(received),
        code => Err(MeasureError::Failed(format!(
            "{program:?} ended with {code:?}"
        ))),
    }
}

/// Creates and starts a container that runs `true`, waits for its end, and removes it.
async fn run_to_end(docker: &Docker) -> Result<(), MeasureError> {
    let id = docker.create_container(None, body("true")).await?.id;
    let end = async {
        docker
            .start_container(&id, None::<StartContainerOptions>)
            .await?;
        match docker.wait_container(&id, None).next().await {
            Some(Ok(end)) if end.status_code == 0 => Ok(()),
            end => Err(MeasureError::Failed(format!(
                "the container ended with {end:?}"
            ))),
        }
    };
    let end = end.await;
    end.and(remove(docker, &id).await)
}

async fn start_waiting(docker: &Docker) -> Result<WaitingContainer, MeasureError> {
    let mut body = body("cat");
    (body.open_stdin, body.stdin_once) = (Some(true), Some(true));
    let id = docker.create_container(None, body).await?.id;
    let attach = AttachContainerOptionsBuilder::new()
        .stdin(true)
        .stream(true);
    let start = async {
        let stdin = docker.attach_container(&id, Some(attach.build())).await?;
        docker
            .start_container(&id, None::<StartContainerOptions>)
            .await?;
        Ok(stdin)
    };
    match start.await {
        Ok(stdin) => Ok(WaitingContainer { id, _stdin: stdin }),
        Err(error) => {
            // The first error is the one to report.
            let _ = remove(docker, &id).await;
            Err(error)
        }
    }
}

fn body(program: &str) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(Choices::get().image.clone()),
        cmd: Some(vec![program.to_owned()]),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            // A container that waits removes itself when this process ends early.
            auto_remove: Some(program == "cat"),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

async fn remove(docker: &Docker, id: &str) -> Result<(), MeasureError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
    Ok(docker.remove_container(id, Some(options.build())).await?)
}
