//! Lists the containers of an engine.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum as State};
use bollard::query_parameters::ListContainersOptions;
use sandbox_core::{Error, Result};

use super::Endpoint;
use crate::Tier;
use crate::error::{Operation, engine_error};

/// A container in the engine's list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedContainer {
    /// Its id.
    pub id: String,
    /// Creation time in seconds since 1970; `None` if not reported.
    pub created: Option<i64>,
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// Whether it runs or is paused.
    pub runs: bool,
}

impl ListedContainer {
    fn new(summary: ContainerSummary) -> Option<Self> {
        Some(Self {
            id: summary.id?,
            created: summary.created,
            labels: summary.labels.unwrap_or_default(),
            runs: matches!(
                summary.state,
                Some(State::RUNNING | State::PAUSED | State::RESTARTING | State::STOPPING)
            ),
        })
    }
}

/// Lists the containers in any state that have all of these labels (`name` or `name=value`).
/// `address` is the engine's address, if known.
///
/// # Errors
///
/// The engine does not answer, or its response cannot be parsed.
pub(crate) async fn list(
    tier: Tier,
    client: &Docker,
    address: Option<&Endpoint>,
    labels: &[String],
) -> Result<Vec<ListedContainer>> {
    if let (Some(native), Some(address)) = (tier.family.native, address) {
        return native.list(address, labels).await.map_err(|why| {
            let command = tier.family.command;
            Error::unavailable(tier, why, format!("see whether `{command} info` works"))
        });
    }
    let options = ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), labels.to_vec())])),
        ..Default::default()
    };
    match client.list_containers(Some(options)).await {
        Ok(containers) => Ok(containers
            .into_iter()
            .filter_map(ListedContainer::new)
            .collect()),
        Err(error) => Err(engine_error(tier, Operation::List, error)),
    }
}
