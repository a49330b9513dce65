//! Addresses of engines.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bollard::Docker;
use sandbox_core::{Error, Result};

/// The address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A unix socket. The engine is assumed to run on this host.
    Unix(PathBuf),
    /// `host:port`, unencrypted.
    Tcp(String),
    /// The destination of a client that the caller created.
    Given(GivenClient),
}

/// A client that the caller created.
#[derive(Debug, Clone)]
pub struct GivenClient {
    pub(crate) client: Docker,
    /// Distinguishes the clients of this process.
    number: u64,
}

impl GivenClient {
    pub(crate) fn new(client: Docker) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(1);
        Self {
            client,
            number: MADE.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl PartialEq for GivenClient {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for GivenClient {}

impl Endpoint {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// A message that says why the address cannot be used.
    pub(crate) fn parse(host: &str) -> Result<Self, &'static str> {
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
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Given(given) => write!(f, "client {} of the caller", given.number),
        }
    }
}

/// The endpoints to try. An endpoint named by the user is the only candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidates {
    /// Tried in this order; the first that answers is used.
    pub endpoints: Vec<Endpoint>,
    /// What named the endpoint ("DOCKER_HOST"); `None` for the usual addresses.
    pub named_by: Option<String>,
}

const ADDRESS_FIX: &str = "use unix:///path/to/engine.sock or tcp://host:port";

impl Candidates {
    /// The engine at an address that `by` names.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` if the address cannot be used.
    pub fn named(tier: &str, host: &str, by: impl Into<String>) -> Result<Self> {
        let by = by.into();
        let endpoint = Endpoint::parse(host).map_err(|why| {
            Error::unavailable(tier, format!("{by} names {host:?}: {why}"), ADDRESS_FIX)
        })?;
        Ok(Self {
            endpoints: vec![endpoint],
            named_by: Some(by),
        })
    }

    /// The engine behind a client that the caller created.
    pub(crate) fn given(client: &GivenClient) -> Self {
        Self {
            endpoints: vec![Endpoint::Given(client.clone())],
            named_by: Some("the configuration".into()),
        }
    }

    /// These sockets, without duplicates that differ only by symlinks.
    #[must_use]
    pub fn usual(sockets: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut endpoints = Vec::new();
        for path in sockets {
            let endpoint = Endpoint::Unix(same_socket(path));
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        Self {
            endpoints,
            named_by: None,
        }
    }
}

/// Resolves symlinks of the parent folder: on most systems /var/run links to /run.
fn same_socket(path: PathBuf) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::ErrorKind;

    #[test]
    fn unusable_address_is_refused_with_a_fix() {
        for host in [
            "ssh://host",
            "unix://relative",
            "tcp://",
            "/run/docker.sock",
            "",
        ] {
            let error = Candidates::named("docker", host, "the configuration").expect_err(host);
            assert_eq!(error.kind(), ErrorKind::SandboxUnavailable);
            assert!(error.to_string().contains(&format!("{host:?}")), "{error}");
            assert!(
                error.fix().is_some_and(|fix| fix.contains("unix:///")),
                "{error}"
            );
        }
    }

    #[test]
    fn named_engine_is_the_only_candidate() {
        let found = Candidates::named("docker", "tcp://10.0.0.1:2375/", "DOCKER_HOST");
        let found = found.expect("candidates");
        assert_eq!(found.endpoints, [Endpoint::Tcp("10.0.0.1:2375".into())]);
        assert_eq!(found.named_by.as_deref(), Some("DOCKER_HOST"));
    }

    #[test]
    fn linked_socket_is_tried_once() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).expect("folder");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        let found = Candidates::usual([real.join("sock"), link.join("sock")]);
        assert_eq!(found.endpoints.len(), 1, "{found:?}");
    }
}
