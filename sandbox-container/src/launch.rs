//! Launches a container and attaches to its agent.

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::AttachContainerOptions;
use sandbox_core::Result;

use crate::Tier;
use crate::create::create;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};
use crate::removal::ContainerGuard;
use crate::stream::AttachStream;
use crate::volume::{self, AgentVolume, VolumeContent};

/// A container to launch.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub tier: Tier,
    pub engine: &'a Engine,
    pub volume: &'a AgentVolume,
    pub name: String,
    pub body: ContainerCreateBody,
}

impl Launch<'_> {
    /// Creates and starts the container; returns its guard and the stream to its agent. The agent's
    /// volume is compared with our agent before the start, so unverified content never runs.
    ///
    /// # Errors
    ///
    /// The engine's refusals. Nothing is left behind, even if this future is dropped.
    pub(crate) async fn run(&self) -> Result<(ContainerGuard, AttachStream)> {
        let Self {
            tier,
            engine,
            volume,
            ..
        } = *self;
        if !volume.is_verified(engine) {
            let created = volume.create(tier, engine).await?;
            if volume.is_intact_on_host(engine, &created) {
                volume.set_verified(engine);
            }
        }
        if volume.is_verified(engine) {
            match self.create_and_start().await {
                Err(error) if AgentVolume::is_missing_file_error(&error) => volume.forget(engine),
                started => return started,
            }
        }
        volume.create(tier, engine).await?;
        // Creating a container runs nothing and takes as long as reading the volume, so do both at
        // once.
        let (created, content) = tokio::join!(self.create_attached(), self.inspect_volume());
        // If both failed, report the container's error.
        let (content, reader) = match (&created, content) {
            (Err(error), Err(_)) if !AgentVolume::is_missing_file_error(error) => return created,
            (_, content) => content?,
        };
        let client = &engine.client;
        if content == VolumeContent::Agent {
            volume.set_verified(engine);
            let start = async {
                match created {
                    Ok(created) => self.start(created).await,
                    Err(error) => Err(error),
                }
            };
            let (started, removed) = tokio::join!(start, reader.remove(client));
            removed?;
            return match started {
                // Another process filled the volume after the engine created it empty.
                Err(error) if AgentVolume::is_missing_file_error(&error) => {
                    self.create_and_start().await
                }
                started => started,
            };
        }
        reader.remove(client).await?;
        // The volume does not hold our agent, so the container was never started.
        if let Ok((guard, stream)) = created {
            drop(stream);
            guard.remove(client).await?;
        }
        volume::fill(tier, engine, volume, self.image()).await?;
        volume.set_verified(engine);
        self.create_and_start().await
    }

    fn image(&self) -> &str {
        self.body.image.as_deref().unwrap_or_default()
    }

    /// Reads the volume through a container that is never started, and is still to be removed.
    async fn inspect_volume(&self) -> Result<(VolumeContent, ContainerGuard)> {
        let body = volume::reader_container(self.tier, self.volume, self.image());
        let guard = create(self.tier, self.engine, None, body).await?;
        let content = self
            .volume
            .inspect(self.tier, self.engine, guard.container())
            .await?;
        Ok((content, guard))
    }

    async fn create_and_start(&self) -> Result<(ContainerGuard, AttachStream)> {
        self.start(self.create_attached().await?).await
    }

    /// Creates the container and attaches to it. Nothing runs in it yet.
    async fn create_attached(&self) -> Result<(ContainerGuard, AttachStream)> {
        let (tier, engine) = (self.tier, self.engine);
        let guard = create(tier, engine, Some(self.name.clone()), self.body.clone()).await?;
        // Attach before the start: no byte is lost, and the agent never runs without an owner.
        let stream = attach(tier, engine, guard.container()).await?;
        Ok((guard, stream))
    }

    /// Starts the container, and with it the agent.
    async fn start(
        &self,
        (guard, stream): (ContainerGuard, AttachStream),
    ) -> Result<(ContainerGuard, AttachStream)> {
        let client = &self.engine.client;
        match client.start_container(guard.container(), None).await {
            Ok(()) => Ok((guard, stream)),
            Err(error) => {
                let error = engine_error(self.tier, Operation::Start, error);
                // The name must be free for another attempt.
                Err(match guard.remove(client).await {
                    Ok(()) => error,
                    Err(removal_error) => error.with_source(removal_error),
                })
            }
        }
    }
}

async fn attach(tier: Tier, engine: &Engine, container: &str) -> Result<AttachStream> {
    let options = AttachContainerOptions {
        stream: true,
        stdin: true,
        stdout: true,
        stderr: true,
        ..AttachContainerOptions::default()
    };
    let attached = engine
        .client
        .attach_container(container, Some(options))
        .await;
    let attached = attached.map_err(|error| engine_error(tier, Operation::Attach, error))?;
    Ok(AttachStream::new(attached.output, attached.input))
}
