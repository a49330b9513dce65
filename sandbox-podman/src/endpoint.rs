//! Finds a Podman service's address in the same order as Podman's own client.

use std::path::{Path, PathBuf};

use sandbox_container::{Candidates, env_var};
use sandbox_core::{Error, Result};

/// The addresses to try.
///
/// # Errors
///
/// `SandboxUnavailable` for an address or a connection that cannot be used.
pub(crate) fn candidates(tier: &str) -> Result<Candidates> {
    find_candidates(tier, &PodmanEnvironment::current())
}

/// The environment variables and files that locate the engine.
#[derive(Debug, Clone, Default)]
struct PodmanEnvironment {
    /// `CONTAINER_HOST`.
    host: Option<String>,
    /// `CONTAINER_CONNECTION`.
    connection: Option<String>,
    /// Podman's configuration files, highest priority first.
    configurations: Vec<PathBuf>,
    /// The file where newer versions of Podman store connections.
    connections: Option<PathBuf>,
    /// The user's runtime folder for sockets.
    runtime_dir: Option<PathBuf>,
}

impl PodmanEnvironment {
    /// Reads this process's environment.
    fn current() -> Self {
        let config = env_var::path("XDG_CONFIG_HOME")
            .or_else(|| env_var::path("HOME").map(|home| home.join(".config")));
        let users = config.map(|config| config.join("containers"));
        let configurations = match env_var::path("CONTAINERS_CONF") {
            Some(only) => vec![only],
            None => users
                .iter()
                .map(|folder| folder.join("containers.conf"))
                .chain(["/etc/containers/containers.conf".into()])
                .chain(["/usr/share/containers/containers.conf".into()])
                .collect(),
        };
        let run = || format!("/run/user/{}", rustix::process::getuid().as_raw()).into();
        Self {
            host: env_var::text("CONTAINER_HOST"),
            connection: env_var::text("CONTAINER_CONNECTION"),
            configurations,
            connections: env_var::path("PODMAN_CONNECTIONS_CONF")
                .or_else(|| users.map(|folder| folder.join("podman-connections.json"))),
            runtime_dir: Some(env_var::path("XDG_RUNTIME_DIR").unwrap_or_else(run)),
        }
    }
}

fn find_candidates(tier: &str, environment: &PodmanEnvironment) -> Result<Candidates> {
    if let Some(host) = &environment.host {
        return Candidates::named(tier, &without_query(host), "CONTAINER_HOST");
    }
    if let Some((name, host)) = connection(tier, environment)? {
        let by = format!("the Podman connection {name:?}");
        return Candidates::named(tier, &without_query(&host), by);
    }
    let rootless = environment
        .runtime_dir
        .as_ref()
        .map(|folder| folder.join("podman/podman.sock"));
    let usual = PathBuf::from("/run/podman/podman.sock");
    Ok(Candidates::usual([usual].into_iter().chain(rootless)))
}

/// Drops the query of a Podman address, which has nothing needed here.
fn without_query(host: &str) -> String {
    host.split('?').next().unwrap_or_default().to_owned()
}

/// Name and address of the selected connection.
fn connection(tier: &str, environment: &PodmanEnvironment) -> Result<Option<(String, String)>> {
    let tables = environment
        .configurations
        .iter()
        .filter_map(|path| read_toml(path))
        .collect::<Vec<_>>();
    let stored = environment
        .connections
        .as_deref()
        .and_then(read_json)
        .unwrap_or_default();
    let stored = &stored["Connection"];
    let chosen = environment
        .connection
        .clone()
        .or_else(|| text(stored["Default"].as_str()))
        .or_else(|| {
            tables
                .iter()
                .find_map(|table| text(table.get("engine")?.get("active_service")?.as_str()))
        });
    let Some(name) = chosen else {
        return Ok(None);
    };
    let uri = text(stored["Connections"][&name]["URI"].as_str()).or_else(|| {
        tables.iter().find_map(|table| {
            let destinations = table.get("engine")?.get("service_destinations")?;
            text(destinations.get(&name)?.get("uri")?.as_str())
        })
    });
    match uri {
        Some(uri) => Ok(Some((name, uri))),
        None => Err(Error::unavailable(
            tier,
            format!("no Podman connection {name:?} is configured"),
            "choose one of `podman system connection list`, or set CONTAINER_HOST",
        )),
    }
}

fn text(value: Option<&str>) -> Option<String> {
    value.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A missing or invalid file counts as empty: Podman itself reports errors in it.
fn read_toml(path: &Path) -> Option<toml::Table> {
    std::fs::read_to_string(path).ok()?.parse().ok()
}

/// As [`read_toml`].
fn read_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
