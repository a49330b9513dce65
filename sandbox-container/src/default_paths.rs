//! Queries the paths that an engine's containers hide by default, from a container that is never
//! started.

use bollard::models::HostConfig;
use sandbox_core::Result;

use crate::Tier;
use crate::create::{create, never_started};
use crate::engine::{Engine, inspect};
use crate::error::{Operation, engine_error};
use crate::family::PathOptions;
use crate::lowering::DefaultPaths;
use crate::options::EngineOptions;

/// The paths that the engine's containers hide by default; empty if no option adds paths. Queried
/// once per engine and process.
///
/// # Errors
///
/// The engine's errors.
pub(crate) async fn default_paths(
    tier: Tier,
    engine: &Engine,
    options: &EngineOptions,
    image: &str,
) -> Result<DefaultPaths> {
    let adds_paths = !options.masked_paths.is_empty() || !options.read_only_paths.is_empty();
    if !adds_paths || tier.family.path_options != PathOptions::Lists {
        return Ok(DefaultPaths::default());
    }
    let queried = engine
        .default_paths
        .get_or_try_init(|| query(tier, engine, image));
    queried.await.cloned()
}

async fn query(tier: Tier, engine: &Engine, image: &str) -> Result<DefaultPaths> {
    let body = never_started(tier, image, HostConfig::default());
    let container = create(tier, engine, None, body).await?;
    let inspected = inspect(&engine.client, container.container()).await;
    container.remove(&engine.client).await?;
    let inspected = inspected.map_err(|error| engine_error(tier, Operation::Create, error))?;
    let host = inspected.host_config.unwrap_or_default();
    Ok(DefaultPaths {
        masked: host.masked_paths.unwrap_or_default(),
        read_only: host.readonly_paths.unwrap_or_default(),
    })
}
