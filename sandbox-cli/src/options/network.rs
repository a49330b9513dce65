//! Options for the network.

use sandbox::policy::{EgressRules, NetworkPolicy};

use super::ceiling::{Ceiling, exceeded, list};
use crate::command_error::CommandError;

/// A network without rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum NetworkOption {
    /// Only the sandbox's own loopback
    None,
    /// The network of the host: nothing is checked
    Full,
}

impl Ceiling {
    /// Sets the rules, or narrows those of the policy file. Returns what the specification asks for
    /// under the file's rules, which stay the ceiling while the sandbox runs.
    pub fn allow_hosts(
        &mut self,
        asked: &EgressRules,
    ) -> Result<Option<Vec<String>>, CommandError> {
        if asked.is_empty() {
            return Ok(None);
        }
        asked.validate()?;
        let Some(((path, _), allowed)) = self.file.as_ref().zip(self.policy.network.as_ref())
        else {
            self.policy.network = Some(NetworkPolicy::Allow(asked.rules().to_vec()));
            return Ok(None);
        };
        allowed.narrowed(asked).map_err(|excess| {
            let rule = excess.denied_by.as_ref();
            let allowed = rule.map_or_else(|| network_text(allowed), ToString::to_string);
            exceeded(path, format!("--allow-host '{}'", excess.asked), allowed)
        })?;
        Ok(Some(
            asked.rules().iter().map(ToString::to_string).collect(),
        ))
    }

    /// Sets a network without rules, or takes away that of the policy file.
    pub fn network(&mut self, asked: NetworkOption) -> Result<Option<Vec<String>>, CommandError> {
        match (asked, &self.file, &self.policy.network) {
            (NetworkOption::None, Some(_), _) => return Ok(Some(Vec::new())),
            (NetworkOption::Full, Some((path, _)), Some(allowed))
                if *allowed != NetworkPolicy::Full =>
            {
                let asked = "--network full".to_owned();
                return Err(exceeded(path, asked, network_text(allowed)));
            }
            (NetworkOption::None, ..) => self.policy.network = Some(NetworkPolicy::None),
            (NetworkOption::Full, ..) => self.policy.network = Some(NetworkPolicy::Full),
        }
        Ok(None)
    }
}

/// The network as a policy file has it.
fn network_text(network: &NetworkPolicy) -> String {
    match network {
        NetworkPolicy::Allow(rules) => list(rules),
        NetworkPolicy::Full => "network = full".to_owned(),
        _ => "network = none".to_owned(),
    }
}
