//! How this host reaches servers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_core::Result;

use super::{HostsResolver, NameServers, Resolver, SystemResolver};

/// How this host reaches servers.
#[derive(Clone)]
pub struct EgressOptions {
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolver>,
    /// A file in PEM format with authorities that this host trusts beside the system's, for servers
    /// of rules at level `http`.
    pub certificates: Option<PathBuf>,
}

/// What a backend's configuration says about servers.
#[derive(Debug, Clone, Copy)]
pub struct EgressConfig<'a> {
    /// Addresses of names, before this host's resolver is asked.
    pub hosts: &'a BTreeMap<String, IpAddr>,
    /// See [`EgressOptions::certificates`].
    pub certificates: Option<&'a Path>,
}

impl EgressOptions {
    /// Those of a configuration. Names that it does not have are asked of the name servers that
    /// [`super::NAME_SERVERS`] of this process lists, or of the host's resolver.
    ///
    /// # Errors
    ///
    /// As [`NameServers::from_environment`].
    pub fn new(config: EgressConfig<'_>) -> Result<Self> {
        let EgressConfig {
            hosts,
            certificates,
        } = config;
        let others: Arc<dyn Resolver> = match NameServers::from_environment()? {
            Some(servers) => Arc::new(servers),
            None => Arc::new(SystemResolver::default()),
        };
        Ok(Self {
            resolver: Arc::new(HostsResolver::new(hosts.clone(), others)),
            certificates: certificates.map(Path::to_owned),
        })
    }
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            certificates: None,
        }
    }
}
