//! What the agent says that code connects to.

use std::fmt;
use std::net::IpAddr;

use sandbox_core::policy::EgressTarget;

/// A destination as the agent gives it. Code can control the agent, so nothing of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeTarget {
    /// The host.
    pub host: TargetHost,
    /// The port.
    pub port: u16,
}

/// A host as the agent gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetHost {
    /// The name that code looked up.
    Name(String),
    /// The address that code wrote itself.
    Address(IpAddr),
}

impl CodeTarget {
    /// The destination, if it is one: a name in the syntax of names, and a port that is not 0.
    pub(super) fn checked(&self) -> Result<EgressTarget, String> {
        if self.port == 0 {
            return Err("0 is no port".to_owned());
        }
        match &self.host {
            TargetHost::Address(address) => Ok(EgressTarget::Address(*address)),
            TargetHost::Name(name) => match EgressTarget::new(name)? {
                // A rule for names must not be used for an address, nor the reverse.
                EgressTarget::Address(_) => Err("an address is no name".to_owned()),
                name => Ok(name),
            },
        }
    }
}

impl fmt::Display for TargetHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The longest name; a longer text is none.
            Self::Name(name) => f.write_str(name.get(..253).unwrap_or(name.as_str())),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}
