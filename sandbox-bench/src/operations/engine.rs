//! The tasks of one engine, in every way.

use std::path::PathBuf;

#[cfg(feature = "api")]
use super::api::Api;
use super::python_client::PythonClient;
use super::sandboxes::Tier;
use super::{BUSYBOX, PYTHON, Programs, client, failed, plain};
use crate::case::{CROWD, Engine, PROGRAM, Task, Way};
use crate::failure::{Failure, Result};
use crate::protocol::Sample;

/// What one engine's operations keep between two calls.
#[derive(Debug)]
pub struct EngineOperations {
    engine: Engine,
    command: Option<PathBuf>,
    library: Tier,
    library_python: Tier,
    python_client: PythonClient,
    #[cfg(feature = "api")]
    api: Api,
}

impl EngineOperations {
    /// Nothing is opened yet.
    pub fn new(engine: Engine, programs: &Programs) -> Self {
        let built = match engine {
            Engine::Docker => cfg!(feature = "docker"),
            Engine::Podman => cfg!(feature = "podman"),
        };
        Self {
            engine,
            command: programs.sandbox.clone(),
            library: Tier::new(engine.name(), built, Some(BUSYBOX)),
            library_python: Tier::new(engine.name(), built, Some(PYTHON)),
            python_client: PythonClient::new(programs.python_client.clone()),
            #[cfg(feature = "api")]
            api: Api::new(engine),
        }
    }

    /// Does `task` once.
    ///
    /// # Errors
    /// When this machine lacks what is measured, or when it fails.
    pub async fn run(&mut self, way: Way, task: Task) -> Result<Sample> {
        match way {
            Way::Library => self.library(task).await,
            Way::Restricted => Err(Failure::Missing("containers have no such profile".into())),
            Way::Client => self.client(task).await,
            Way::Api => self.api(task).await,
            Way::Command => {
                let tier = self.engine.name();
                plain::command_on(self.command.as_deref(), tier, BUSYBOX)
            }
            Way::PythonClient if self.engine == Engine::Docker => {
                self.python_client.run(task).await
            }
            Way::PythonClient => Err(Failure::Missing(format!(
                "the library is measured on Docker only, not on {}",
                self.engine.name()
            ))),
        }
    }

    /// Ends what is still running.
    ///
    /// # Errors
    /// When something cannot be ended.
    pub async fn end(self) -> Result<()> {
        let ended = [
            self.library.end().await,
            self.library_python.end().await,
            self.python_client.end().await,
            #[cfg(feature = "api")]
            self.api.end().await,
        ];
        ended.into_iter().collect()
    }

    async fn library(&mut self, task: Task) -> Result<Sample> {
        match task {
            Task::OneShot => self.library.one_shot().await,
            Task::Exec => self.library.warm_exec().await,
            Task::Echo => self.library.echo().await,
            Task::Crowd => self.library.crowd(CROWD, CROWD as usize).await,
            Task::Python => self.library_python.python().await,
            Task::Open => self.library_python.open().await,
            Task::Close => self.library_python.close().await,
        }
    }

    async fn client(&mut self, task: Task) -> Result<Sample> {
        let (image, program) = match task {
            Task::OneShot => return client::run(self.engine).await,
            Task::Crowd => return client::crowd(self.engine).await,
            Task::Exec => (BUSYBOX, vec!["true"]),
            Task::Python => (PYTHON, vec!["python3", "-c", PROGRAM]),
            Task::Open | Task::Close | Task::Echo => {
                return Err(failed(format!("the client is not asked for {task:?}")));
            }
        };
        client::ask(self.engine)?;
        let container = self.container(image).await?;
        client::exec(self.engine, container, &program).await
    }

    #[cfg(feature = "api")]
    async fn api(&mut self, task: Task) -> Result<Sample> {
        match task {
            Task::OneShot => self.api.run().await,
            Task::Crowd => self.api.crowd().await,
            Task::Exec => self.api.exec(BUSYBOX, &["true"]).await,
            Task::Python => self.api.exec(PYTHON, &["python3", "-c", PROGRAM]).await,
            Task::Open => self.api.open().await,
            Task::Close => self.api.close().await,
            Task::Echo => Err(failed("the API is not asked for an echo")),
        }
    }

    #[cfg(feature = "api")]
    async fn container(&mut self, image: &'static str) -> Result<String> {
        self.api.container(image).await
    }

    #[cfg(not(feature = "api"))]
    async fn api(&mut self, _task: Task) -> Result<Sample> {
        Err(without_api())
    }

    #[cfg(not(feature = "api"))]
    async fn container(&mut self, _image: &'static str) -> Result<String> {
        Err(without_api())
    }
}

#[cfg(not(feature = "api"))]
fn without_api() -> Failure {
    Failure::Missing("built without docker and podman".to_owned())
}
