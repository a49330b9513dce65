//! From a lowered plan to a running container with an attached agent.

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::AttachContainerOptions;
use sandbox_core::Result;

use crate::Tier;
use crate::create::create;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};
use crate::removal::Guard;
use crate::stream::AttachStream;
use crate::volume::{self, AgentVolume, Content};

/// What is to be launched.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub tier: Tier,
    pub engine: &'a Engine,
    pub volume: &'a AgentVolume,
    pub name: String,
    pub body: ContainerCreateBody,
}

impl Launch<'_> {
    /// Makes and starts the container, and gives the stream to its agent. The agent's volume is compared with our agent before the
    /// container is started: what lies in a volume that somebody else has filled never runs.
    ///
    /// # Errors
    ///
    /// What the engine refuses. Nothing is left then, nor when this future is dropped.
    pub(crate) async fn run(&self) -> Result<(Guard, AttachStream)> {
        let Self {
            tier,
            engine,
            volume,
            ..
        } = *self;
        if volume.is_verified(engine) {
            match self.start().await {
                Err(error) if AgentVolume::is_missed_in(&error) => volume.forget(engine),
                started => return started,
            }
        }
        volume.create(tier, engine).await?;
        // Making a container runs nothing, and takes the engine about as long as reading the volume: both at once.
        let (made, content) = tokio::join!(self.make(), self.look());
        // Where neither was done, what the caller asked for is what failed.
        let content = match (&made, content) {
            (Err(error), Err(_)) if !AgentVolume::is_missed_in(error) => return made,
            (_, content) => content?,
        };
        if content == Content::Agent {
            volume.set_verified(engine);
            let started = match made {
                Ok(made) => self.begin(made).await,
                Err(error) => Err(error),
            };
            return match started {
                // Another process filled the volume between the engine's look for it and ours.
                Err(error) if AgentVolume::is_missed_in(&error) => self.start().await,
                started => started,
            };
        }
        // What the volume holds is not our agent: it was never started.
        if let Ok((guard, stream)) = made {
            drop(stream);
            guard.remove(&engine.client).await?;
        }
        volume::fill(tier, engine, volume, self.image()).await?;
        volume.set_verified(engine);
        self.start().await
    }

    fn image(&self) -> &str {
        self.body.image.as_deref().unwrap_or_default()
    }

    /// What is in the volume, seen through a container of its own that is never started.
    async fn look(&self) -> Result<Content> {
        let body = volume::reader(self.tier, self.volume, self.image());
        let guard = create(self.tier, self.engine, None, body).await?;
        let client = &self.engine.client;
        let content = self
            .volume
            .inspect(self.tier, self.engine, guard.container())
            .await?;
        guard.remove(client).await?;
        Ok(content)
    }

    async fn start(&self) -> Result<(Guard, AttachStream)> {
        self.begin(self.make().await?).await
    }

    /// Makes the container. Nothing runs in it yet.
    async fn make(&self) -> Result<(Guard, AttachStream)> {
        let (tier, engine) = (self.tier, self.engine);
        let guard = create(tier, engine, Some(self.name.clone()), self.body.clone()).await?;
        // Attached before it starts: no byte is lost, and the agent never runs without an owner.
        let stream = attach(tier, engine, guard.container()).await?;
        Ok((guard, stream))
    }

    /// Starts it, and with it the agent.
    async fn begin(&self, (guard, stream): (Guard, AttachStream)) -> Result<(Guard, AttachStream)> {
        let client = &self.engine.client;
        match client.start_container(guard.container(), None).await {
            Ok(()) => Ok((guard, stream)),
            Err(error) => {
                let error = engine_error(self.tier, Operation::Start, error);
                // The name must be free for another attempt.
                Err(match guard.remove(client).await {
                    Ok(()) => error,
                    Err(left) => error.with_source(left),
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
