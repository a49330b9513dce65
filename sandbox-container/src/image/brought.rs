//! Which images this process has pulled or built: those alone may go with a sandbox.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ids of the images that a backend has brought to its engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Brought(Arc<Mutex<HashSet<String>>>);

impl Brought {
    fn ids(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an image that was not there before.
    pub(crate) fn add(&self, id: &str) {
        self.ids().insert(id.to_owned());
    }

    /// Whether the image came by this backend.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }
}
