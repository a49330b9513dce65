//! Queries the paths that an engine's containers hide by default, from a container that is never
//! started.

use bollard::models::{ContainerCreateBody, HostConfig};
use sandbox_core::Result;

use crate::Tier;
use crate::create::create;
use crate::engine::{Engine, inspect};
use crate::error::{Operation, engine_error};
use crate::family::PathOptions;
use crate::labels;
use crate::lower::UsualPaths;
use crate::options::EngineOptions;

/// The paths that the engine's containers hide by default; empty if no option adds paths. Queried
/// once per engine and process.
///
/// # Errors
///
/// The engine's errors.
pub(crate) async fn usual_paths(
    tier: Tier,
    engine: &Engine,
    options: &EngineOptions,
    image: &str,
) -> Result<UsualPaths> {
    let named = !options.masked_paths.is_empty() || !options.read_only_paths.is_empty();
    if !named || tier.family.path_options != PathOptions::Lists {
        return Ok(UsualPaths::default());
    }
    let asked = engine
        .usual_paths
        .get_or_try_init(|| ask(tier, engine, image));
    asked.await.cloned()
}

async fn ask(tier: Tier, engine: &Engine, image: &str) -> Result<UsualPaths> {
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        // Never started.
        cmd: Some(vec!["/none".to_owned()]),
        labels: Some(labels::ours(tier)),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let container = create(tier, engine, None, body).await?;
    let found = inspect(&engine.client, container.container()).await;
    container.remove(&engine.client).await?;
    let found = found.map_err(|error| engine_error(tier, Operation::Create, error))?;
    let host = found.host_config.unwrap_or_default();
    Ok(UsualPaths {
        masked: host.masked_paths.unwrap_or_default(),
        read_only: host.readonly_paths.unwrap_or_default(),
    })
}
