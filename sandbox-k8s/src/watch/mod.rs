//! One watch for all pods that a client waits for.
//!
//! The watch starts with the first subscription, is shared by all, and ends some time after the
//! last one. Subscribe before the pod is created, so that no change is missed.

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

/// The longest that a server keeps a watch open, in seconds; then a new one starts.
const LENGTH: u32 = 290;
/// The status code for a resource version that the server has forgotten.
const GONE: u16 = 410;
/// If a watch is silent for this long while a subscriber waits, the connection may be dead, so the
/// pods are listed.
const SILENCE: Duration = Duration::from_secs(30);
/// The watch ends when it had no subscribers for this long.
const IDLE: Duration = Duration::from_secs(20);
/// The first and the longest pause after a failed watch, for servers that end each one at once.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];
/// How long the server may be unreachable before subscribers get an error. A restarted server is
/// back by then.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// A change of a pod.
#[derive(Debug)]
pub(crate) enum Change {
    /// The pod's new state.
    Pod(Box<Pod>),
    /// The pod was removed.
    Removed,
    /// The server refused the list or the watch.
    Refused(Operation, Box<Status>),
    /// The server does not answer.
    Silent(String),
}

/// The watch of a client's pods, active while there are subscribers.
#[derive(Debug)]
pub(crate) struct PodWatch {
    pods: Api<Pod>,
    selector: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the creation of the pod, since its name may have belonged to another pod a moment ago.
    waiting: HashMap<String, Waiter>,
    /// The number of the active watch task, counted from 1.
    watcher: Option<u64>,
    begun: u64,
    /// Since when there have been no subscribers.
    idle: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    changes: UnboundedSender<Change>,
    /// Whether the pod is known to be created: then a list without it means that it was removed.
    made: bool,
    /// Whether the subscriber waits for the pod to run: then a silent watch is not trusted.
    urgent: bool,
}

/// A subscription to one pod's changes. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct Ticket {
    watch: Arc<PodWatch>,
    name: String,
    creation: String,
    changes: UnboundedReceiver<Change>,
    ended: bool,
}

impl PodWatch {
    /// A watch of the pods with this owner's label. Sends no request yet.
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

    /// Subscribes to the pod with this name and creation, which is not created yet.
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

    /// Sends a change to the subscriber of this pod.
    fn tell(&self, creation: Option<&str>, change: Change) {
        let waiter = creation.and_then(|creation| self.lock().waiting.get(creation).map(sender));
        if let Some(waiter) = waiter {
            // The subscription may have ended just now.
            let _ = waiter.send(change);
        }
    }

    /// Sends a change to all subscribers and ends their subscriptions.
    fn tell_all(&self, change: impl Fn() -> Change) {
        for (_, waiter) in self.lock().waiting.drain() {
            let _ = waiter.changes.send(change());
        }
    }

    /// The creations whose pods exist, which a list requested now must contain.
    fn made(&self) -> Vec<String> {
        let state = self.lock();
        let made = state.waiting.iter().filter(|(_, waiter)| waiter.made);
        made.map(|(creation, _)| creation.clone()).collect()
    }

    /// Whether a subscriber waits for its pod to run.
    fn is_urgent(&self) -> bool {
        self.lock().waiting.values().any(|waiter| waiter.urgent)
    }

    /// How long until the watch may end; `None` while there are subscribers.
    fn idle_for(&self) -> Option<Duration> {
        let mut state = self.lock();
        if !state.waiting.is_empty() {
            return None;
        }
        let since = *state.idle.get_or_insert_with(Instant::now);
        Some(IDLE.saturating_sub(since.elapsed()))
    }

    /// Whether the watch task with this number must end. With `at_once`, it does not wait for the
    /// idle time. A later subscription starts a new task.
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
    /// Marks the pod as created: from now on a list without it means that it was removed.
    pub(crate) fn is_made(&self) {
        if let Some(waiter) = self.watch.lock().waiting.get_mut(&self.creation) {
            waiter.made = true;
        }
    }

    /// Marks the pod as running: from now on only its end matters.
    pub(crate) fn is_running(&self) {
        if let Some(waiter) = self.watch.lock().waiting.get_mut(&self.creation) {
            waiter.urgent = false;
        }
    }

    /// Whether the pod is known to have ended, or to be ending.
    pub(crate) fn has_ended(&mut self) -> bool {
        while let Ok(change) = self.changes.try_recv() {
            self.ended |= match change {
                Change::Removed => true,
                Change::Pod(pod) => {
                    pod.metadata.deletion_timestamp.is_some() || failure::over(&pod).is_some()
                }
                // The agent's connection tells as well.
                Change::Refused(..) | Change::Silent(_) => false,
            };
        }
        self.ended
    }

    /// How many subscribers wait for their pods to run, including this one.
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

    /// The next change of this pod. Cancel safe: dropping the future loses no change.
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

/// The watch task. Its drop runs even if its runtime shuts down.
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
            // Dropping the senders wakes all subscribers.
            state.waiting.clear();
        }
    }
}

/// How a watch ended.
enum End {
    /// The server closed the watch, or it was silent: the next one continues from this version.
    Closed(Option<String>),
    /// The server has forgotten the resource version: the pods must be listed.
    Forgotten,
    /// The server refused.
    Refused(Operation, Box<Status>),
    /// The server did not answer.
    Failed(String),
    /// There are no subscribers.
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

/// Lists the pods, sends each to its subscriber, and returns the version to watch from.
async fn list(watch: &PodWatch, pods: &Api<Pod>, selector: &str) -> Result<String, End> {
    // Only pods created before the request: a pod created meanwhile may be missing from the list,
    // but then appears in the watch.
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

/// Watches from a version and sends each change to its subscriber, until the watch ends.
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
            // The server limits the watch anyway; wake up now and then to see new urgent
            // subscribers.
            None => SILENCE,
        };
        let urgent = idle.is_none() && watch.is_urgent();
        let Ok(event) = timeout(patience, events.try_next()).await else {
            // After a full period of silence with an urgent subscriber, a list shows what was
            // missed.
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
            // A refusal arrives as the first event.
            Err(error @ kube::Error::Api(_)) => return failed(Operation::WatchPod, error),
            // The server closed the watch or restarted; the next request shows which.
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
