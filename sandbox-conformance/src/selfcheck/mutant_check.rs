//! What the suite found of a backend with one thing wrong.

use serde::Serialize;

/// What the suite found of one mutant.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct MutantCheck {
    /// What is wrong with it.
    pub name: String,
    /// Its own probes that noticed, and what they found.
    pub noticed: Vec<String>,
    /// Its own probes that did not.
    pub missed: Vec<String>,
    /// Other probes whose verdict is another one.
    pub elsewhere: Vec<String>,
    /// Why it cannot be built or judged on this host.
    pub impossible: Option<String>,
}

impl MutantCheck {
    /// One of which nothing is known yet.
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

    /// Whether the suite has caught it: every one of its own probes noticed, and no other one.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        !self.noticed.is_empty() && self.missed.is_empty() && self.elsewhere.is_empty()
    }

    /// Whether the suite has shown that it would not notice, or would blame something else.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.impossible.is_none() && !self.is_caught()
    }

    /// What is wrong, a line each.
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
