//! How names become addresses.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::limits::MAX_LOOKUPS;

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The addresses of a name with this port, the preferred ones first.
    ///
    /// # Errors
    ///
    /// If there is none, or if the resolver does not answer.
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of this host, with its `/etc/hosts`, search list and name servers.
///
/// A lookup blocks a thread, which nothing can end: code could otherwise take all threads of this
/// process with names whose servers do not answer. So each resolver has a few, and counts one until
/// its lookup has really ended.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }
}

/// Addresses of some names, before another resolver is asked.
#[derive(Clone)]
pub struct HostsResolver {
    hosts: BTreeMap<String, IpAddr>,
    others: Arc<dyn Resolver>,
}

impl HostsResolver {
    /// These names, in lower case, have these addresses, and `others` finds those of all others.
    #[must_use]
    pub fn new(hosts: BTreeMap<String, IpAddr>, others: Arc<dyn Resolver>) -> Self {
        Self { hosts, others }
    }
}

#[async_trait]
impl Resolver for HostsResolver {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self.hosts.get(name) {
            Some(address) => Ok(vec![SocketAddr::new(*address, port)]),
            None => self.others.resolve(name, port).await,
        }
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let lookups = Arc::clone(&self.lookups);
        let turn = lookups.acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            let found = (name.as_str(), port).to_socket_addrs();
            drop(turn);
            found.map(Vec::from_iter)
        });
        lookup.await.map_err(io::Error::other)?
    }
}

/// The addresses with both families in turn, beginning with the preferred one, so that a family
/// without a route costs one attempt.
pub(super) fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let prefers_ipv4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (preferred, other): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv4() == prefers_ipv4);
    let (mut preferred, mut other) = (preferred.into_iter(), other.into_iter());
    let mut all = Vec::with_capacity(preferred.len() + other.len());
    while preferred.len() + other.len() > 0 {
        all.extend(preferred.next());
        all.extend(other.next());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let addresses = |text: &str| {
            let addresses = text.split(' ').map(|address| address.parse().unwrap());
            addresses.collect::<Vec<SocketAddr>>()
        };
        assert_eq!(
            in_turn(addresses("[::1]:1 [::2]:1 [::3]:1 1.1.1.1:1 1.1.1.2:1")),
            addresses("[::1]:1 1.1.1.1:1 [::2]:1 1.1.1.2:1 [::3]:1")
        );
        assert_eq!(
            in_turn(addresses("1.1.1.1:1 [::1]:1")),
            addresses("1.1.1.1:1 [::1]:1")
        );
        assert!(in_turn(Vec::new()).is_empty());
    }

    #[tokio::test]
    async fn addresses_need_no_name_server() {
        let resolver = SystemResolver::default();
        let found = resolver.resolve("127.0.0.1", 80).await.unwrap();
        assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(resolver.lookups.available_permits(), MAX_LOOKUPS);
    }
}
