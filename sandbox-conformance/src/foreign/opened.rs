//! Containers with more options than the backends' own functions set.

use async_trait::async_trait;
use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::DEFAULT_IMAGE;
use serde_json::{Value, json};

use super::{Foreign, ForeignContainers};
use crate::engine_api::EngineApi;

#[async_trait]
impl ForeignContainers for EngineApi {
    async fn start(&self, image: Option<&str>, foreign: Foreign) -> Result<String> {
        let name = unique_name("foreign");
        let wrong = |error: serde_json::Error| {
            Error::new(ErrorKind::InvalidSpec, "start container", error.to_string())
        };
        let more = foreign.options.unwrap_or("{}");
        let more: Value = serde_json::from_str(more).map_err(wrong)?;
        let mut host = json!({"AutoRemove": true, "NetworkMode": "none"});
        for (option, value) in more.as_object().into_iter().flatten() {
            host[option] = value.clone();
        }
        let body = json!({
            "Image": image.unwrap_or(DEFAULT_IMAGE),
            // Its end removes the container, so a killed suite leaves none.
            "Entrypoint": ["sleep", "300"],
            "User": format!("{0}:{0}", foreign.user),
            "HostConfig": host,
        });
        self.create_container(&name, &body).await?;
        match self.start_container(&name).await {
            Ok(()) => Ok(name),
            Err(error) => {
                self.remove_container(&name).await?;
                Err(error)
            }
        }
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.remove_container(name).await
    }
}
