//! The warm pool: pods that are started ahead. [`WarmPool`] documents it for users.

mod settings;
mod shape;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use sandbox_core::Plan;
use sandbox_host::lock;
use tokio::sync::Notify;

pub use settings::{POOL_AGE, POOL_SHAPES, PoolCounts, WarmPool};
pub(crate) use shape::{Shape, is_poolable};

use crate::launcher::PodLauncher;
use crate::started_pod::StartedPod;

/// The sandbox name of pods in the pool.
pub(crate) const NAME: &str = "warm";

/// The pause after a pod could not be started: a missing quota or node takes time to appear.
const RETRY_PAUSE: Duration = Duration::from_secs(15);

/// How often the pool is maintained.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) struct Pool {
    settings: WarmPool,
    launcher: Arc<PodLauncher>,
    state: Mutex<PoolState>,
    changed: Notify,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("settings", &self.settings)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PoolState {
    /// The most recently requested shape is last.
    shapes: Vec<ShapePool>,
    counts: PoolCounts,
    /// Whether the maintenance task runs.
    is_maintained: bool,
}

/// The pods of one shape.
struct ShapePool {
    shape: Shape,
    /// The plan that the pods are started with.
    plan: Plan,
    /// Oldest first.
    ready: VecDeque<WarmPod>,
    filling: usize,
    /// No pod is started before this time.
    not_before: Option<Instant>,
}

/// A waiting pod whose agent is connected.
pub(crate) struct WarmPod {
    pub started: StartedPod,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(settings: WarmPool, launcher: Arc<PodLauncher>) -> Self {
        Self {
            settings,
            launcher,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }

    pub(crate) fn counts(&self) -> PoolCounts {
        let state = self.lock();
        let mut counts = state.counts.clone();
        counts.ready = state.shapes.iter().map(|entry| entry.ready.len()).sum();
        counts.filling = state.shapes.iter().map(|entry| entry.filling).sum();
        counts
    }

    /// Claims a pod of this shape for one caller; `None` if none is ready. Starts replacements, and
    /// the first pods of a new shape.
    pub(crate) async fn claim(self: &Arc<Self>, plan: &Plan, shape: &Shape) -> Option<WarmPod> {
        self.request(plan, shape);
        let claimed = loop {
            let Some(pod) = self.take(shape) else {
                break None;
            };
            // The pod may have ended since the last maintenance.
            if pod.started.agent_answers().await {
                break Some(pod);
            }
            self.discard(vec![pod]);
        };
        let mut state = self.lock();
        match claimed {
            Some(_) => state.counts.claimed += 1,
            None => state.counts.missed += 1,
        }
        drop(state);
        self.fill();
        claimed
    }

    fn take(&self, shape: &Shape) -> Option<WarmPod> {
        let (taken, old) = {
            let mut state = self.lock();
            let entry = state
                .shapes
                .iter_mut()
                .find(|entry| entry.shape == *shape)?;
            let old = entry.take_expired(self.settings.max_age);
            (entry.ready.pop_front(), old)
        };
        self.discard(old);
        taken
    }

    /// Starts pods of this shape and waits until the pool is full or a pod cannot be started.
    pub(crate) async fn prepare(self: &Arc<Self>, plan: &Plan, shape: &Shape) -> usize {
        self.request(plan, shape);
        self.fill();
        loop {
            // Subscribe before checking, so that no change is missed.
            let changed = self.changed.notified();
            {
                let state = self.lock();
                let entry = state.shapes.iter().find(|entry| entry.shape == *shape);
                let Some(entry) = entry else { return 0 };
                if entry.filling == 0 {
                    return entry.ready.len();
                }
            }
            changed.await;
        }
    }

    /// Registers a request for this shape.
    fn request(self: &Arc<Self>, plan: &Plan, shape: &Shape) {
        let mut state = self.lock();
        let known = state.shapes.iter().position(|entry| entry.shape == *shape);
        let entry = match known {
            Some(place) => state.shapes.remove(place),
            None => ShapePool::new(plan, shape),
        };
        state.shapes.push(entry);
        let surplus = state
            .shapes
            .len()
            .saturating_sub(self.settings.shapes.max(1));
        let dropped: Vec<ShapePool> = state.shapes.drain(..surplus).collect();
        if !state.is_maintained {
            state.is_maintained = true;
            tokio::spawn(maintain(
                Maintenance(Arc::downgrade(self)),
                self.settings.max_age,
            ));
        }
        drop(state);
        self.discard(dropped.into_iter().flat_map(|entry| entry.ready).collect());
    }

    /// Dropping the pods removes them in the background.
    fn discard(&self, pods: Vec<WarmPod>) {
        self.lock().counts.discarded += pods.len() as u64;
        drop(pods);
    }

    /// Starts the missing pods.
    fn fill(self: &Arc<Self>) {
        let mut state = self.lock();
        for entry in &mut state.shapes {
            if entry
                .not_before
                .is_some_and(|moment| moment > Instant::now())
            {
                continue;
            }
            let missing = self
                .settings
                .size
                .saturating_sub(entry.ready.len() + entry.filling);
            entry.filling += missing;
            for _ in 0..missing {
                let filling = PodStart {
                    pool: Arc::downgrade(self),
                    shape: entry.shape.clone(),
                };
                tokio::spawn(filling.run(Arc::clone(&self.launcher), entry.plan.clone()));
            }
        }
    }

    /// Removes expired pods and starts replacements.
    async fn maintain(self: &Arc<Self>) {
        let old: Vec<WarmPod> = {
            let mut state = self.lock();
            let age = self.settings.max_age;
            state
                .shapes
                .iter_mut()
                .flat_map(|entry| entry.take_expired(age))
                .collect()
        };
        self.discard(old);
        self.fill();
    }
}

impl ShapePool {
    fn new(plan: &Plan, shape: &Shape) -> Self {
        let mut plan = plan.clone();
        NAME.clone_into(&mut plan.name);
        // The claim brings its own environment.
        plan.env.clear();
        Self {
            shape: shape.clone(),
            plan,
            ready: VecDeque::new(),
            filling: 0,
            not_before: None,
        }
    }

    /// Takes out pods that are too old or have ended.
    fn take_expired(&mut self, age: Duration) -> Vec<WarmPod> {
        let mut take_expired = Vec::new();
        let mut good = VecDeque::new();
        for mut pod in self.ready.drain(..) {
            if pod.since.elapsed() >= age || pod.started.has_ended() {
                take_expired.push(pod);
            } else {
                good.push_back(pod);
            }
        }
        self.ready = good;
        take_expired
    }

    /// Adds a started pod, and takes out pods with another build of the image: the image name now
    /// refers to this one.
    fn add(&mut self, pod: WarmPod) -> Vec<WarmPod> {
        let image = pod.started.image.clone();
        let (same, other) = self
            .ready
            .drain(..)
            .partition::<VecDeque<_>, _>(|ready| ready.started.image == image);
        self.ready = same;
        self.ready.push_back(pod);
        other.into()
    }
}

/// A pod that is being started.
struct PodStart {
    pool: Weak<Pool>,
    shape: Shape,
}

impl PodStart {
    async fn run(self, launcher: Arc<PodLauncher>, plan: Plan) {
        let started = launcher.start_for_pool(&plan).await;
        let Some(pool) = self.pool.upgrade() else {
            // Dropping `started` removes the pod.
            return;
        };
        let mut left = Vec::new();
        let mut state = pool.lock();
        match started {
            Ok(started) => {
                state.counts.failure = None;
                let pod = WarmPod {
                    started,
                    since: Instant::now(),
                };
                match state
                    .shapes
                    .iter_mut()
                    .find(|entry| entry.shape == self.shape)
                {
                    Some(entry) => {
                        entry.not_before = None;
                        left = entry.add(pod);
                    }
                    // The shape was dropped from the pool meanwhile.
                    None => left.push(pod),
                }
            }
            Err(error) => {
                let tier = crate::TIER;
                if state.counts.failure.is_none() {
                    tracing::warn!(tier, %error, "the warm pool cannot be filled; sandboxes are created without it");
                }
                state.counts.failure = Some(error.to_string());
                if let Some(entry) = state
                    .shapes
                    .iter_mut()
                    .find(|entry| entry.shape == self.shape)
                {
                    entry.not_before = Some(Instant::now() + RETRY_PAUSE);
                }
            }
        }
        drop(state);
        pool.discard(left);
    }
}

impl Drop for PodStart {
    fn drop(&mut self) {
        // Runs even if the runtime shuts down.
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let mut state = pool.lock();
        if let Some(entry) = state
            .shapes
            .iter_mut()
            .find(|entry| entry.shape == self.shape)
        {
            entry.filling = entry.filling.saturating_sub(1);
        }
        drop(state);
        pool.changed.notify_waiters();
    }
}

/// The maintenance task.
struct Maintenance(Weak<Pool>);

impl Drop for Maintenance {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.lock().is_maintained = false;
        }
    }
}

async fn maintain(maintenance: Maintenance, age: Duration) {
    loop {
        tokio::time::sleep(
            MAINTENANCE_INTERVAL
                .min(age)
                .max(Duration::from_millis(100)),
        )
        .await;
        let Some(pool) = maintenance.0.upgrade() else {
            return;
        };
        pool.maintain().await;
    }
}
