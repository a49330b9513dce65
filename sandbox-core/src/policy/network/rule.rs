//! One rule of a network.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Destination, EgressTarget, RequestFilter};
use crate::Error;

/// The ports of a rule that allows a destination without naming a port.
const DEFAULT_PORTS: &[u16] = &[80, 443];

/// How much of a connection is checked before it is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleLevel {
    /// Only the destination: any protocol over TCP.
    Tcp,
    /// Also that the client asks for this name: TLS with this server name, or HTTP with this host.
    Name,
    /// Every request: the host ends TLS with a certificate that it made for the sandbox, and reads
    /// HTTP.
    Http,
}

impl RuleLevel {
    /// The word in a rule.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Name => "name",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for RuleLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule for destinations: `[!]DESTINATION[:PORT] [tcp|name|http [METHODS] [PATH]...] [private]`.
///
/// `DESTINATION` is a host name, `*.suffix` for one or more labels before a suffix, an IPv4
/// address, an IPv6 address in brackets, or a network like `203.0.113.0/24`. Without a port, a rule
/// allows 80 and 443. A rule with `!` denies, wins over each rule that allows, and denies all ports
/// if it names none.
///
/// The level is `name` for names on ports 80 and 443, and `tcp` otherwise. `private` opens
/// destinations that are not public: see [`super::AddressClass`].
///
/// A rule at level `http` can restrict requests: `METHODS` are separated by commas, and a `PATH`
/// begins with `/` and may end with `*`. See [`RequestFilter`].
///
/// ```
/// use sandbox_core::policy::{NetworkRule, RuleLevel};
///
/// let rule: NetworkRule = "Example.org:443".parse()?;
/// assert_eq!((rule.level(443), rule.is_private()), (RuleLevel::Name, false));
/// assert_eq!(rule.to_string(), "example.org:443");
/// let rule: NetworkRule = "10.0.0.7:5432 private".parse()?;
/// assert_eq!(rule.level(5432), RuleLevel::Tcp);
/// let rule: NetworkRule = "api.example.org:443 http GET /v1/*".parse()?;
/// assert_eq!(rule.level(443), RuleLevel::Http);
/// assert!("http://example.org".parse::<NetworkRule>().is_err());
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct NetworkRule {
    pub(super) denies: bool,
    pub(super) destination: Destination,
    pub(super) port: Option<u16>,
    /// The level, if it is not the default for each of the ports.
    pub(super) level: Option<RuleLevel>,
    pub(super) private: bool,
    /// Restricts the level `http`. Never empty.
    pub(super) requests: Option<Box<RequestFilter>>,
}

impl NetworkRule {
    /// Whether the rule denies its destinations.
    #[must_use]
    pub fn is_deny(&self) -> bool {
        self.denies
    }

    /// The destinations.
    #[must_use]
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The ports: 80 and 443, unless the rule has one. A rule that denies and has none denies every
    /// port, for which this is `None`.
    #[must_use]
    pub fn ports(&self) -> Option<Vec<u16>> {
        match self.port {
            Some(port) => Some(vec![port]),
            None if self.denies => None,
            None => Some(DEFAULT_PORTS.to_vec()),
        }
    }

    /// Whether the rule applies to a port.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => self.denies || DEFAULT_PORTS.contains(&port),
        }
    }

    /// What is checked of a connection to this port.
    #[must_use]
    pub fn level(&self, port: u16) -> RuleLevel {
        self.level
            .unwrap_or_else(|| default_level(&self.destination, port))
    }

    /// The requests that are allowed at level `http`. Empty at others.
    #[must_use]
    pub fn requests(&self) -> &RequestFilter {
        static EVERY: RequestFilter = RequestFilter::every();
        self.requests.as_deref().unwrap_or(&EVERY)
    }

    /// Whether the rule allows connections at level `http`.
    #[must_use]
    pub fn reads_requests(&self) -> bool {
        !self.denies && self.level == Some(RuleLevel::Http)
    }

    /// Whether the rule opens addresses that are not public.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Whether both rules apply to a common destination and port.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (&self.destination, &other.destination);
        let mut ports = other.ports().unwrap_or_default().into_iter();
        (one.covers(two) || two.covers(one)) && ports.any(|port| self.has_port(port))
    }

    /// Whether the rule applies to this target and port.
    #[must_use]
    pub fn matches(&self, target: &EgressTarget, port: u16) -> bool {
        self.has_port(port) && self.destination.matches(target)
    }

    /// Stores a level only where it differs from the default, so that equal rules are equal values.
    pub(super) fn set_level(&mut self, level: Option<RuleLevel>) {
        let ports = self.ports().unwrap_or_default();
        let is_default = |level| {
            let mut ports = ports.iter();
            ports.all(|port| default_level(&self.destination, *port) == level)
        };
        self.level = level.filter(|level| !is_default(*level));
    }
}

fn default_level(destination: &Destination, port: u16) -> RuleLevel {
    match destination {
        Destination::Name(_) | Destination::Suffix(_) if DEFAULT_PORTS.contains(&port) => {
            RuleLevel::Name
        }
        // An address has no name that a client could ask for.
        _ => RuleLevel::Tcp,
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denies {
            f.write_str("!")?;
        }
        write!(f, "{}", self.destination)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if let Some(level) = self.level {
            write!(f, " {level}{}", self.requests())?;
        }
        if self.private {
            f.write_str(" private")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for NetworkRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: Error| match error.fix() {
            Some(fix) => format!("{}; {fix}", error.context()),
            None => error.context().to_owned(),
        })
    }
}

impl From<NetworkRule> for String {
    fn from(rule: NetworkRule) -> Self {
        rule.to_string()
    }
}
