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

impl EgressOptions {
    /// These names have these addresses, and servers may have certificates of the authorities in
    /// `certificates`. Other names have those of the name servers that [`super::NAME_SERVERS`] of
    /// this process lists, or of the host's resolver.
    ///
    /// # Errors
    ///
    /// As [`NameServers::from_environment`].
    pub fn new(hosts: &BTreeMap<String, IpAddr>, certificates: Option<&Path>) -> Result<Self> {
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
