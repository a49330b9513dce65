//! Containers as another program creates them, for the conformance suite to adopt.

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::CreateContainerOptions;
use sandbox_core::Result;
use sandbox_core::spi::unique_name;

use super::ContainerBackend;
use crate::error::{Operation, engine_error};
use crate::{EngineFamily, removal};

/// The container's own program. Its end removes the container, so a killed suite leaves none.
const PROGRAM: [&str; 2] = ["sleep", "300"];

impl<F: EngineFamily> ContainerBackend<F> {
    /// Starts a container that is no sandbox, as this user, and returns its name. An `opened` one
    /// has a capability that engines do not give by default.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    #[doc(hidden)]
    pub async fn start_foreign(
        &self,
        image: Option<&str>,
        user: u32,
        opened: bool,
    ) -> Result<String> {
        let client = self.engine().await?.connection.client;
        let failed = |operation| move |error| engine_error(self.tier, operation, error);
        let name = unique_name("foreign");
        let body = ContainerCreateBody {
            image: Some(image.unwrap_or(&self.config.default_image).to_owned()),
            entrypoint: Some(PROGRAM.map(str::to_owned).to_vec()),
            cmd: Some(Vec::new()),
            env: Some(vec!["FOREIGN=1".to_owned()]),
            user: Some(format!("{user}:{user}")),
            host_config: Some(HostConfig {
                auto_remove: Some(true),
                cap_add: opened.then(|| vec!["SYS_PTRACE".to_owned()]),
                network_mode: Some("none".to_owned()),
                runtime: self.config.runtime.clone(),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            ..CreateContainerOptions::default()
        };
        let created = client.create_container(Some(options), body).await;
        created.map_err(failed(Operation::Create))?;
        let started = client.start_container(&name, None).await;
        started.map_err(failed(Operation::Start))?;
        Ok(name)
    }

    /// Removes a container that [`Self::start_foreign`] started, if it is still there.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    #[doc(hidden)]
    pub async fn remove_foreign(&self, name: &str) -> Result<()> {
        let client = self.engine().await?.connection.client;
        removal::remove(self.tier, &client, name).await
    }
}
