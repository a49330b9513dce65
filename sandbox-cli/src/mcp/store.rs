//! What one client of the server made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::plan::defaults::DETACHED_LIFETIME;
use sandbox::{Error, ErrorKind, Result, SandboxClient, SandboxHandle, SandboxSpec, Session};
use tokio::sync::OnceCell;

use crate::mcp::kept::Kept;

/// How many sandboxes a client may have at once.
const MAX_SANDBOXES: usize = 16;

/// How many sessions a sandbox may have at once, and the longest name of one, in bytes.
const MAX_SESSIONS: usize = 8;
const MAX_SESSION_NAME: usize = 64;

/// A session that is started when it is first used.
pub type SessionSlot = Arc<OnceCell<Session>>;

/// Sandboxes by name; `None` while one is created.
type Sandboxes = BTreeMap<String, Option<OwnSandbox>>;

#[derive(Debug)]
struct OwnSandbox {
    handle: Arc<SandboxHandle>,
    created: Instant,
    sessions: BTreeMap<String, SessionSlot>,
}

impl OwnSandbox {
    fn is_over(&self) -> bool {
        let lifetime = self.handle.plan().lifetime;
        lifetime.is_some_and(|lifetime| self.created.elapsed() >= lifetime)
    }
}

/// The sandboxes, outputs and artifacts of one client. The sandboxes end with it.
#[derive(Debug, Default)]
pub struct ClientStore {
    sandboxes: Mutex<Sandboxes>,
    kept: Mutex<Kept>,
    /// The lifetime of sandboxes that have no other.
    lifetime: Option<Duration>,
}

impl ClientStore {
    /// The store of clients whose end nobody sees.
    pub fn without_connection() -> Self {
        Self {
            lifetime: Some(DETACHED_LIFETIME),
            ..Self::default()
        }
    }

    /// The sandbox of this name.
    pub fn sandbox(&self, name: &str) -> Result<Arc<SandboxHandle>> {
        let sandboxes = self.lock();
        let found = sandboxes.get(name).and_then(Option::as_ref);
        let handle = found.map(|sandbox| Arc::clone(&sandbox.handle));
        handle.ok_or_else(|| not_found(name))
    }

    /// The session of this name in a sandbox, which may not have been started.
    pub fn session(&self, sandbox: &str, name: &str) -> Result<SessionSlot> {
        let mut sandboxes = self.lock();
        let found = sandboxes.get_mut(sandbox).and_then(Option::as_mut);
        let sessions = &mut found.ok_or_else(|| not_found(sandbox))?.sessions;
        // Those that nobody starts any more: their start failed or was cancelled.
        sessions.retain(|_, slot| slot.initialized() || Arc::strong_count(slot) > 1);
        if let Some(slot) = sessions.get(name) {
            return Ok(Arc::clone(slot));
        }
        let refused = |why| Err(Error::new(ErrorKind::InvalidRequest, "start session", why));
        if name.is_empty() || name.len() > MAX_SESSION_NAME {
            return refused(format!(
                "the name of a session has 1 to {MAX_SESSION_NAME} bytes"
            ));
        }
        if sessions.len() >= MAX_SESSIONS {
            let why = format!("the sandbox has {MAX_SESSIONS} sessions, which is the limit");
            return refused(why).map_err(|error| error.with_fix("use one of them"));
        }
        let slot = SessionSlot::default();
        sessions.insert(name.to_owned(), Arc::clone(&slot));
        Ok(slot)
    }

    /// All sandboxes, by name.
    pub fn sandboxes(&self) -> Vec<Arc<SandboxHandle>> {
        let sandboxes = self.lock();
        let all = sandboxes.values().flatten();
        all.map(|sandbox| Arc::clone(&sandbox.handle)).collect()
    }

    /// Creates a sandbox, which this store then holds.
    pub async fn create(
        &self,
        client: &SandboxClient,
        spec: &SandboxSpec,
    ) -> Result<Arc<SandboxHandle>> {
        let name = spec.name.clone();
        let reserved = self.reserve(&name)?;
        let mut spec = spec.clone();
        if client.policy().lifetime.is_none() {
            spec.lifetime = spec.lifetime.or(self.lifetime);
        }
        let handle = Arc::new(client.create(&spec).await?);
        let sandbox = OwnSandbox {
            handle: Arc::clone(&handle),
            created: Instant::now(),
            sessions: BTreeMap::new(),
        };
        self.lock().insert(spec.name, Some(sandbox));
        drop(reserved);
        Ok(handle)
    }

    /// Takes a sandbox out of the store.
    pub fn take(&self, name: &str) -> Result<Arc<SandboxHandle>> {
        let mut sandboxes = self.lock();
        match sandboxes.get_mut(name).and_then(Option::take) {
            Some(sandbox) => {
                sandboxes.remove(name);
                Ok(sandbox.handle)
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
        sandboxes.retain(|_, sandbox| !sandbox.as_ref().is_some_and(OwnSandbox::is_over));
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

    fn lock(&self) -> MutexGuard<'_, Sandboxes> {
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
