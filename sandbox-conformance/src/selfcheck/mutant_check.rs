//! The result of the suite on a mutant: a backend with one fault.

use serde::Serialize;

/// The result of the suite on one mutant.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct MutantCheck {
    /// The fault.
    pub name: String,
    /// The expected probes that noticed, and their results.
    pub noticed: Vec<String>,
    /// The expected probes that did not notice.
    pub missed: Vec<String>,
    /// Other probes whose verdict changed.
    pub elsewhere: Vec<String>,
    /// Why it cannot be built or judged on this host.
    pub impossible: Option<String>,
}

impl MutantCheck {
    /// A mutant without results.
    #[cfg(feature = "mutants")]
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            noticed: Vec::new(),
            missed: Vec::new(),
            elsewhere: Vec::new(),
            impossible: None,
        }
    }

    /// Whether every expected probe noticed the fault, and no other probe changed.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        !self.noticed.is_empty() && self.missed.is_empty() && self.elsewhere.is_empty()
    }

    /// Whether the suite missed the fault or blamed something else.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.impossible.is_none() && !self.is_caught()
    }

    /// The errors, one line each.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        if !self.is_wrong() {
            return Vec::new();
        }
        let missed = self.missed.iter().map(|what| format!("missed: {what}"));
        let elsewhere = self.elsewhere.iter();
        missed
            .chain(elsewhere.map(|what| format!("elsewhere: {what}")))
            .collect()
    }
}
