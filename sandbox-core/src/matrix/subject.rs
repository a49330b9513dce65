//! The subject of a probe: a capability of the policy, or a feature that every backend has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Capability;

/// Behavior that no policy restricts and that every backend must get right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Programs run, and their outcomes are reported correctly.
    Exec,
    /// Standard input, output and error carry every byte.
    Streams,
    /// Files are copied in and out unchanged.
    Files,
    /// Sandboxes outlive their handles, until their lifetime ends or a client removes them.
    Detached,
    /// Denials are reported, and nothing else is reported as a denial.
    Denials,
    /// Executions have terminals of their own, with keys and a size.
    Terminal,
    /// Interpreters keep their state between cells, and what they lose is reported.
    Sessions,
    /// Code runs in containers that another program created, and they stay as they were.
    Adoption,
    /// Sandboxes run images and become images, and no image weakens isolation.
    Images,
    /// Each claim of a pool gets a sandbox that nobody had before.
    Pools,
}

impl Feature {
    /// Every feature, in the order of the matrix.
    pub const ALL: &'static [Self] = &[
        Self::Exec,
        Self::Streams,
        Self::Files,
        Self::Detached,
        Self::Denials,
        Self::Terminal,
        Self::Sessions,
        Self::Adoption,
        Self::Images,
        Self::Pools,
    ];

    /// The name in reports and the matrix.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Streams => "streams",
            Self::Files => "files",
            Self::Detached => "detached",
            Self::Denials => "denials",
            Self::Terminal => "terminal",
            Self::Sessions => "sessions",
            Self::Adoption => "adoption",
            Self::Images => "images",
            Self::Pools => "pools",
        }
    }
}

/// The subject of a probe, and so a row of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    /// A capability of the policy.
    Capability(Capability),
    /// A feature of every backend.
    Feature(Feature),
}

impl Subject {
    /// Every capability, then every feature, in the order of the matrix.
    pub fn all() -> impl Iterator<Item = Self> {
        let capabilities = Capability::ALL.iter().copied().map(Self::Capability);
        capabilities.chain(Feature::ALL.iter().copied().map(Self::Feature))
    }

    /// The name in reports and the matrix.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Capability(capability) => capability.as_str(),
            Self::Feature(feature) => feature.as_str(),
        }
    }

    /// The capability, if the subject is one.
    #[must_use]
    pub fn capability(self) -> Option<Capability> {
        match self {
            Self::Capability(capability) => Some(capability),
            Self::Feature(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.as_str().to_owned()
    }
}

impl FromStr for Subject {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match Feature::ALL.iter().find(|feature| feature.as_str() == name) {
            Some(feature) => Ok(Self::Feature(*feature)),
            None => name.parse().map(Self::Capability),
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
            .map_err(|error: crate::Error| error.context().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_parses_its_own_name() {
        for subject in Subject::all() {
            assert_eq!(subject.as_str().parse::<Subject>().ok(), Some(subject));
        }
        assert!("nonsense".parse::<Subject>().is_err());
    }
}
