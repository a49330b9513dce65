//! What one client of the server made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_core::{Error, ErrorKind, Result, SandboxClient, SandboxHandle, SandboxSpec};

use crate::kept::Kept;

/// How many sandboxes a client may have at once.
const MAX_SANDBOXES: usize = 16;

/// The sandboxes, outputs and artifacts of one client. The sandboxes end with it.
#[derive(Debug, Default)]
pub(crate) struct ClientStore {
    /// `None` while the sandbox is created.
    sandboxes: Mutex<BTreeMap<String, Option<Arc<SandboxHandle>>>>,
    kept: Mutex<Kept>,
}

impl ClientStore {
    /// The sandbox of this name.
    pub fn sandbox(&self, name: &str) -> Result<Arc<SandboxHandle>> {
        let found = self.lock().get(name).cloned().flatten();
        found.ok_or_else(|| not_found(name))
    }

    /// All sandboxes, by name.
    pub fn sandboxes(&self) -> Vec<Arc<SandboxHandle>> {
        self.lock().values().flatten().cloned().collect()
    }

    /// Creates a sandbox, which this store then holds.
    pub async fn create(
        &self,
        client: &SandboxClient,
        spec: &SandboxSpec,
    ) -> Result<Arc<SandboxHandle>> {
        let reserved = self.reserve(&spec.name)?;
        let sandbox = Arc::new(client.create(spec).await?);
        let mut sandboxes = self.lock();
        sandboxes.insert(spec.name.clone(), Some(Arc::clone(&sandbox)));
        drop(sandboxes);
        drop(reserved);
        Ok(sandbox)
    }

    /// Takes a sandbox out of the store.
    pub fn take(&self, name: &str) -> Result<Arc<SandboxHandle>> {
        let mut sandboxes = self.lock();
        match sandboxes.get_mut(name).and_then(Option::take) {
            Some(sandbox) => {
                sandboxes.remove(name);
                Ok(sandbox)
            }
            None => Err(not_found(name)),
        }
    }

    /// Lets go of everything, which ends the sandboxes.
    pub fn clear(&self) {
        self.lock().clear();
        *self.kept() = Kept::default();
    }

    /// Kept outputs and artifacts.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve<'s>(&'s self, name: &'s str) -> Result<Reserved<'s>> {
        let mut sandboxes = self.lock();
        let refused = |kind, why: String| Error::new(kind, "create sandbox", why);
        if sandboxes.contains_key(name) {
            let why = format!("a sandbox named {name:?} exists");
            return Err(refused(ErrorKind::AlreadyExists, why)
                .with_fix("use it, remove it, or choose another name"));
        }
        if sandboxes.len() >= MAX_SANDBOXES {
            let why = format!("there are {MAX_SANDBOXES} sandboxes, which is the limit");
            return Err(refused(ErrorKind::InvalidRequest, why).with_fix("remove one"));
        }
        sandboxes.insert(name.to_owned(), None);
        Ok(Reserved { store: self, name })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<SandboxHandle>>>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name whose sandbox is being created. It is free again if that fails or is cancelled.
struct Reserved<'s> {
    store: &'s ClientStore,
    name: &'s str,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut sandboxes = self.store.lock();
        if let Some(None) = sandboxes.get(self.name) {
            sandboxes.remove(self.name);
        }
    }
}

fn not_found(name: &str) -> Error {
    let context = format!("this client made no sandbox named {name:?}");
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", context)
        .with_fix("create it with sandbox_create")
}
