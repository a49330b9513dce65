//! The task that keeps what a pool has: it starts, hands over and replaces.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::settings::{Exhausted, PoolSettings, PoolStatus};
use crate::{Error, ErrorKind, Result};

/// How long after a failed start the next one begins, if no claim waits. Each further failure
/// doubles it.
const RETRY: Duration = Duration::from_secs(1);

/// The longest such time.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// Starts one item.
pub type Starter<T> =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<T>> + Send>> + Send + Sync>;

/// What the task is asked for.
pub(super) enum Asked<T> {
    Claim(oneshot::Sender<Result<ClaimAnswer<T>>>),
    /// The claim has what was handed over, or has gone.
    Taken,
    /// A claimed item has ended.
    Released,
    /// Gives back what waits and what is still starting, once it has started, and ends.
    Close(oneshot::Sender<Vec<T>>),
}

/// The answer to a claim.
#[derive(Debug)]
pub(super) enum ClaimAnswer<T> {
    /// It counts until its slot is dropped, also if the claim has gone.
    Item(T, Slot<T>),
    /// There is none; the claim may start one that does not count.
    Temporary,
}

/// Counts a claimed item until it is dropped.
pub(super) struct Slot<T> {
    asked: mpsc::WeakUnboundedSender<Asked<T>>,
    is_taken: bool,
}

impl<T> std::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

impl<T> Slot<T> {
    /// Lets the pool start a replacement.
    pub(super) fn taken(&mut self) {
        if !std::mem::replace(&mut self.is_taken, true) {
            self.tell(Asked::Taken);
        }
    }

    fn tell(&self, what: Asked<T>) {
        if let Some(asked) = self.asked.upgrade() {
            // The task may have ended.
            let _ = asked.send(what);
        }
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.taken();
        self.tell(Asked::Released);
    }
}

struct Waiting<T> {
    answer: oneshot::Sender<Result<ClaimAnswer<T>>>,
    until: Option<Instant>,
}

pub(super) struct Stock<T> {
    settings: PoolSettings,
    start: Starter<T>,
    /// The oldest first, each with the time at which it is replaced.
    ready: VecDeque<(T, Instant)>,
    starting: JoinSet<Result<T>>,
    claimed: usize,
    /// How many of the claimed ones their claims do not have yet.
    untaken: usize,
    waiting: VecDeque<Waiting<T>>,
    failed: Option<String>,
    /// When the next one starts after a failure, and how many have failed in a row.
    retry: Option<Instant>,
    failures: u32,
    status: watch::Sender<PoolStatus>,
    /// For the slots of claimed items.
    asked: mpsc::WeakUnboundedSender<Asked<T>>,
}

impl<T: Send + 'static> Stock<T> {
    pub(super) fn new(
        settings: PoolSettings,
        start: Starter<T>,
        status: watch::Sender<PoolStatus>,
        asked: mpsc::WeakUnboundedSender<Asked<T>>,
    ) -> Self {
        Self {
            settings,
            start,
            ready: VecDeque::new(),
            starting: JoinSet::new(),
            claimed: 0,
            untaken: 0,
            waiting: VecDeque::new(),
            failed: None,
            retry: None,
            failures: 0,
            status,
            asked,
        }
    }

    /// Works until the pool is closed or dropped.
    pub(super) async fn work(mut self, mut asked: mpsc::UnboundedReceiver<Asked<T>>) {
        loop {
            self.settle();
            let next = self.next_time();
            tokio::select! {
                request = asked.recv() => match request {
                    None => return,
                    Some(Asked::Claim(answer)) => {
                        let until = match self.settings.exhausted {
                            Exhausted::Wait(time) => Some(Instant::now() + time),
                            _ => None,
                        };
                        self.waiting.push_back(Waiting { answer, until });
                    }
                    Some(Asked::Taken) => self.untaken -= 1,
                    Some(Asked::Released) => self.claimed -= 1,
                    Some(Asked::Close(answer)) => {
                        // An aborted start is removed in the background, after the caller was told that
                        // all are gone.
                        let ready = self.ready.into_iter();
                        let mut all: Vec<_> = ready.map(|(item, _)| item).collect();
                        while let Some(started) = self.starting.join_next().await {
                            all.extend(started.into_iter().flatten());
                        }
                        // The caller may have dropped its future.
                        let _ = answer.send(all);
                        return;
                    }
                },
                Some(started) = self.starting.join_next() => {
                    self.started(started.unwrap_or_else(|error| {
                        let why = format!("its start ended: {error}");
                        Err(Error::new(ErrorKind::SetupFailed, "start for pool", why))
                    }));
                }
                () = sleep_until(next) => self.time_passed(),
            }
        }
    }

    fn started(&mut self, started: Result<T>) {
        match started {
            Ok(item) => {
                (self.failed, self.retry, self.failures) = (None, None, 0);
                let end = Instant::now() + self.settings.max_age;
                self.ready.push_back((item, end));
            }
            Err(error) => {
                let wait = RETRY.saturating_mul(1 << self.failures.min(10));
                self.retry = Some(Instant::now() + wait.min(MAX_RETRY));
                self.failures += 1;
                self.failed = Some(error.to_string());
                // The receiver of an earlier claim may be gone.
                while let Some(waiting) = self.waiting.pop_front() {
                    if !waiting.answer.is_closed() {
                        let _ = waiting.answer.send(Err(error));
                        break;
                    }
                }
            }
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().filter_map(|waiting| waiting.until);
        let ready = self.ready.front().map(|(_, end)| *end);
        waiting.chain(ready).chain(self.retry).min()
    }

    fn time_passed(&mut self) {
        let now = Instant::now();
        if self.retry.is_some_and(|retry| retry <= now) {
            self.retry = None;
        }
        while self.ready.front().is_some_and(|(_, end)| *end <= now) {
            self.ready.pop_front();
        }
        let is_late = |waiting: &Waiting<T>| waiting.until.is_some_and(|until| until <= now);
        for waiting in std::mem::take(&mut self.waiting) {
            if is_late(&waiting) {
                // Its receiver may be gone.
                let _ = waiting.answer.send(Err(self.exhausted()));
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    /// Hands over what is ready, starts what is missing, and refuses what cannot be had.
    fn settle(&mut self) {
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        while !self.waiting.is_empty()
            && let Some((item, _)) = self.ready.pop_front()
        {
            let waiting = self.waiting.pop_front().expect("it is not empty");
            (self.claimed, self.untaken) = (self.claimed + 1, self.untaken + 1);
            let slot = Slot {
                asked: self.asked.clone(),
                is_taken: false,
            };
            // If the claim has just gone, the item is removed, and the slot says so.
            let _ = waiting.answer.send(Ok(ClaimAnswer::Item(item, slot)));
        }
        // A start can work for milliseconds on the thread that the claim needs to go on.
        let spare = match (self.retry, self.untaken) {
            (None, 0) => self.settings.ready,
            _ => 0,
        };
        let wanted = spare + self.waiting.len();
        while self.ready.len() + self.starting.len() < wanted
            && self.ready.len() + self.starting.len() + self.claimed < self.settings.most
        {
            self.starting.spawn((self.start)());
        }
        while self.waiting.len() > self.starting.len() {
            let answer = match self.settings.exhausted {
                Exhausted::Wait(_) => break,
                Exhausted::Fail => Err(self.exhausted()),
                Exhausted::Temporary => Ok(ClaimAnswer::Temporary),
            };
            // Those that have waited longer get what starts.
            let waiting = self.waiting.pop_back().expect("it is not empty");
            // Its receiver may be gone.
            let _ = waiting.answer.send(answer);
        }
        self.status.send_replace(PoolStatus {
            ready: self.ready.len(),
            starting: self.starting.len(),
            claimed: self.claimed,
            waiting: self.waiting.len(),
            failed: self.failed.clone(),
        });
    }

    fn exhausted(&self) -> Error {
        let most = self.settings.most;
        let context = format!(
            "all {most} sandboxes of the pool are in use: {} claimed, {} starting",
            self.claimed,
            self.starting.len()
        );
        Error::new(ErrorKind::PoolExhausted, "claim from pool", context)
            .with_fix("end claims that are not needed, or raise `most`")
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "stock_tests.rs"]
mod tests;
