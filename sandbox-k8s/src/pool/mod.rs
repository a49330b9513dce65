//! Pods that were started ahead. See [`WarmPool`] for what a user knows of them.

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

/// The name that pods of a pool have in place of a sandbox's.
const NAME: &str = "warm";

/// After a pod could not be started, none is for this long: what a quota or a node lacks is rarely there at once.
const PAUSE: Duration = Duration::from_secs(15);

/// How often a pool is looked after.
const ROUND: Duration = Duration::from_secs(5);

/// A pool.
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
    /// The one that was asked for last comes last.
    kinds: Vec<Kind>,
    counts: PoolCounts,
    /// Whether somebody looks after it.
    is_kept: bool,
}

/// Pods of one shape.
struct Kind {
    shape: Shape,
    /// What they are made of.
    plan: Plan,
    /// The oldest first.
    ready: VecDeque<Member>,
    filling: usize,
    /// None is started before.
    not_before: Option<Instant>,
}

/// A pod that waits, entered already.
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

    /// Takes a pod of this shape out, which nobody else gets any more; `None` where none is ready. Others are started in its place,
    /// and the first ones of a shape that is new.
    pub(crate) async fn claim(self: &Arc<Self>, plan: &Plan, shape: &Shape) -> Option<Member> {
        self.want(plan, shape);
        let claimed = loop {
            let Some(member) = self.take(shape) else {
                break None;
            };
            // It may have ended since it was last looked at.
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

    /// Starts pods of this shape until the pool is full, and waits for that, or for the first that cannot be started.
    pub(crate) async fn prepare(self: &Arc<Self>, plan: &Plan, shape: &Shape) -> usize {
        self.want(plan, shape);
        self.fill();
        loop {
            // Before it is looked at, so that no change in between is missed.
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

    /// Somebody asks for this shape.
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

    /// Dropping a member removes its pod in the background.
    fn discard(&self, members: Vec<Member>) {
        self.lock().counts.discarded += members.len() as u64;
        drop(members);
    }

    /// Starts what is missing.
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

    /// Throws away what nobody is to have any more, and starts others.
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
        // The claimer's own come with the claim.
        plan.env.clear();
        Self {
            shape: shape.clone(),
            plan,
            ready: VecDeque::new(),
            filling: 0,
            not_before: None,
        }
    }

    /// Takes out what is too old, or has ended.
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

    /// Adds a pod that was just started, and takes out those of another build of its image: the name means this one now.
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
            // Dropping it removes it.
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
                    // Nobody asks for it any more.
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
        // Also where its runtime has ended under it.
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

/// The task that looks after a pool.
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
