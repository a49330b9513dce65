//! The warm pool: pods that are started ahead. [`WarmPool`] documents it for users.

mod settings;
mod shape;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sandbox_core::Plan;
use tokio::sync::Notify;

pub use settings::{POOL_AGE, POOL_SHAPES, PoolCounts, WarmPool};
pub(crate) use shape::{Shape, is_poolable};

use crate::backend::Maker;
use crate::started::Started;

/// The sandbox name of pods in the pool.
const NAME: &str = "warm";

/// The pause after a pod could not be started: a missing quota or node takes time to appear.
const PAUSE: Duration = Duration::from_secs(15);

/// How often the pool is maintained.
const ROUND: Duration = Duration::from_secs(5);

pub(crate) struct Pool {
    settings: WarmPool,
    maker: Arc<Maker>,
    state: Mutex<State>,
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
struct State {
    /// The most recently requested shape is last.
    kinds: Vec<Kind>,
    counts: PoolCounts,
    /// Whether the maintenance task runs.
    is_kept: bool,
}

/// The pods of one shape.
struct Kind {
    shape: Shape,
    /// The plan that the pods are started with.
    plan: Plan,
    /// Oldest first.
    ready: VecDeque<Member>,
    filling: usize,
    /// No pod is started before this time.
    not_before: Option<Instant>,
}

/// A waiting pod whose agent is connected.
pub(crate) struct Member {
    pub started: Started,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(settings: WarmPool, maker: Arc<Maker>) -> Self {
        Self {
            settings,
            maker,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counts(&self) -> PoolCounts {
        let state = self.lock();
        let mut counts = state.counts.clone();
        counts.ready = state.kinds.iter().map(|kind| kind.ready.len()).sum();
        counts.filling = state.kinds.iter().map(|kind| kind.filling).sum();
        counts
    }

    /// Claims a pod of this shape for one caller; `None` if none is ready. Starts replacements, and
    /// the first pods of a new shape.
    pub(crate) async fn claim(self: &Arc<Self>, plan: &Plan, shape: &Shape) -> Option<Member> {
        self.want(plan, shape);
        let claimed = loop {
            let Some(member) = self.take(shape) else {
                break None;
            };
            // The pod may have ended since the last maintenance.
            if member.started.answers().await {
                break Some(member);
            }
            self.discard(vec![member]);
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

    fn take(&self, shape: &Shape) -> Option<Member> {
        let (taken, old) = {
            let mut state = self.lock();
            let kind = state.kinds.iter_mut().find(|kind| kind.shape == *shape)?;
            let old = kind.stale(self.settings.max_age);
            (kind.ready.pop_front(), old)
        };
        self.discard(old);
        taken
    }

    /// Starts pods of this shape and waits until the pool is full or a pod cannot be started.
    pub(crate) async fn prepare(self: &Arc<Self>, plan: &Plan, shape: &Shape) -> usize {
        self.want(plan, shape);
        self.fill();
        loop {
            // Subscribe before checking, so that no change is missed.
            let changed = self.changed.notified();
            {
                let state = self.lock();
                let kind = state.kinds.iter().find(|kind| kind.shape == *shape);
                let Some(kind) = kind else { return 0 };
                if kind.filling == 0 {
                    return kind.ready.len();
                }
            }
            changed.await;
        }
    }

    /// Registers a request for this shape.
    fn want(self: &Arc<Self>, plan: &Plan, shape: &Shape) {
        let mut state = self.lock();
        let known = state.kinds.iter().position(|kind| kind.shape == *shape);
        let kind = match known {
            Some(place) => state.kinds.remove(place),
            None => Kind::new(plan, shape),
        };
        state.kinds.push(kind);
        let surplus = state
            .kinds
            .len()
            .saturating_sub(self.settings.shapes.max(1));
        let forgotten: Vec<Kind> = state.kinds.drain(..surplus).collect();
        if !state.is_kept {
            state.is_kept = true;
            tokio::spawn(keep(Kept(Arc::downgrade(self)), self.settings.max_age));
        }
        drop(state);
        self.discard(forgotten.into_iter().flat_map(|kind| kind.ready).collect());
    }

    /// Dropping the pods removes them in the background.
    fn discard(&self, members: Vec<Member>) {
        self.lock().counts.discarded += members.len() as u64;
        drop(members);
    }

    /// Starts the missing pods.
    fn fill(self: &Arc<Self>) {
        let mut state = self.lock();
        for kind in &mut state.kinds {
            if kind
                .not_before
                .is_some_and(|moment| moment > Instant::now())
            {
                continue;
            }
            let missing = self
                .settings
                .size
                .saturating_sub(kind.ready.len() + kind.filling);
            kind.filling += missing;
            for _ in 0..missing {
                let filling = Filling {
                    pool: Arc::downgrade(self),
                    shape: kind.shape.clone(),
                };
                tokio::spawn(filling.run(Arc::clone(&self.maker), kind.plan.clone()));
            }
        }
    }

    /// Removes expired pods and starts replacements.
    async fn look_after(self: &Arc<Self>) {
        let old: Vec<Member> = {
            let mut state = self.lock();
            let age = self.settings.max_age;
            state
                .kinds
                .iter_mut()
                .flat_map(|kind| kind.stale(age))
                .collect()
        };
        self.discard(old);
        self.fill();
    }
}

impl Kind {
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
    fn stale(&mut self, age: Duration) -> Vec<Member> {
        let mut stale = Vec::new();
        let mut good = VecDeque::new();
        for mut member in self.ready.drain(..) {
            if member.since.elapsed() >= age || member.started.has_ended() {
                stale.push(member);
            } else {
                good.push_back(member);
            }
        }
        self.ready = good;
        stale
    }

    /// Adds a started pod, and takes out pods with another build of the image: the image name now
    /// refers to this one.
    fn add(&mut self, member: Member) -> Vec<Member> {
        let image = member.started.image.clone();
        let (same, other) = self
            .ready
            .drain(..)
            .partition::<VecDeque<_>, _>(|ready| ready.started.image == image);
        self.ready = same;
        self.ready.push_back(member);
        other.into()
    }
}

/// A pod that is being started.
struct Filling {
    pool: Weak<Pool>,
    shape: Shape,
}

impl Filling {
    async fn run(self, maker: Arc<Maker>, plan: Plan) {
        let started = maker.start_ahead(&plan).await;
        let Some(pool) = self.pool.upgrade() else {
            // Dropping `started` removes the pod.
            return;
        };
        let mut left = Vec::new();
        let mut state = pool.lock();
        match started {
            Ok(started) => {
                state.counts.failure = None;
                let member = Member {
                    started,
                    since: Instant::now(),
                };
                match state.kinds.iter_mut().find(|kind| kind.shape == self.shape) {
                    Some(kind) => {
                        kind.not_before = None;
                        left = kind.add(member);
                    }
                    // The shape was dropped from the pool meanwhile.
                    None => left.push(member),
                }
            }
            Err(error) => {
                let tier = crate::TIER;
                if state.counts.failure.is_none() {
                    tracing::warn!(tier, %error, "the warm pool cannot be filled; sandboxes are created as without one");
                }
                state.counts.failure = Some(error.to_string());
                if let Some(kind) = state.kinds.iter_mut().find(|kind| kind.shape == self.shape) {
                    kind.not_before = Some(Instant::now() + PAUSE);
                }
            }
        }
        drop(state);
        pool.discard(left);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        // Runs even if the runtime shuts down.
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let mut state = pool.lock();
        if let Some(kind) = state.kinds.iter_mut().find(|kind| kind.shape == self.shape) {
            kind.filling = kind.filling.saturating_sub(1);
        }
        drop(state);
        pool.changed.notify_waiters();
    }
}

/// The maintenance task.
struct Kept(Weak<Pool>);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.lock().is_kept = false;
        }
    }
}

async fn keep(kept: Kept, age: Duration) {
    loop {
        tokio::time::sleep(ROUND.min(age).max(Duration::from_millis(100))).await;
        let Some(pool) = kept.0.upgrade() else {
            return;
        };
        pool.look_after().await;
    }
}
