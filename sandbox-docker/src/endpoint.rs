//! Finds a Docker engine's address in the same order as Docker's own client.

use std::path::{Path, PathBuf};

use sandbox_container::Candidates;
use sandbox_container::env_var::{path, text};
use sandbox_core::{Error, Result};

/// The addresses to try.
///
/// # Errors
///
/// `SandboxUnavailable` for an address or a context that cannot be used.
pub(crate) fn candidates(tier: &str) -> Result<Candidates> {
    find_candidates(tier, &DockerEnvironment::current())
}

/// The environment variables that locate the engine.
#[derive(Debug, Clone, Default)]
struct DockerEnvironment {
    docker_host: Option<String>,
    docker_context: Option<String>,
    docker_config: Option<PathBuf>,
    home: Option<PathBuf>,
    runtime_dir: Option<PathBuf>,
}

impl DockerEnvironment {
    /// Reads this process's environment.
    fn current() -> Self {
        Self {
            docker_host: text("DOCKER_HOST"),
            docker_context: text("DOCKER_CONTEXT"),
            docker_config: path("DOCKER_CONFIG"),
            home: path("HOME"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
        }
    }
}

fn find_candidates(tier: &str, environment: &DockerEnvironment) -> Result<Candidates> {
    if let Some(host) = &environment.docker_host {
        return Candidates::named(tier, host, "DOCKER_HOST");
    }
    if let Some((context, host)) = context_host(tier, environment)? {
        return Candidates::named(tier, &host, format!("the Docker context {context:?}"));
    }
    let rootless = environment
        .runtime_dir
        .as_ref()
        .map(|folder| folder.join("docker.sock"));
    let desktop = environment
        .home
        .as_ref()
        .map(|home| home.join(".docker/run/docker.sock"));
    let usual = ["/run/docker.sock".into(), "/var/run/docker.sock".into()];
    Ok(Candidates::usual(
        usual.into_iter().chain(rootless).chain(desktop),
    ))
}

/// Name and address of the selected context; `None` for the default one.
fn context_host(tier: &str, environment: &DockerEnvironment) -> Result<Option<(String, String)>> {
    let folder = match (&environment.docker_config, &environment.home) {
        (Some(folder), _) => folder.clone(),
        (None, Some(home)) => home.join(".docker"),
        (None, None) => return Ok(None),
    };
    let chosen = match &environment.docker_context {
        Some(name) => Some(name.clone()),
        None => current_context(&folder),
    };
    let Some(name) = chosen.filter(|name| name != "default") else {
        return Ok(None);
    };
    // Docker names a context's folder by the hash of its name; the file inside has the name.
    let found = std::fs::read_dir(folder.join("contexts/meta"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read_json(&entry.path().join("meta.json")))
        .find(|meta| meta["Name"] == name.as_str());
    match found
        .as_ref()
        .and_then(|meta| meta["Endpoints"]["docker"]["Host"].as_str())
    {
        Some(host) => Ok(Some((name, host.to_owned()))),
        None => Err(Error::unavailable(
            tier,
            format!("no Docker context {name:?} in {}", folder.display()),
            "choose one of `docker context ls`, or set DOCKER_HOST",
        )),
    }
}

fn current_context(folder: &Path) -> Option<String> {
    let config = read_json(&folder.join("config.json"))?;
    config["currentContext"]
        .as_str()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// A missing or invalid file counts as empty, as in Docker's own client.
fn read_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
