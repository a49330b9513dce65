//! One watch for all pods that a client waits for.
//!
//! It begins with the first who waits, is shared by all, and ends when nobody has waited for a while. Who waits says so before the pod
//! is made: so nothing is missed between its creation and the watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::error::Operation;
use crate::failure;
use crate::labels;
use crate::requests::spread;

/// The longest that a server keeps a watch open, in seconds; then there is another one.
const LENGTH: u32 = 290;
/// What a server calls a version that it no longer remembers.
const GONE: u16 = 410;
/// A watch that says nothing for this long while somebody waits may be a connection that nobody serves any more: the pods are listed.
const SILENCE: Duration = Duration::from_secs(30);
/// How long nobody may wait before the watch ends.
const IDLE: Duration = Duration::from_secs(20);
/// The pauses after a watch that failed, the first and the longest: a server that ends each at once is not asked all the time.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
/// How long a server may not answer at all before those who wait are told: one that is restarted is back by then.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// What becomes of a pod.
#[derive(Debug)]
pub(crate) enum Change {
    /// It is like this.
    Pod(Box<Pod>),
    /// Somebody has removed it.
    Removed,
    /// The server refuses to say.
    Refused(Operation, Box<Status>),
    /// The server does not answer.
    Silent(String),
}

/// The watch of a client's pods, while somebody waits.
#[derive(Debug)]
pub(crate) struct PodWatch {
    pods: Api<Pod>,
    selector: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the creation of their pod: a name may have been another one's a moment ago.
    waiting: HashMap<String, Waiter>,
    /// Which task watches, of all that were ever begun.
    watcher: Option<u64>,
    begun: u64,
    /// Since when nobody has waited.
    idle: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    changes: UnboundedSender<Change>,
    /// Whether the pod is known to be made: one that a list lacks then is gone.
    made: bool,
    /// Whether somebody stands there and waits: then a watch that says nothing is doubted.
    urgent: bool,
}

/// Hears of one pod, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    watch: Arc<PodWatch>,
    name: String,
    creation: String,
    changes: UnboundedReceiver<Change>,
    ended: bool,
}

impl PodWatch {
    /// Of the pods with this owner's label. Asks for nothing yet.
    pub(crate) fn new(pods: Api<Pod>, owner: &str) -> Self {
        Self {
            pods,
            selector: format!("{}={owner}", labels::CLIENT),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of the pod of this name that comes of this creation from now on; it is not made yet.
    pub(crate) fn expect(self: &Arc<Self>, name: &str, creation: &str) -> Ticket {
        let (changes, receiver) = unbounded_channel();
        let waiter = Waiter {
            changes,
            made: false,
            urgent: true,
        };
        let mut state = self.lock();
        state.waiting.insert(creation.to_owned(), waiter);
        state.idle = None;
        if state.watcher.is_none() {
            state.begun += 1;
            let number = state.begun;
            state.watcher = Some(number);
            let watcher = Watcher {
                watch: Arc::downgrade(self),
                number,
            };
            tokio::spawn(watcher.run(self.pods.clone(), self.selector.clone()));
        }
        drop(state);
        Ticket {
            watch: Arc::clone(self),
            name: name.to_owned(),
            creation: creation.to_owned(),
            changes: receiver,
            ended: false,
        }
    }

    /// Tells whoever waits for this pod.
    fn tell(&self, creation: Option<&str>, change: Change) {
        let waiter = creation.and_then(|creation| self.lock().waiting.get(creation).map(sender));
        if let Some(waiter) = waiter {
            // It may have stopped to wait just now.
            let _ = waiter.send(change);
        }
    }

    /// Tells all who wait, who then wait no more.
    fn tell_all(&self, change: impl Fn() -> Change) {
        for (_, waiter) in self.lock().waiting.drain() {
            let _ = waiter.changes.send(change());
        }
    }

    /// Those whose pods are made: what a list that is asked for now must have.
    fn made(&self) -> Vec<String> {
        let state = self.lock();
        let made = state.waiting.iter().filter(|(_, waiter)| waiter.made);
        made.map(|(creation, _)| creation.clone()).collect()
    }

    /// Whether somebody stands there and waits.
    fn is_urgent(&self) -> bool {
        self.lock().waiting.values().any(|waiter| waiter.urgent)
    }

    /// How long until the watch may end; `None` while somebody waits.
    fn idle_for(&self) -> Option<Duration> {
        let mut state = self.lock();
        if !state.waiting.is_empty() {
            return None;
        }
        let since = *state.idle.get_or_insert_with(Instant::now);
        Some(IDLE.saturating_sub(since.elapsed()))
    }

    /// Whether this watcher may go, at once where nothing is open that it would keep. Whoever comes after begins another one.
    fn ends(&self, number: u64, at_once: bool) -> bool {
        let idle = self.idle_for();
        let over = idle.is_some_and(|left| at_once || left.is_zero());
        let mut state = self.lock();
        if over && state.waiting.is_empty() && state.watcher == Some(number) {
            state.watcher = None;
        }
        state.watcher != Some(number)
    }
}

fn sender(waiter: &Waiter) -> UnboundedSender<Change> {
    waiter.changes.clone()
}

impl Ticket {
    /// The pod is made: a list without it means that it is gone.
    pub(crate) fn is_made(&self) {
        if let Some(waiter) = self.watch.lock().waiting.get_mut(&self.creation) {
            waiter.made = true;
        }
    }

    /// The pod runs: from now on it is only of interest that it ends.
    pub(crate) fn is_running(&self) {
        if let Some(waiter) = self.watch.lock().waiting.get_mut(&self.creation) {
            waiter.urgent = false;
        }
    }

    /// Whether the pod is known to have ended, or to be about to.
    pub(crate) fn has_ended(&mut self) -> bool {
        while let Ok(change) = self.changes.try_recv() {
            self.ended |= match change {
                Change::Removed => true,
                Change::Pod(pod) => {
                    pod.metadata.deletion_timestamp.is_some() || failure::over(&pod).is_some()
                }
                // Its agent is asked as well.
                Change::Refused(..) | Change::Silent(_) => false,
            };
        }
        self.ended
    }

    /// How many stand there and wait, this one too.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.watch.lock();
        state
            .waiting
            .values()
            .filter(|waiter| waiter.urgent)
            .count()
    }

    /// The pod's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next change of this pod, and of no other. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            None => Change::Silent("nobody watches the pods any more".to_owned()),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.watch.lock();
        state.waiting.remove(&self.creation);
        if state.waiting.is_empty() {
            state.idle = Some(Instant::now());
        }
    }
}

/// The task that watches. Its end is known, even where its runtime ends under it.
struct Watcher {
    watch: Weak<PodWatch>,
    number: u64,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(watch) = self.watch.upgrade() else {
            return;
        };
        let mut state = watch.lock();
        if state.watcher == Some(self.number) {
            state.watcher = None;
            // Their senders go with them, so nobody waits in vain.
            state.waiting.clear();
        }
    }
}

/// How a watch ended.
enum End {
    /// The server has closed it, or it was silent: the next goes on from here.
    Closed(Option<String>),
    /// The server no longer knows what was before: the pods are listed.
    Forgotten,
    /// There was an answer, and it was no.
    Refused(Operation, Box<Status>),
    /// There was no answer.
    Failed(String),
    /// Nobody waits any more.
    Idle,
}

impl Watcher {
    async fn run(self, pods: Api<Pod>, selector: String) {
        let mut version: Option<String> = None;
        let mut pause = PAUSES[0];
        let mut failing: Option<Instant> = None;
        loop {
            let Some(watch) = self.watch.upgrade() else {
                return;
            };
            if watch.ends(self.number, version.is_none()) {
                return;
            }
            let begin = Instant::now();
            let end = match version.take() {
                Some(from) => follow(&watch, &pods, &selector, from).await,
                None => match list(&watch, &pods, &selector).await {
                    Ok(from) => {
                        version = Some(from);
                        failing = None;
                        continue;
                    }
                    Err(end) => end,
                },
            };
            match end {
                End::Idle => continue,
                End::Forgotten => {}
                End::Closed(from) => {
                    version = from;
                    failing = None;
                }
                End::Refused(asked, status) => {
                    watch.tell_all(|| Change::Refused(asked, status.clone()));
                }
                End::Failed(why) => {
                    let since = *failing.get_or_insert(begin);
                    if since.elapsed() > PATIENCE {
                        watch.tell_all(|| Change::Silent(why.clone()));
                    }
                }
            }
            if begin.elapsed() > PAUSES[1] {
                pause = PAUSES[0];
            }
            drop(watch);
            sleep(spread(pause)).await;
            pause = (2 * pause).min(PAUSES[1]);
        }
    }
}

fn failed(asked: Operation, error: kube::Error) -> End {
    match error {
        kube::Error::Api(status) if status.code == GONE => End::Forgotten,
        kube::Error::Api(status) if status.code < 500 => End::Refused(asked, status),
        error => End::Failed(sandbox_core::escape(&error.to_string()).to_string()),
    }
}

/// Tells everybody how their pods are, and gives the version to watch from.
async fn list(watch: &PodWatch, pods: &Api<Pod>, selector: &str) -> Result<String, End> {
    // Those alone: a pod that is made meanwhile may be missing, and is in the watch that follows.
    let mut made = watch.made();
    let parameters = ListParams::default().labels(selector);
    let asked = timeout(SILENCE, pods.list(&parameters)).await;
    let asked = asked.map_err(|_| End::Failed("the list of pods does not come".to_owned()))?;
    let found = asked.map_err(|error| failed(Operation::ListPods, error))?;
    for pod in found.items {
        let creation = labels::creation(&pod).map(ToOwned::to_owned);
        made.retain(|made| creation.as_ref() != Some(made));
        watch.tell(creation.as_deref(), Change::Pod(Box::new(pod)));
    }
    for gone in made {
        watch.tell(Some(&gone), Change::Removed);
    }
    Ok(found.metadata.resource_version.unwrap_or_default())
}

/// Tells everybody of their pods' changes from a version on, for as long as the server says any.
async fn follow(watch: &PodWatch, pods: &Api<Pod>, selector: &str, from: String) -> End {
    let parameters = WatchParams::default().labels(selector).timeout(LENGTH);
    let mut events = match timeout(SILENCE, pods.watch(&parameters, &from)).await {
        Ok(Ok(events)) => events.boxed(),
        Ok(Err(error)) => return failed(Operation::WatchPod, error),
        Err(_) => return End::Failed("the watch of pods does not begin".to_owned()),
    };
    let mut version = from;
    let mut heard = Instant::now();
    loop {
        let idle = watch.idle_for();
        let patience = match idle {
            Some(left) if left.is_zero() => return End::Idle,
            Some(left) => left,
            None if watch.is_urgent() => SILENCE.saturating_sub(heard.elapsed()),
            // As long as the server keeps it open, and until somebody may have come who waits.
            None => SILENCE,
        };
        let urgent = idle.is_none() && watch.is_urgent();
        let Ok(event) = timeout(patience, events.try_next()).await else {
            // Who waited alone for all that time is told by a list what has come meanwhile.
            if urgent && heard.elapsed() >= SILENCE {
                return End::Closed(None);
            }
            heard = Instant::now();
            continue;
        };
        heard = Instant::now();
        let (pod, is_there) = match event {
            Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => (pod, true),
            Ok(Some(WatchEvent::Deleted(pod))) => (pod, false),
            Ok(Some(WatchEvent::Bookmark(mark))) => {
                version = mark.metadata.resource_version;
                continue;
            }
            Ok(Some(WatchEvent::Error(status))) => {
                return failed(Operation::WatchPod, kube::Error::Api(status));
            }
            // What is refused comes as the first line.
            Err(error @ kube::Error::Api(_)) => return failed(Operation::WatchPod, error),
            // The server has closed it, or was restarted: the next request shows which.
            Ok(None) | Err(_) => return End::Closed(Some(version)),
        };
        if let Some(newer) = &pod.metadata.resource_version {
            version.clone_from(newer);
        }
        let creation = labels::creation(&pod).map(ToOwned::to_owned);
        let change = match is_there {
            true => Change::Pod(Box::new(pod)),
            false => Change::Removed,
        };
        watch.tell(creation.as_deref(), change);
    }
}

#[cfg(test)]
mod tests;
