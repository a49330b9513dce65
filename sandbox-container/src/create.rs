//! Creates containers such that none is leaked if the caller is canceled or the engine fails.

use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::CreateContainerOptions;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::Owner;

use crate::Tier;
use crate::background_removal::{REMOVER, remove_claimed_soon};
use crate::claim::ContainerClaim;
use crate::creation_turn::CreationTurn;
use crate::engine::EngineConnection;
use crate::error::{Operation, engine_error};
use crate::labels;
use crate::removal::ContainerGuard;

/// A container without a network that is only inspected or copied to, and never started.
pub(crate) fn never_started(tier: Tier, image: &str, host: HostConfig) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(image.to_owned()),
        // The engine requires a command.
        cmd: Some(vec!["/none".to_owned()]),
        labels: Some(labels::managed(tier)),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            ..host
        }),
        ..ContainerCreateBody::default()
    }
}

/// Creates a container in a separate task. If the caller drops this future, the task still learns
/// the id and its guard removes the container. If the engine fails before it answers, the container
/// is looked up by its token and removed once the engine is back.
pub(crate) async fn create(
    tier: Tier,
    engine: &EngineConnection,
    name: Option<String>,
    mut body: ContainerCreateBody,
) -> Result<ContainerGuard> {
    let claim = ContainerClaim::new();
    let labels = body.labels.get_or_insert_default();
    labels.insert(labels::OWNER.to_owned(), Owner::current().to_label());
    labels.insert(labels::TOKEN.to_owned(), claim.token().to_owned());
    let engine = engine.clone();
    let pending = REMOVER.hold();
    let creation = tokio::spawn(async move {
        let options = CreateContainerOptions {
            name,
            ..Default::default()
        };
        let turn = CreationTurn::take(&engine.endpoint, &body).await;
        let created = engine.client.create_container(Some(options), body).await;
        drop(turn);
        let created = match created {
            Ok(created) => {
                let guard = ContainerGuard::new(tier, &engine.endpoint, created.id, claim);
                Ok(guard.with_warnings(created.warnings))
            }
            Err(error) => {
                let error = engine_error(tier, Operation::Create, error);
                if error.kind() == ErrorKind::SandboxUnavailable {
                    remove_claimed_soon(tier, &engine.endpoint, claim);
                }
                Err(error)
            }
        };
        // If the caller is gone, these drop in order: the guard starts its removal before the
        // pending count drops.
        (created, pending)
    });
    match creation.await {
        Ok((created, _pending)) => created,
        Err(stopped) => {
            let context = format!("the task that asks the engine was stopped: {stopped}");
            Err(Error::new(ErrorKind::Io, "create container", context).on(tier))
        }
    }
}
