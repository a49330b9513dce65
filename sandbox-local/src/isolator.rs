//! Ends a running local sandbox and reports its state to the agent's client.
#![expect(unsafe_code, reason = "registering a descriptor with the runtime")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandbox_core::{Result, SandboxStats};
use sandbox_host::{CounterFiles, Counters, Isolator, lock};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::cgroup::Group;
use crate::cleanup::{AgentProcess, KILL_TIMEOUT, Leftovers};
use crate::error;
use crate::sampler::MemoryWatch;

/// Ends one sandbox, and reports its kills, denials and exit.
#[derive(Debug)]
pub(crate) struct LocalIsolator {
    inner: Arc<OwnedSandbox>,
}

#[derive(Debug)]
struct OwnedSandbox {
    tier: String,
    agent: AgentProcess,
    group: Option<Arc<Group>>,
    watch: Option<Arc<MemoryWatch>>,
    /// Whether the sandbox has its own network namespace.
    own_network: bool,
    /// Opened when the first execution ends.
    counters: OnceLock<CounterFiles>,
    reason: Mutex<Option<String>>,
    leftovers: tokio::sync::Mutex<Leftovers>,
}

impl LocalIsolator {
    /// Takes ownership of a sandbox whose agent runs.
    ///
    /// # Panics
    ///
    /// If `leftovers` has no agent.
    pub(crate) fn new(
        tier: &str,
        leftovers: Leftovers,
        watch: Option<Arc<MemoryWatch>>,
        own_network: bool,
        lifetime: Option<Duration>,
    ) -> Self {
        let agent = leftovers.agent().expect("the agent was started").clone();
        let inner = Arc::new(OwnedSandbox {
            tier: tier.to_owned(),
            agent,
            group: leftovers.shared_group(),
            watch,
            own_network,
            counters: OnceLock::new(),
            reason: Mutex::new(None),
            leftovers: tokio::sync::Mutex::new(leftovers),
        });
        if let Some(lifetime) = lifetime {
            tokio::spawn(end_after(Arc::downgrade(&inner), lifetime));
        }
        Self { inner }
    }
}

async fn end_after(sandbox: Weak<OwnedSandbox>, lifetime: Duration) {
    tokio::time::sleep(lifetime).await;
    if let Some(inner) = sandbox.upgrade() {
        *lock(&inner.reason) = Some(format!("its lifetime of {lifetime:?} is over"));
        if let Err(left) = inner.destroy().await {
            tracing::error!(%left, "a sandbox whose lifetime is over could not be removed");
        }
    }
}

impl OwnedSandbox {
    async fn destroy(&self) -> Result<()> {
        let mut leftovers = self.leftovers.lock().await;
        if leftovers.is_empty() {
            return Ok(());
        }
        if leftovers.ends_with_agent() {
            leftovers.kill();
            wait_for_end(&self.agent.pidfd, KILL_TIMEOUT).await;
            if leftovers.try_finish() {
                return Ok(());
            }
        }
        // This path blocks.
        let mut taken = std::mem::take(&mut *leftovers);
        let destroyed = tokio::task::spawn_blocking(move || {
            let destroyed = taken.destroy();
            (taken, destroyed)
        });
        match destroyed.await {
            Ok((_, Ok(()))) => Ok(()),
            Ok((taken, Err(left))) => {
                // The next call tries again.
                *leftovers = taken;
                Err(error::destroy(&self.tier, left))
            }
            Err(panicked) => Err(error::destroy(&self.tier, panicked.to_string())),
        }
    }
}

/// Waits up to `longest` for a process to end. The caller checks whether it did.
pub(crate) async fn wait_for_end(pidfd: &Arc<OwnedFd>, longest: Duration) {
    // SAFETY: the `Arc` keeps the same descriptor open for as long as the registration lives.
    let watched = unsafe { AsyncFd::register_with_interest(Arc::clone(pidfd), Interest::READABLE) };
    let Ok(watched) = watched else { return };
    let _ = tokio::time::timeout(longest, watched.readable()).await;
}

#[async_trait]
impl Isolator for LocalIsolator {
    fn tier(&self) -> &str {
        &self.inner.tier
    }

    async fn destroy(&self) -> Result<()> {
        self.inner.destroy().await
    }

    fn destroy_soon(&self) {
        // If the lock is held, its holder is already destroying the sandbox.
        if let Ok(mut leftovers) = self.inner.leftovers.try_lock() {
            drop(std::mem::take(&mut *leftovers));
        }
    }

    async fn oom_kills(&self) -> Option<u64> {
        if let Some(watch) = &self.inner.watch {
            return Some(watch.kills());
        }
        self.inner.group.as_ref()?.oom_kills()
    }

    async fn counters(&self) -> Counters {
        let inner = &self.inner;
        let files = inner.counters.get_or_init(|| {
            let limit = inner.group.as_ref().and_then(|group| group.process_limit());
            // The agent stays unreaped while it is our child, so its process id cannot be reused.
            let agent = inner.own_network.then_some(inner.agent.pid.0);
            CounterFiles::open(limit.as_deref(), agent)
        });
        files.read()
    }

    async fn stats(&self) -> SandboxStats {
        let group = self.inner.group.as_ref();
        group.map(|group| group.stats()).unwrap_or_default()
    }

    async fn post_mortem(&self) -> Option<String> {
        if let Some(reason) = lock(&self.inner.reason).clone() {
            return Some(reason);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(self.inner.agent.pidfd.as_fd()), options).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(format!("the agent ended with code {code}")),
            (_, Some(signal)) => Some(format!("the agent was killed by signal {signal}")),
            _ => None,
        }
    }
}
