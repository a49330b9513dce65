//! Where an engine may listen, in the order in which Docker's own client looks.

use std::fmt;
use std::path::{Path, PathBuf};

use sandbox_core::{Error, Result};

use crate::config::DockerConfig;

/// An address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A unix socket: the engine is taken to run on this host.
    Unix(PathBuf),
    /// `host:port`, in clear text.
    Tcp(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// What of the process's environment says where the engine is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub docker_host: Option<String>,
    pub docker_context: Option<String>,
    pub docker_config: Option<PathBuf>,
    pub home: Option<PathBuf>,
    pub runtime_dir: Option<PathBuf>,
}

impl Environment {
    /// This process's.
    pub(crate) fn current() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let path = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Self {
            docker_host: text("DOCKER_HOST"),
            docker_context: text("DOCKER_CONTEXT"),
            docker_config: path("DOCKER_CONFIG"),
            home: path("HOME"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
        }
    }
}

/// The endpoints to try, and who named them. Whoever names one means that one only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidates {
    pub endpoints: Vec<Endpoint>,
    pub named_by: Option<String>,
}

/// Where to look for the engine.
///
/// # Errors
///
/// `SandboxUnavailable` for an address or a context that cannot be used.
pub(crate) fn candidates(
    tier: &str,
    config: &DockerConfig,
    environment: &Environment,
) -> Result<Candidates> {
    let named = |host: &str, by: String| {
        let endpoint = parse(host).map_err(|why| {
            Error::unavailable(tier, format!("{by} names {host:?}: {why}"), ADDRESS_FIX)
        })?;
        Ok(Candidates {
            endpoints: vec![endpoint],
            named_by: Some(by),
        })
    };
    if let Some(host) = &config.host {
        return named(host, "the configuration".into());
    }
    if let Some(host) = &environment.docker_host {
        return named(host, "DOCKER_HOST".into());
    }
    if let Some((context, host)) = context_host(tier, environment)? {
        return named(&host, format!("the Docker context {context:?}"));
    }
    let mut endpoints = Vec::new();
    let usual = [
        Some(PathBuf::from("/run/docker.sock")),
        Some("/var/run/docker.sock".into()),
    ];
    let rootless = environment
        .runtime_dir
        .as_ref()
        .map(|folder| folder.join("docker.sock"));
    let desktop = environment
        .home
        .as_ref()
        .map(|home| home.join(".docker/run/docker.sock"));
    for path in usual.into_iter().chain([rootless, desktop]).flatten() {
        let endpoint = Endpoint::Unix(same_socket(path));
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    Ok(Candidates {
        endpoints,
        named_by: None,
    })
}

const ADDRESS_FIX: &str = "use unix:///path/to/docker.sock or tcp://host:port";

/// The path with its folder's links followed: /var/run is a link to /run on most systems.
fn same_socket(path: PathBuf) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

fn parse(host: &str) -> Result<Endpoint, &'static str> {
    if let Some(path) = host.strip_prefix("unix://") {
        return match path.starts_with('/') {
            true => Ok(Endpoint::Unix(path.into())),
            false => Err("the path of a socket is absolute"),
        };
    }
    if let Some(address) = host
        .strip_prefix("tcp://")
        .or_else(|| host.strip_prefix("http://"))
    {
        return match address.trim_end_matches('/') {
            "" => Err("no address"),
            address => Ok(Endpoint::Tcp(address.to_owned())),
        };
    }
    Err("neither a unix socket nor a TCP address in clear text")
}

/// The name and address of the chosen context; `None` for the default one.
fn context_host(tier: &str, environment: &Environment) -> Result<Option<(String, String)>> {
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
    // Docker files a context under the hash of its name; the name itself stands inside.
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

/// A file that is not there or not JSON says nothing, as for Docker's own client.
fn read_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
