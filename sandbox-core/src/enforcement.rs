//! How far a capability is enforced. It is computed for a host and a policy, never a constant.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Capability, Mechanism, Mechanisms};

/// How far one capability is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Enforcement {
    /// It holds against code that tries to bypass it.
    Enforced {
        /// The mechanisms ("network namespace, seccomp").
        #[serde(rename = "mechanism")]
        mechanisms: Mechanisms,
    },
    /// It holds except for a gap.
    Partial {
        /// The mechanisms.
        #[serde(rename = "mechanism")]
        mechanisms: Mechanisms,
        /// What it does not cover.
        gap: String,
    },
    /// Nothing enforces it.
    Unenforced {
        /// Why not, and what would help if that is known.
        reason: String,
    },
}

impl Enforcement {
    /// [`Enforcement::Enforced`] by these mechanisms.
    pub fn enforced(mechanisms: impl Into<Mechanisms>) -> Self {
        Self::Enforced {
            mechanisms: mechanisms.into(),
        }
    }

    /// [`Enforcement::Partial`] by these mechanisms, with this gap.
    pub fn partial(mechanisms: impl Into<Mechanisms>, gap: impl Into<String>) -> Self {
        Self::Partial {
            mechanisms: mechanisms.into(),
            gap: gap.into(),
        }
    }

    /// [`Enforcement::Unenforced`] for this reason.
    pub fn unenforced(reason: impl Into<String>) -> Self {
        Self::Unenforced {
            reason: reason.into(),
        }
    }

    /// The same with one more mechanism. What nothing enforces stays so.
    #[must_use]
    pub fn and(mut self, mechanism: Mechanism) -> Self {
        if let Self::Enforced { mechanisms } | Self::Partial { mechanisms, .. } = &mut self {
            mechanisms.push(mechanism);
        }
        self
    }

    /// [`Enforcement::Partial`] with this gap, where it was [`Enforcement::Enforced`]. What is
    /// weaker stays as it is.
    #[must_use]
    pub fn weakened(self, gap: impl Into<String>) -> Self {
        match self {
            Self::Enforced { mechanisms } => Self::partial(mechanisms, gap),
            weaker => weaker,
        }
    }

    /// The mechanisms that enforce it, without a gap or with one.
    #[must_use]
    pub fn mechanisms(&self) -> &[Mechanism] {
        match self {
            Self::Enforced { mechanisms } | Self::Partial { mechanisms, .. } => mechanisms,
            Self::Unenforced { .. } => &[],
        }
    }

    /// `enforced`, `partial` or `unenforced`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self {
            Self::Enforced { .. } => "enforced",
            Self::Partial { .. } => "partial",
            Self::Unenforced { .. } => "unenforced",
        }
    }

    /// Whether it is [`Enforcement::Enforced`].
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        matches!(self, Self::Enforced { .. })
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced { mechanisms } => write!(f, "enforced ({mechanisms})"),
            Self::Partial { mechanisms, gap } => write!(f, "partial ({mechanisms}; gap: {gap})"),
            Self::Unenforced { reason } => write!(f, "not enforced ({reason})"),
        }
    }
}

/// What a backend enforces of one plan on this host: one entry for each capability that the plan
/// demands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcementReport {
    #[serde(flatten)]
    entries: BTreeMap<Capability, Enforcement>,
    /// Notes of the backend or its engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl EnforcementReport {
    /// A report without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every capability as not enforced, for this reason: the report of an `*_unsafe` tier.
    #[must_use]
    pub fn nothing(reason: &str) -> Self {
        let entries = Capability::ALL
            .iter()
            .map(|capability| (*capability, Enforcement::unenforced(reason)))
            .collect();
        Self {
            entries,
            notes: Vec::new(),
        }
    }

    /// Adds a note that is not about a capability, such as a warning of an engine.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.notes.push(note.into());
        self
    }

    /// The notes, in the order in which they were added.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Sets the entry of a capability.
    pub fn set(&mut self, capability: Capability, enforcement: Enforcement) -> &mut Self {
        self.entries.insert(capability, enforcement);
        self
    }

    /// The entry of a capability; `None` if the plan did not demand it.
    #[must_use]
    pub fn get(&self, capability: Capability) -> Option<&Enforcement> {
        self.entries.get(&capability)
    }

    /// All entries in the order of the matrix.
    pub fn iter(&self) -> impl Iterator<Item = (Capability, &Enforcement)> {
        self.entries
            .iter()
            .map(|(capability, enforcement)| (*capability, enforcement))
    }

    /// The capabilities that are enforced without a gap.
    #[must_use]
    pub fn enforced_capabilities(&self) -> Vec<Capability> {
        self.iter()
            .filter(|(_, e)| e.is_enforced())
            .map(|(c, _)| c)
            .collect()
    }

    /// The capabilities that are enforced with a gap, or not at all.
    #[must_use]
    pub fn unenforced_capabilities(&self) -> Vec<Capability> {
        self.iter()
            .filter(|(_, e)| !e.is_enforced())
            .map(|(c, _)| c)
            .collect()
    }
}
