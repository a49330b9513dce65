//! The network of a policy.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// What network a sandbox has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NetworkPolicy {
    /// Only the sandbox's own loopback.
    None,
    /// Only connections that the rules allow.
    Allow(Vec<NetworkRule>),
    /// The network of the host.
    Full,
}

/// A destination: a host name (ports 80 and 443) or `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct NetworkRule {
    host: String,
    port: Option<u16>,
}

impl NetworkRule {
    /// The host name in lower case. A leading `*.` matches one or more labels.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The ports: 80 and 443, unless the rule has one.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.port.map_or_else(|| vec![80, 443], |port| vec![port])
    }
}

impl FromStr for NetworkRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::new(
                ErrorKind::InvalidPolicy,
                "read network rule",
                format!("{text:?}: {why}"),
            )
        };
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (
                host,
                Some(
                    port.parse()
                        .ok()
                        .filter(|p| *p != 0)
                        .ok_or_else(|| bad("the port is 1 to 65535"))?,
                ),
            ),
            None => (text, None),
        };
        let name = host.strip_prefix("*.").unwrap_or(host);
        let labels_are_good = !name.is_empty()
            && name.len() <= 253
            && name.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label
                        .bytes()
                        .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
            });
        if !labels_are_good {
            return Err(bad(
                "write a host name like example.org, *.example.org or example.org:8443",
            ));
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

impl TryFrom<String> for NetworkRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map_err(|error: Error| error.context().to_owned())
    }
}

impl From<NetworkRule> for String {
    fn from(rule: NetworkRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}
