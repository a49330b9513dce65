//! The rules in force, and the connections under them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use sandbox_core::policy::{
    Decision, Destination, EgressDenial, EgressRules, EgressTarget, IpNetwork, NetworkRule,
    RuleLevel,
};
use tokio::sync::Notify;

use super::limits::{MAX_ADDRESSES, MAX_CONNECTIONS};
use super::wildcard::{TooMany, WildcardNames};
use crate::lock;

/// Rules that can be replaced, and every open connection. A decision and its connection are entered
/// under one lock, so that no connection of a revoked rule is missed.
pub(super) struct Live {
    state: Mutex<LiveState>,
    /// Notified when a connection ended.
    closed: Notify,
}

struct LiveState {
    rules: EgressRules,
    generation: u64,
    next: u64,
    open: HashMap<u64, Open>,
    wildcards: WildcardNames,
}

/// A connection.
struct Open {
    target: EgressTarget,
    port: u16,
    /// What was checked, or will be.
    level: RuleLevel,
    /// Whether addresses that are not public were allowed.
    private: bool,
    /// The addresses that may be dialed, then the one that is connected.
    addresses: Vec<IpAddr>,
    /// Those of `addresses` that are this host's.
    own: Vec<IpAddr>,
    /// At level `http`, the method and the path of the last request.
    request: Option<(String, String)>,
    revoked: Arc<Notify>,
}

impl Open {
    /// Whether these rules allow the connection as it is.
    fn is_allowed_by(&self, rules: &EgressRules) -> bool {
        match rules.decide(&self.target, self.port) {
            Decision::Allowed {
                rule,
                level,
                private,
            } => {
                let mut addresses = self.addresses.iter();
                level <= self.level
                    && (private || !self.private)
                    && addresses.all(|address| rules.judge(&rule, *address, self.port).is_ok())
                    && self.request.as_ref().is_none_or(|(method, path)| {
                        self.decide_request(rules, method, path).is_ok()
                    })
            }
            _ => false,
        }
    }

    /// Decides about a request on the connection, which is connected.
    fn decide_request(
        &self,
        rules: &EgressRules,
        method: &str,
        path: &str,
    ) -> Result<NetworkRule, Refused> {
        let Some(address) = self.addresses.first() else {
            return Err(Refused::Rules(EgressDenial::NoRule));
        };
        match rules.decide_request(&self.target, self.port, *address, method, path) {
            Decision::Allowed { rule, private, .. } if !private && self.own.contains(address) => {
                Err(Refused::OwnAddress(rule, *address))
            }
            Decision::Allowed { rule, .. } => Ok(rule),
            Decision::Denied(denial) => Err(Refused::Rules(denial)),
            _ => Err(Refused::Rules(EgressDenial::NoRule)),
        }
    }
}

/// Why a connection is not entered.
#[derive(Debug)]
pub(super) enum Refused {
    Rules(EgressDenial),
    Wildcard(NetworkRule, TooMany),
    /// An address of this host.
    OwnAddress(NetworkRule, IpAddr),
    TooManyConnections,
}

/// An entered connection. Dropping it removes it.
pub(super) struct Ticket<'a> {
    live: &'a Live,
    id: u64,
    revoked: Arc<Notify>,
    pub(super) rule: NetworkRule,
    pub(super) level: RuleLevel,
}

impl Live {
    pub(super) fn new(rules: EgressRules) -> Self {
        Self {
            state: Mutex::new(LiveState {
                rules,
                generation: 0,
                next: 0,
                open: HashMap::new(),
                wildcards: WildcardNames::new(),
            }),
            closed: Notify::new(),
        }
    }

    pub(super) fn rules(&self) -> EgressRules {
        lock(&self.state).rules.clone()
    }

    pub(super) fn generation(&self) -> u64 {
        lock(&self.state).generation
    }

    pub(super) fn open(&self) -> usize {
        lock(&self.state).open.len()
    }

    /// Decides about a connection and enters it.
    pub(super) fn enter(&self, target: &EgressTarget, port: u16) -> Result<Ticket<'_>, Refused> {
        let mut state = lock(&self.state);
        let (rule, level, private) = decided(&state.rules, target, port)?;
        if state.open.len() >= MAX_CONNECTIONS {
            return Err(Refused::TooManyConnections);
        }
        let id = state.next;
        state.next += 1;
        let revoked = Arc::new(Notify::new());
        let open = Open {
            target: target.clone(),
            port,
            level,
            private,
            addresses: Vec::new(),
            own: Vec::new(),
            request: None,
            revoked: Arc::clone(&revoked),
        };
        state.open.insert(id, open);
        Ok(Ticket {
            live: self,
            id,
            revoked,
            rule,
            level,
        })
    }

    /// Replaces the rules, and resets the connections that they do not allow. Returns when these
    /// have ended.
    pub(super) async fn replace(&self, rules: EgressRules) {
        let mut revoked = {
            let mut state = lock(&self.state);
            state.rules = rules;
            state.generation += 1;
            let LiveState { rules, open, .. } = &*state;
            let revoked = open.iter().filter(|(_, open)| !open.is_allowed_by(rules));
            let revoked = revoked.map(|(id, open)| {
                open.revoked.notify_one();
                *id
            });
            revoked.collect::<Vec<_>>()
        };
        loop {
            let closed = self.closed.notified();
            tokio::pin!(closed);
            closed.as_mut().enable();
            let is_open = |id: &u64| lock(&self.state).open.contains_key(id);
            while revoked.pop_if(|id| !is_open(id)).is_some() {}
            if revoked.is_empty() {
                return;
            }
            closed.await;
        }
    }
}

fn decided(
    rules: &EgressRules,
    target: &EgressTarget,
    port: u16,
) -> Result<(NetworkRule, RuleLevel, bool), Refused> {
    match rules.decide(target, port) {
        Decision::Allowed {
            rule,
            level,
            private,
        } => Ok((rule, level, private)),
        Decision::Denied(denial) => Err(Refused::Rules(denial)),
        _ => Err(Refused::Rules(EgressDenial::NoRule)),
    }
}

impl Ticket<'_> {
    /// Returns when the connection's rule is revoked.
    pub(super) async fn revoked(&self) {
        self.revoked.notified().await;
    }

    /// Counts the name of the connection, which is about to be looked up.
    pub(super) fn take_name(&self, target: &EgressTarget) -> Result<(), Refused> {
        match (target, self.rule.destination()) {
            (EgressTarget::Name(name), Destination::Suffix(_)) => {
                let mut state = lock(&self.live.state);
                let taken = state.wildcards.take(name);
                taken.map_err(|why| Refused::Wildcard(self.rule.clone(), why))
            }
            _ => Ok(()),
        }
    }

    /// The addresses that may be dialed, by the rules that are now in force. `own` are those of this
    /// host.
    pub(super) fn judge(
        &self,
        target: &EgressTarget,
        addresses: &[SocketAddr],
        own: &[IpNetwork],
    ) -> Result<Vec<SocketAddr>, Refused> {
        let mut state = lock(&self.live.state);
        let LiveState { rules, open, .. } = &mut *state;
        let Some(entry) = open.get_mut(&self.id) else {
            return Err(Refused::Rules(EgressDenial::NoRule));
        };
        let (rule, ..) = decided(rules, target, entry.port)?;
        let mut judged = Vec::new();
        let mut refused = None;
        for address in addresses {
            let ip = address.ip();
            if let Err(denial) = rules.judge(&rule, ip, entry.port) {
                refused = refused.or(Some(Refused::Rules(denial)));
            } else if !rule.is_private() && own.iter().any(|own| own.contains(ip)) {
                refused = refused.or(Some(Refused::OwnAddress(rule.clone(), ip)));
            } else if judged.len() < MAX_ADDRESSES && !judged.contains(address) {
                judged.push(*address);
            }
        }
        match (judged.is_empty(), refused) {
            (true, Some(refused)) => Err(refused),
            _ => {
                entry.private |= rule.is_private();
                entry.addresses = judged.iter().map(SocketAddr::ip).collect();
                let addresses = entry.addresses.iter().copied();
                let is_own = |ip: &IpAddr| own.iter().any(|own| own.contains(*ip));
                entry.own = addresses.filter(is_own).collect();
                Ok(judged)
            }
        }
    }

    /// Decides about an HTTP request on the connection, by the rules that are now in force. It is
    /// judged again when they change, until the next one comes.
    #[cfg(feature = "http")]
    pub(super) fn request(&self, method: &str, path: &str) -> Result<NetworkRule, Refused> {
        let mut state = lock(&self.live.state);
        let LiveState { rules, open, .. } = &mut *state;
        let Some(entry) = open.get_mut(&self.id) else {
            return Err(Refused::Rules(EgressDenial::NoRule));
        };
        let rule = entry.decide_request(rules, method, path)?;
        entry.request = Some((method.to_owned(), path.to_owned()));
        Ok(rule)
    }

    /// Notes the address that is connected. The others no longer matter to the rules.
    pub(super) fn connected(&self, address: IpAddr) {
        if let Some(open) = lock(&self.live.state).open.get_mut(&self.id) {
            open.addresses = vec![address];
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        lock(&self.live.state).open.remove(&self.id);
        self.live.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_stays_only_if_the_new_rules_allow_it_as_it_is() {
        let rules = |rules: &[&str]| EgressRules::parse(rules).unwrap();
        let check = |before: &str, address: &str, after: &[&str]| {
            let target = EgressTarget::new("x.a.org").unwrap();
            let (rule, level, private) = decided(&rules(&[before]), &target, 443).unwrap();
            let open = Open {
                target,
                port: 443,
                level,
                private,
                addresses: vec![address.parse().unwrap()],
                own: Vec::new(),
                request: None,
                revoked: Arc::default(),
            };
            assert!(!rule.is_deny());
            open.is_allowed_by(&rules(after))
        };
        for (before, after, stays) in [
            ("x.a.org", &["x.a.org"][..], true),
            ("x.a.org", &["*.a.org:443", "b.org"], true),
            ("x.a.org", &["x.a.org tcp"], true),
            ("x.a.org", &["x.a.org private"], true),
            ("x.a.org", &["b.org"], false),
            ("x.a.org", &["x.a.org:80"], false),
            ("x.a.org", &["x.a.org", "!*.a.org"], false),
            ("x.a.org", &["x.a.org", "!1.2.3.0/24"], false),
            ("x.a.org", &["x.a.org", "!1.2.4.0/24"], true),
            ("x.a.org tcp", &["x.a.org"], false),
            ("x.a.org private", &["x.a.org"], false),
        ] {
            assert_eq!(check(before, "1.2.3.4", after), stays, "{before} {after:?}");
        }
    }
}
