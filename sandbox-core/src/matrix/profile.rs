//! The committed result of the suite on one tier of one kind of host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Subject, Verdict};
use crate::{Enforcement, Error, ErrorKind, Result};

/// The properties of a host that change enforcement, as (name, value), in the backend's order.
pub type ProfileKey = Vec<(String, String)>;

/// The result of the suite on one tier of one kind of host. It has no dates, host names or
/// durations, so two runs on equal hosts give the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The tier that was measured.
    pub tier: String,
    /// Identity of the suite: a hash over the names and versions of its probes.
    pub suite: String,
    /// The properties of the host that change enforcement.
    pub key: ProfileKey,
    /// The observations by probe name.
    pub probes: BTreeMap<String, Observation>,
}

/// The committed result of one probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// The subject of the probe.
    pub subject: Subject,
    /// The verdict.
    pub verdict: Verdict,
    /// What the backend declared of the subject in the probe's sandbox. `None` for features, and if
    /// no sandbox was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Enforcement>,
}

impl Profile {
    /// Reads a committed profile.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] with line and field if the text is not a profile.
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
    /// [`ErrorKind::Io`] if it cannot be serialized.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| Error::new(ErrorKind::Io, "write matrix profile", error.to_string()))
    }

    /// The value of one property of the key.
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
    fn json_round_trips_and_unknown_fields_are_errors() {
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
