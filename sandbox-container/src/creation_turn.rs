//! Turns in which containers are created, where an engine cannot create two at once.
//!
//! Podman's service reads the user's subordinate ids for each container with `keep-id`, by a
//! library that is not made for threads. Two creations at once can end the service:
//! <https://github.com/containers/podman/issues/23264>.

use std::path::Path;
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::engine::Endpoint;

/// One creation of this process at a time, in the order in which they are requested.
static TURN: Mutex<()> = Mutex::const_new(());

/// How long to wait for another process, which may be stopped. A creation takes about 0.1 s.
const LONGEST: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(5);

/// The turn of one creation. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CreationTurn {
    _lock: Option<OwnedFd>,
    _own: Option<MutexGuard<'static, ()>>,
}

impl CreationTurn {
    /// Waits for the turn of a container that keeps the user's id. Others need none.
    pub(crate) async fn take(endpoint: &Endpoint, body: &ContainerCreateBody) -> Self {
        let mode = body
            .host_config
            .as_ref()
            .and_then(|host| host.userns_mode.as_deref());
        if mode != Some("keep-id") {
            return Self {
                _lock: None,
                _own: None,
            };
        }
        let own = TURN.lock().await;
        // Other processes reach the same service through the same socket.
        let lock = match endpoint {
            Endpoint::Unix(socket) => lock(socket.parent().unwrap_or(socket)).await,
            Endpoint::Tcp(_) | Endpoint::Given(_) => None,
        };
        Self {
            _lock: lock,
            _own: Some(own),
        }
    }
}

/// Locks a folder. `None` where that is not possible, or another process holds it for too long.
async fn lock(folder: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty()).ok()?;
    let end = Instant::now() + LONGEST;
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK) if Instant::now() < end => sleep(PAUSE).await,
            Err(cause) => {
                tracing::warn!("a container is created out of turn, which can end Podman: {cause}");
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::HostConfig;
    use tokio::time::timeout;

    use super::*;

    fn body(mode: Option<&str>) -> ContainerCreateBody {
        ContainerCreateBody {
            host_config: Some(HostConfig {
                userns_mode: mode.map(str::to_owned),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn containers_that_keep_the_id_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::Unix(folder.path().join("socket"));
        let keeping = body(Some("keep-id"));
        let first = CreationTurn::take(&endpoint, &keeping).await;
        let _other = CreationTurn::take(&endpoint, &body(None)).await;
        let second = CreationTurn::take(&endpoint, &keeping);
        assert!(timeout(Duration::from_secs(60), second).await.is_err());
        drop(first);
        // Another process has the lock, and never ends.
        let stopped = lock(folder.path()).await;
        assert!(stopped.is_some());
        let start = Instant::now();
        let alone = CreationTurn::take(&endpoint, &keeping).await;
        assert!(alone._lock.is_none() && start.elapsed() >= LONGEST);
        drop((alone, stopped));
        let next = CreationTurn::take(&endpoint, &keeping).await;
        assert!(next._lock.is_some());
    }
}
