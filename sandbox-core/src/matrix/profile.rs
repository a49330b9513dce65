//! What the suite found on one tier of one kind of host, as it is committed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Subject, Verdict};
use crate::{Enforcement, Error, ErrorKind, Result};

/// What of a host changes enforcement, in the order in which the backend tells it: (name, value).
pub type ProfileKey = Vec<(String, String)>;

/// What the suite found on one tier of one kind of host. Holds no dates, host names or durations, so that two runs on
/// equal hosts give the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The tier that was measured.
    pub tier: String,
    /// Identity of the suite: a hash over the names and versions of its probes.
    pub suite: String,
    /// What of the host changes enforcement.
    pub key: ProfileKey,
    /// What was found, by the probe's name.
    pub probes: BTreeMap<String, Observation>,
}

/// What one probe found, as it is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// What the probe is about.
    pub subject: Subject,
    /// What it found.
    pub verdict: Verdict,
    /// What the backend declared of that subject in the probe's own sandbox; `None` for features and where no sandbox came
    /// about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Enforcement>,
}

impl Profile {
    /// Reads a committed profile.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] with line and field where the text is no profile.
    pub fn from_json(name: &str, text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::new(
                ErrorKind::Io,
                "read matrix profile",
                format!("{name}: {error}"),
            )
            .with_fix("write it again with cargo xtask matrix --write")
        })
    }

    /// The committed text: indented JSON with a final newline.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] where it cannot be serialised.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| Error::new(ErrorKind::Io, "write matrix profile", error.to_string()))
    }

    /// The value of a part of the key.
    #[must_use]
    pub fn key_value(&self, name: &str) -> Option<&str> {
        self.key
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The names of the probes with this verdict.
    pub fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &str> {
        let found = move |(_, seen): &(&String, &Observation)| seen.verdict == verdict;
        self.probes
            .iter()
            .filter(found)
            .map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_and_refuses_the_unknown() {
        let profile = Profile {
            tier: "local".into(),
            suite: "s".into(),
            key: vec![("user".into(), "root".into())],
            probes: BTreeMap::new(),
        };
        let text = profile.to_json().unwrap();
        assert_eq!(Profile::from_json("p", &text).unwrap(), profile);
        let more = text.replacen('{', "{\"date\": 1,", 1);
        assert!(
            Profile::from_json("p", &more)
                .unwrap_err()
                .to_string()
                .contains("date")
        );
    }
}
