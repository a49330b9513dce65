//! What an owner left behind that was killed between creating a container and starting it.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptions;

use crate::Tier;
use crate::engine::Engine;
use crate::labels;
use crate::removal;

/// A container that is this old and has not been started never will be: its owner starts it within a second.
const AGE_SECONDS: i64 = 120;

/// Removes our containers that were created long ago and never started. Those that ran are removed by the engine itself.
///
/// Does what it can: what it cannot remove now is left to the next client.
pub(crate) async fn sweep(tier: Tier, engine: &Engine) {
    let filters = HashMap::from([
        ("label".to_owned(), vec![labels::TIER.to_owned()]),
        ("status".to_owned(), vec!["created".to_owned()]),
    ]);
    let options = ListContainersOptions {
        all: true,
        filters: Some(filters),
        ..Default::default()
    };
    let containers = match engine.client.list_containers(Some(options)).await {
        Ok(containers) => containers,
        Err(error) => {
            tracing::debug!(%tier, %error, "containers that were never started are not looked for");
            return;
        }
    };
    for container in stale(&containers, now()) {
        if let Err(error) = removal::remove(tier, &engine.client, container).await {
            tracing::warn!(%tier, container, %error, "a container that was never started is left");
        }
    }
}

fn stale(containers: &[ContainerSummary], now: i64) -> impl Iterator<Item = &str> {
    containers
        .iter()
        .filter(move |container| {
            container
                .created
                .is_some_and(|made| now.saturating_sub(made) > AGE_SECONDS)
        })
        .filter_map(|container| container.id.as_deref())
}

/// Seconds since 1970, as the engine counts them. A clock before that makes nothing stale.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_is_stale() {
        let made = |id: &str, created| ContainerSummary {
            id: Some(id.into()),
            created,
            ..ContainerSummary::default()
        };
        let all = [
            made("old", Some(1000)),
            made("new", Some(1990)),
            made("unknown", None),
        ];
        assert_eq!(stale(&all, 2000).collect::<Vec<_>>(), ["old"]);
        assert_eq!(stale(&all, 900).count(), 0, "a clock behind the engine's");
    }
}
