//! The attached sandboxes that a client has created.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use crate::running::Running;
use crate::{SandboxInfo, SandboxOwner, SandboxState};

/// The attached sandboxes of a client, in order of creation. Their handles own them.
#[derive(Default)]
pub(super) struct OwnSandboxes(Mutex<Vec<Weak<Running>>>);

impl OwnSandboxes {
    pub(super) fn add(&self, running: &Arc<Running>) {
        let mut sandboxes = self.lock();
        sandboxes.retain(|sandbox| sandbox.strong_count() > 0);
        sandboxes.push(Arc::downgrade(running));
    }

    /// The sandbox of this name that was created last.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Running>> {
        self.running().rfind(|running| running.plan.name == name)
    }

    pub(super) fn list(&self) -> Vec<SandboxInfo> {
        self.running().map(|running| info(&running)).collect()
    }

    /// The sandboxes that have a handle and were not ended through one.
    fn running(&self) -> impl DoubleEndedIterator<Item = Arc<Running>> + use<> {
        let sandboxes = self.lock().clone();
        let running = sandboxes
            .into_iter()
            .filter_map(|sandbox| sandbox.upgrade());
        running.filter(|running| !running.has_ended())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Running>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn info(running: &Running) -> SandboxInfo {
    let plan = &running.plan;
    let expires = plan.lifetime;
    let expires = expires.and_then(|lifetime| running.created.checked_add(lifetime));
    let state = match expires {
        Some(expires) if expires <= SystemTime::now() => SandboxState::Ended,
        _ => SandboxState::Running,
    };
    let mut info = SandboxInfo::new(&plan.name, &running.tier, state, running.created);
    info.expires = expires;
    info.labels.clone_from(&plan.labels);
    info.owner = Some(SandboxOwner::this_process());
    info
}
