//! Secrets that code uses and does not read.

use super::{Secret, SecretValue};
use crate::policy::NetworkRule;
use crate::{Error, ErrorKind, Result};

/// A secret for some hosts, in whose requests the host puts its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceholderSecret {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: SecretValue,
    /// Where it may go: names, with ports.
    pub hosts: Vec<NetworkRule>,
}

/// Checks what needs no sandbox.
pub(super) fn check(name: &str, value: &[u8], hosts: &[String]) -> Result<(), String> {
    let of_secret = |why: String| format!("secret {name:?}: {why}");
    if hosts.is_empty() {
        return Err(of_secret("name the hosts that may get it".into()));
    }
    if value.is_empty() || value.iter().any(|byte| !(b' '..=b'~').contains(byte)) {
        return Err(of_secret(
            "a value for hosts has only printable ASCII characters, and no line break".into(),
        ));
    }
    for host in hosts {
        self::host(host).map_err(of_secret)?;
    }
    Ok(())
}

/// A host as a rule.
fn host(text: &str) -> Result<NetworkRule, String> {
    let rule: NetworkRule = text
        .parse()
        .map_err(|error: Error| error.context().to_owned())?;
    let is_place = !rule.is_deny() && !text.trim().contains(char::is_whitespace);
    match is_place {
        true => Ok(rule),
        false => Err(format!(
            "{text:?}: write a host like api.example.org, or api.example.org:8443"
        )),
    }
}

/// The secret for a backend.
pub(super) fn of(name: &str, secret: &Secret, hosts: &[String]) -> Result<PlaceholderSecret> {
    let hosts = hosts
        .iter()
        .map(|text| host(text))
        .collect::<Result<_, _>>();
    let hosts = hosts.map_err(|why| Error::new(ErrorKind::InvalidRequest, "execute", why))?;
    Ok(PlaceholderSecret {
        name: name.to_owned(),
        value: secret.value.clone(),
        hosts,
    })
}
