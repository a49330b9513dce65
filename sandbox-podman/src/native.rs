//! Queries over Podman's own API.

use std::time::Duration;

use async_trait::async_trait;
use podman_api::models::{HostInfo, IdMap, ListContainer};
use podman_api::opts::{ContainerListFilter, ContainerListOpts};
use podman_api::{ApiVersion, Error};
use sandbox_container::{Endpoint, EngineFacts, FactsCorrection, ListedContainer, NativeApi};

/// API version used: the oldest that engines since version 4 support. These requests are the same
/// in all of them.
const VERSION: (usize, usize, usize) = (4, 0, 0);

/// Attempts to list containers. Podman inspects each container, and fails the whole list if one is
/// being created or removed.
const ATTEMPTS: u32 = 5;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Podman's own API.
#[derive(Debug)]
pub(crate) struct Libpod;

#[async_trait]
impl NativeApi for Libpod {
    async fn ask(&self, endpoint: &Endpoint) -> Result<FactsCorrection, String> {
        let info = client(endpoint)?.info().await.map_err(message)?;
        let host = info
            .host
            .ok_or("Podman's own API says nothing of the host")?;
        Ok(Box::new(move |facts| correct(facts, host)))
    }

    async fn list(
        &self,
        endpoint: &Endpoint,
        labels: &[String],
    ) -> Result<Vec<ListedContainer>, String> {
        let filters = labels.iter().map(|label| match label.split_once('=') {
            Some((name, value)) => ContainerListFilter::LabelKeyVal(name.into(), value.into()),
            None => ContainerListFilter::LabelKey(label.clone()),
        });
        let options = ContainerListOpts::builder()
            .all(true)
            .filter(filters)
            .build();
        let client = client(endpoint)?;
        let mut attempts = 1;
        let found = loop {
            match client.containers().list(&options).await {
                Ok(found) => break found,
                Err(Error::Fault { code, .. }) if code.is_server_error() && attempts < ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(message(error)),
            }
        };
        Ok(found.into_iter().filter_map(listed).collect())
    }

    async fn image(&self, endpoint: &Endpoint, reference: &str) -> Result<Option<String>, String> {
        let Some(built_here) = built_here(reference) else {
            return Ok(None);
        };
        match client(endpoint)?.images().get(&built_here).inspect().await {
            // Podman also returns images whose names only end with this one.
            Ok(image)
                if image
                    .repo_tags
                    .iter()
                    .flatten()
                    .any(|tag| *tag == built_here) =>
            {
                Ok(image.id)
            }
            Ok(_) => Ok(None),
            Err(Error::Fault { code, .. }) if code.as_u16() == 404 => Ok(None),
            Err(error) => Err(message(error)),
        }
    }
}

fn correct(facts: &mut EngineFacts, host: HostInfo) {
    let controllers = host.cgroup_controllers.unwrap_or_default();
    let has = |name: &str| controllers.iter().any(|controller| controller == name);
    // Over Docker's API a rootless engine claims every limit that the kernel supports.
    facts.memory_limit &= has("memory");
    facts.swap_limit &= has("memory");
    facts.cpu_quota &= has("cpu");
    facts.pids_limit &= has("pids");
    if let Some(maps) = host.id_mappings {
        let (users, groups) = (
            maps.uidmap.unwrap_or_default(),
            maps.gidmap.unwrap_or_default(),
        );
        facts.engine_user = root_of(&users).zip(root_of(&groups));
        if let Some(ids) = count(&users).zip(count(&groups)) {
            facts.ids = ids.0.min(ids.1);
        }
    }
    if let Some(security) = host.security {
        facts.rootless = security.rootless == Some(true);
        facts.seccomp = security.seccomp_enabled == Some(true);
    }
}

/// Docker's API does not know all of Podman's states.
fn listed(container: ListContainer) -> Option<ListedContainer> {
    // A container without a state must not count as ended.
    let state = container.state?;
    Some(ListedContainer {
        id: container.id?,
        created: container.created.map(|time| time.timestamp()),
        labels: container.labels.unwrap_or_default(),
        runs: matches!(state.as_str(), "running" | "paused" | "stopping"),
    })
}

/// The host's user (or group) that maps to 0 in containers. A rootful engine has no maps.
fn root_of(map: &[IdMap]) -> Option<u32> {
    let first = map.iter().find(|range| range.container_id == Some(0))?;
    u32::try_from(first.host_id?).ok()
}

/// Number of ids from 0 on in containers; `None` without maps.
fn count(map: &[IdMap]) -> Option<u32> {
    let end = |range: &IdMap| Some(range.container_id? + range.size?);
    let end = map.iter().filter_map(end).max()?;
    u32::try_from(end).ok()
}

/// The full name of an image that was built on this engine under a short name. Docker's API takes a
/// short name for one of Docker's registry. `None` for a name that is not short.
fn built_here(reference: &str) -> Option<String> {
    let first = reference.split('/').next().unwrap_or_default();
    let names_registry =
        reference.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    if names_registry || reference.contains('@') {
        return None;
    }
    let last = reference.rsplit('/').next().unwrap_or_default();
    let tag = if last.contains(':') { "" } else { ":latest" };
    Some(format!("localhost/{reference}{tag}"))
}

/// Creates a client. It opens a new connection for each request.
fn client(endpoint: &Endpoint) -> Result<podman_api::Podman, String> {
    let (major, minor, patch) = VERSION;
    let version = ApiVersion::new(major, Some(minor), Some(patch));
    podman_api::Podman::new_versioned(endpoint.to_string(), version).map_err(message)
}

fn message(error: Error) -> String {
    match error {
        // An error response from Podman.
        Error::Fault { .. } => format!("Podman's own API answers: {error}"),
        error => format!("Podman's own API does not answer: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::built_here;

    #[test]
    fn only_short_names_can_be_local_images() {
        for (reference, full) in [
            ("mine", "localhost/mine:latest"),
            ("team/mine:2", "localhost/team/mine:2"),
        ] {
            assert_eq!(built_here(reference).as_deref(), Some(full));
        }
        for reference in [
            "docker.io/library/python",
            "host:5000/a",
            "localhost/mine",
            "mine@sha256:0123",
        ] {
            assert_eq!(built_here(reference), None, "{reference}");
        }
    }
}
