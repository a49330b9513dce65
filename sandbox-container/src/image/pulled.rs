//! Images that this process pulled or built: only those may be removed with a sandbox.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use sandbox_host::lock;

/// Ids of the images that a backend added to its engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct PulledImages(Arc<Mutex<HashSet<String>>>);

impl PulledImages {
    fn ids(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.0)
    }

    /// Adds an image that the engine did not have before.
    pub(crate) fn add(&self, id: &str) {
        self.ids().insert(id.to_owned());
    }

    /// Whether this backend added the image.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }
}
