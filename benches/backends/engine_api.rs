//! Containers, by direct calls of an engine's API.

use std::env;
use std::io::{self, Read};
use std::time::Duration;

use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, DownloadFromContainerOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions, UploadToContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};

use crate::OPTIONS;
use crate::environments::{Engine, FILE};
use crate::processes::TRUE;
use crate::workload::{MeasureError, Measured, Timings, expect_bytes};

/// An available engine answers within this time.
const PING_TIME_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of one request, in seconds.
const REQUEST_TIME_LIMIT: u64 = 120;

/// Starts a container in the default way.
const NO_OPTIONS: Option<StartContainerOptions> = None;

/// The socket of Podman if `CONTAINER_HOST` names none.
const PODMAN_HOST: &str = "unix:///run/podman/podman.sock";

/// Containers of an engine with Docker's API.
pub struct EngineApi(Docker);

/// A container that runs `cat`. When this process ends, its standard input closes, and it ends.
pub struct WaitingContainer {
    id: String,
    _stdin: AttachContainerResults,
}

impl Engine for EngineApi {
    type Environment = WaitingContainer;

    fn name(backend: &'static str) -> &'static str {
        match backend {
            "podman" => "podman API",
            _ => "docker API",
        }
    }

    async fn connect(backend: &'static str) -> Measured<Self> {
        let docker = connect(backend).await;
        Ok(Self(docker.map_err(MeasureError::into_unavailable)?))
    }

    async fn create(&self) -> Measured<WaitingContainer> {
        let mut body = body("cat");
        (body.open_stdin, body.stdin_once) = (Some(true), Some(true));
        let id = self.0.create_container(None, body).await?.id;
        let attach = AttachContainerOptionsBuilder::new().stdin(true);
        let attach = attach.stream(true).build();
        let start = async {
            let stdin = self.0.attach_container(&id, Some(attach)).await?;
            self.0.start_container(&id, NO_OPTIONS).await?;
            Ok(stdin)
        };
        match start.await {
            Ok(stdin) => Ok(WaitingContainer { id, _stdin: stdin }),
            Err(error) => {
                // The first error is the one to report.
                let _ = remove(&self.0, &id).await;
                Err(error)
            }
        }
    }

    async fn exec(&self, container: &WaitingContainer, program: &[&str]) -> Measured<usize> {
        let options = CreateExecOptions {
            cmd: Some(program.to_vec()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..CreateExecOptions::default()
        };
        let exec = self.0.create_exec(&container.id, options).await?.id;
        let mut received = 0;
        let started = self.0.start_exec(&exec, None).await?;
        if let StartExecResults::Attached { mut output, .. } = started {
            while let Some(piece) = output.try_next().await? {
                received += piece.into_bytes().len();
            }
        }
        match self.0.inspect_exec(&exec).await?.exit_code {
            Some(0) => Ok(received),
            code => {
                let reason = format!("{program:?} ended with {code:?}");
                Err(MeasureError::Failed(reason))
            }
        }
    }

    /// Copies tar archives in both directions, as `docker cp` does.
    async fn copy(
        &self,
        container: &WaitingContainer,
        bytes: u64,
        timings: &mut Timings,
    ) -> Measured {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_data(&mut header, "file", io::repeat(7).take(bytes))?;
        let body = bollard::body_full(archive.into_inner()?.into());
        let (docker, id) = (&self.0, &container.id);
        let upload = UploadToContainerOptionsBuilder::new().path("/tmp").build();
        let upload = docker.upload_to_container(id, Some(upload), body);
        timings.time("copy in", upload).await?;

        let download = DownloadFromContainerOptionsBuilder::new().path(FILE);
        let download = docker.download_from_container(id, Some(download.build()));
        let download = download.try_fold(Vec::new(), async |mut archive, piece| {
            archive.extend_from_slice(&piece);
            Ok(archive)
        });
        let archive = timings.time("copy out", download).await?;
        let mut archive = tar::Archive::new(archive.as_slice());
        let entry = archive.entries()?.next().transpose()?;
        expect_bytes(entry.map_or(0, |entry| entry.size()) as usize, bytes)
    }

    async fn remove(&self, container: &WaitingContainer) -> Measured {
        remove(&self.0, &container.id).await
    }

    /// Creates and starts a container that runs `true`, waits for its end, and removes it.
    async fn one_shot(&self) -> Measured {
        let id = self.0.create_container(None, body(TRUE)).await?.id;
        let end = async {
            self.0.start_container(&id, NO_OPTIONS).await?;
            match self.0.wait_container(&id, None).next().await {
                Some(Ok(end)) if end.status_code == 0 => Ok(()),
                end => {
                    let reason = format!("the container ended with {end:?}");
                    Err(MeasureError::Failed(reason))
                }
            }
        };
        let end = end.await;
        end.and(remove(&self.0, &id).await)
    }
}

/// Connects to an engine that answers and has the image.
async fn connect(engine: &str) -> Measured<Docker> {
    let docker = if engine == "podman" {
        let host = env::var("CONTAINER_HOST").unwrap_or_default();
        let host = if host.is_empty() { PODMAN_HOST } else { &host };
        Docker::connect_with_unix(host, REQUEST_TIME_LIMIT, bollard::API_DEFAULT_VERSION)?
    } else {
        Docker::connect_with_defaults()?
    };
    tokio::time::timeout(PING_TIME_LIMIT, docker.ping()).await??;
    docker.inspect_image(&OPTIONS.image).await?;
    Ok(docker)
}

fn body(program: &str) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(OPTIONS.image.clone()),
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

async fn remove(docker: &Docker, id: &str) -> Measured {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
    Ok(docker.remove_container(id, Some(options.build())).await?)
}
