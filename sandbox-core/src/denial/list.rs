//! A bounded list of denials.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::Denial;
use crate::audit::{AuditEvent, Auditor};

/// The maximum number of distinct denials in a list.
const MAX_DISTINCT: usize = 64;

/// Denials in the order in which they became known: the first 64 distinct ones, and the number of
/// the rest. A repeated denial only raises its count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denials {
    kept: Vec<Denial>,
    omitted: u64,
}

impl Denials {
    /// The denials in the list.
    #[must_use]
    pub fn as_slice(&self) -> &[Denial] {
        &self.kept
    }

    /// An iterator over the denials in the list.
    pub fn iter(&self) -> std::slice::Iter<'_, Denial> {
        self.kept.iter()
    }

    /// Whether there are no known denials.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The number of denials that did not fit, repetitions included.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Adds a denial. Repeated ones are counted, and those above the limit are counted only.
    pub fn push(&mut self, denial: Denial) {
        if let Some(known) = self.kept.iter_mut().find(|known| known.is_like(&denial)) {
            known.times = known.times.saturating_add(denial.times);
        } else if self.kept.len() < MAX_DISTINCT {
            self.kept.push(denial);
        } else {
            self.omitted = self.omitted.saturating_add(denial.times);
        }
    }

    pub(crate) fn extend(&mut self, others: &Self) {
        for denial in &others.kept {
            self.push(denial.clone());
        }
        self.omitted = self.omitted.saturating_add(others.omitted);
    }
}

/// The denials of a whole sandbox. Its handle and its executions add to them.
#[derive(Debug, Clone)]
pub(crate) struct DenialLog {
    denials: Arc<Mutex<Denials>>,
    auditor: Auditor,
}

impl DenialLog {
    pub(crate) fn new(auditor: Auditor) -> Self {
        Self {
            denials: Arc::default(),
            auditor,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Denials> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, denial: Denial) {
        self.auditor.tell(|| AuditEvent::Denied(denial.clone()));
        self.lock().push(denial);
    }

    pub(crate) fn extend(&self, denials: &Denials) {
        for denial in denials {
            self.auditor.tell(|| AuditEvent::Denied(denial.clone()));
        }
        if denials.omitted > 0 {
            let count = denials.omitted;
            self.auditor.tell(|| AuditEvent::DenialsOmitted { count });
        }
        self.lock().extend(denials);
    }

    pub(crate) fn snapshot(&self) -> Denials {
        self.lock().clone()
    }
}

impl<'a> IntoIterator for &'a Denials {
    type Item = &'a Denial;
    type IntoIter = std::slice::Iter<'a, Denial>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Denial> for Denials {
    fn from_iter<I: IntoIterator<Item = Denial>>(denials: I) -> Self {
        let mut list = Self::default();
        denials.into_iter().for_each(|denial| list.push(denial));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capability, DenialKind};

    fn denial(what: &str) -> Denial {
        Denial::new(
            DenialKind::Artifact,
            Capability::ArtifactExportPaths,
            what,
            "rule",
            "",
        )
    }

    #[test]
    fn repeated_and_excess_denials_are_counted() {
        let mut list = Denials::default();
        list.push(denial("a"));
        list.push(denial("a").times(4));
        assert_eq!((list.as_slice().len(), list.as_slice()[0].times), (1, 5));
        for number in 0..1000 {
            list.push(denial(&number.to_string()).times(2));
        }
        assert_eq!(list.as_slice().len(), MAX_DISTINCT);
        assert_eq!(list.omitted(), 2 * (1000 - (MAX_DISTINCT as u64 - 1)));

        let mut all = Denials::default();
        all.extend(&list);
        all.extend(&list);
        assert_eq!(all.as_slice().len(), MAX_DISTINCT);
        assert_eq!(
            (all.as_slice()[0].times, all.omitted()),
            (10, 2 * list.omitted())
        );
    }
}
