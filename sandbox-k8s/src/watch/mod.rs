//! One watch for all pods that a client waits for.
//!
//! The watch starts with the first subscription, is shared by all, and ends some time after the
//! last one. Subscribe before the pod is created, so that no change is missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use sandbox_host::lock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::error::ClusterOperation;
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
const OUTAGE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// A change of a pod.
#[derive(Debug)]
pub(crate) enum PodChange {
    /// The pod's new state.
    Pod(Box<Pod>),
    /// The pod was removed.
    Removed,
    /// The server refused the list or the watch.
    Refused(ClusterOperation, Box<Status>),
    /// The server does not answer.
    Unreachable(String),
}

/// The watch of a client's pods, active while there are subscribers.
#[derive(Debug)]
pub(crate) struct PodWatch {
    pods: Api<Pod>,
    selector: String,
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    /// By the creation of the pod, since its name may have belonged to another pod a moment ago.
    subscribers: HashMap<String, Subscriber>,
    /// The number of the active watch task, counted from 1.
    task: Option<u64>,
    watches: u64,
    /// Since when there have been no subscribers.
    idle: Option<Instant>,
}

#[derive(Debug)]
struct Subscriber {
    changes: UnboundedSender<PodChange>,
    /// Whether the pod is known to be created: then a list without it means that it was removed.
    created: bool,
    /// Whether the subscriber waits for the pod to run: then a silent watch is not trusted.
    waits: bool,
}

/// A subscription to one pod's changes. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct PodSubscription {
    watch: Arc<PodWatch>,
    name: String,
    creation: String,
    changes: UnboundedReceiver<PodChange>,
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

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        lock(&self.state)
    }

    /// Subscribes to the pod with this name and creation, which is not created yet.
    pub(crate) fn subscribe(self: &Arc<Self>, name: &str, creation: &str) -> PodSubscription {
        let (changes, receiver) = unbounded_channel();
        let subscriber = Subscriber {
            changes,
            created: false,
            waits: true,
        };
        let mut state = self.lock();
        state.subscribers.insert(creation.to_owned(), subscriber);
        state.idle = None;
        if state.task.is_none() {
            state.watches += 1;
            let number = state.watches;
            state.task = Some(number);
            let task = WatchTask {
                watch: Arc::downgrade(self),
                number,
            };
            tokio::spawn(task.run(self.pods.clone(), self.selector.clone()));
        }
        drop(state);
        PodSubscription {
            watch: Arc::clone(self),
            name: name.to_owned(),
            creation: creation.to_owned(),
            changes: receiver,
            ended: false,
        }
    }

    /// Sends a change to the subscriber of this pod.
    fn notify(&self, creation: Option<&str>, change: PodChange) {
        let subscriber =
            creation.and_then(|creation| self.lock().subscribers.get(creation).map(sender));
        if let Some(subscriber) = subscriber {
            // The subscription may have ended just now.
            let _ = subscriber.send(change);
        }
    }

    /// Sends a change to all subscribers and ends their subscriptions.
    fn notify_all(&self, change: impl Fn() -> PodChange) {
        for (_, subscriber) in self.lock().subscribers.drain() {
            let _ = subscriber.changes.send(change());
        }
    }

    /// The creations whose pods exist, which a list requested now must contain.
    fn created(&self) -> Vec<String> {
        let state = self.lock();
        let created = state
            .subscribers
            .iter()
            .filter(|(_, subscriber)| subscriber.created);
        created.map(|(creation, _)| creation.clone()).collect()
    }

    /// Whether a subscriber waits for its pod to run.
    fn has_waiting(&self) -> bool {
        self.lock()
            .subscribers
            .values()
            .any(|subscriber| subscriber.waits)
    }

    /// How long until the watch may end; `None` while there are subscribers.
    fn idle_for(&self) -> Option<Duration> {
        let mut state = self.lock();
        if !state.subscribers.is_empty() {
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
        if over && state.subscribers.is_empty() && state.task == Some(number) {
            state.task = None;
        }
        state.task != Some(number)
    }
}

fn sender(subscriber: &Subscriber) -> UnboundedSender<PodChange> {
    subscriber.changes.clone()
}

impl PodSubscription {
    /// Marks the pod as created: from now on a list without it means that it was removed.
    pub(crate) fn mark_created(&self) {
        if let Some(subscriber) = self.watch.lock().subscribers.get_mut(&self.creation) {
            subscriber.created = true;
        }
    }

    /// Marks the pod as running: from now on only its end matters.
    pub(crate) fn mark_running(&self) {
        if let Some(subscriber) = self.watch.lock().subscribers.get_mut(&self.creation) {
            subscriber.waits = false;
        }
    }

    /// Whether the pod is known to have ended, or to be ending.
    pub(crate) fn has_ended(&mut self) -> bool {
        while let Ok(change) = self.changes.try_recv() {
            self.ended |= match change {
                PodChange::Removed => true,
                PodChange::Pod(pod) => {
                    pod.metadata.deletion_timestamp.is_some() || failure::end_reason(&pod).is_some()
                }
                // The agent's connection tells as well.
                PodChange::Refused(..) | PodChange::Unreachable(_) => false,
            };
        }
        self.ended
    }

    /// How many subscribers wait for their pods to run, including this one.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.watch.lock();
        state
            .subscribers
            .values()
            .filter(|subscriber| subscriber.waits)
            .count()
    }

    /// The pod's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next change of this pod. Cancel safe: dropping the future loses no change.
    pub(crate) async fn next(&mut self) -> PodChange {
        match self.changes.recv().await {
            Some(change) => change,
            None => PodChange::Unreachable("the watch of the pods has ended".to_owned()),
        }
    }
}

impl Drop for PodSubscription {
    fn drop(&mut self) {
        let mut state = self.watch.lock();
        state.subscribers.remove(&self.creation);
        if state.subscribers.is_empty() {
            state.idle = Some(Instant::now());
        }
    }
}

/// The watch task. Its drop runs even if its runtime shuts down.
struct WatchTask {
    watch: Weak<PodWatch>,
    number: u64,
}

impl Drop for WatchTask {
    fn drop(&mut self) {
        let Some(watch) = self.watch.upgrade() else {
            return;
        };
        let mut state = watch.lock();
        if state.task == Some(self.number) {
            state.task = None;
            // Dropping the senders wakes all subscribers.
            state.subscribers.clear();
        }
    }
}

/// How a watch ended.
enum WatchEnd {
    /// The server closed the watch, or it was silent: the next one continues from this version.
    Closed(Option<String>),
    /// The server has forgotten the resource version: the pods must be listed.
    Forgotten,
    /// The server refused.
    Refused(ClusterOperation, Box<Status>),
    /// The server did not answer.
    Failed(String),
    /// There are no subscribers.
    Idle,
}

impl WatchTask {
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
                WatchEnd::Idle => continue,
                WatchEnd::Forgotten => {}
                WatchEnd::Closed(from) => {
                    version = from;
                    failing = None;
                }
                WatchEnd::Refused(asked, status) => {
                    watch.notify_all(|| PodChange::Refused(asked, status.clone()));
                }
                WatchEnd::Failed(why) => {
                    let since = *failing.get_or_insert(begin);
                    if since.elapsed() > OUTAGE {
                        watch.notify_all(|| PodChange::Unreachable(why.clone()));
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

fn failed(asked: ClusterOperation, error: kube::Error) -> WatchEnd {
    match error {
        kube::Error::Api(status) if status.code == GONE => WatchEnd::Forgotten,
        kube::Error::Api(status) if status.code < 500 => WatchEnd::Refused(asked, status),
        error => WatchEnd::Failed(sandbox_core::spi::escape(&error.to_string()).to_string()),
    }
}

/// Lists the pods, sends each to its subscriber, and returns the version to watch from.
async fn list(watch: &PodWatch, pods: &Api<Pod>, selector: &str) -> Result<String, WatchEnd> {
    // Only pods created before the request: a pod created meanwhile may be missing from the list,
    // but then appears in the watch.
    let mut created = watch.created();
    let parameters = ListParams::default().labels(selector);
    let asked = timeout(SILENCE, pods.list(&parameters)).await;
    let asked =
        asked.map_err(|_| WatchEnd::Failed("the list of pods did not arrive".to_owned()))?;
    let found = asked.map_err(|error| failed(ClusterOperation::ListPods, error))?;
    for pod in found.items {
        let creation = labels::creation(&pod).map(ToOwned::to_owned);
        created.retain(|created| creation.as_ref() != Some(created));
        watch.notify(creation.as_deref(), PodChange::Pod(Box::new(pod)));
    }
    for gone in created {
        watch.notify(Some(&gone), PodChange::Removed);
    }
    Ok(found.metadata.resource_version.unwrap_or_default())
}

/// Watches from a version and sends each change to its subscriber, until the watch ends.
async fn follow(watch: &PodWatch, pods: &Api<Pod>, selector: &str, from: String) -> WatchEnd {
    let parameters = WatchParams::default().labels(selector).timeout(LENGTH);
    let mut events = match timeout(SILENCE, pods.watch(&parameters, &from)).await {
        Ok(Ok(events)) => events.boxed(),
        Ok(Err(error)) => return failed(ClusterOperation::WatchPod, error),
        Err(_) => return WatchEnd::Failed("the watch of pods did not start".to_owned()),
    };
    let mut version = from;
    let mut last_event = Instant::now();
    loop {
        let idle = watch.idle_for();
        let patience = match idle {
            Some(left) if left.is_zero() => return WatchEnd::Idle,
            Some(left) => left,
            None if watch.has_waiting() => SILENCE.saturating_sub(last_event.elapsed()),
            // The server limits the watch anyway; wake up now and then to see new waiting
            // subscribers.
            None => SILENCE,
        };
        let waits = idle.is_none() && watch.has_waiting();
        let Ok(event) = timeout(patience, events.try_next()).await else {
            // After a full period of silence with a waiting subscriber, a list shows what was
            // missed.
            if waits && last_event.elapsed() >= SILENCE {
                return WatchEnd::Closed(None);
            }
            last_event = Instant::now();
            continue;
        };
        last_event = Instant::now();
        let (pod, is_there) = match event {
            Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => (pod, true),
            Ok(Some(WatchEvent::Deleted(pod))) => (pod, false),
            Ok(Some(WatchEvent::Bookmark(mark))) => {
                version = mark.metadata.resource_version;
                continue;
            }
            Ok(Some(WatchEvent::Error(status))) => {
                return failed(ClusterOperation::WatchPod, kube::Error::Api(status));
            }
            // A refusal arrives as the first event.
            Err(error @ kube::Error::Api(_)) => return failed(ClusterOperation::WatchPod, error),
            // The server closed the watch or restarted; the next request shows which.
            Ok(None) | Err(_) => return WatchEnd::Closed(Some(version)),
        };
        if let Some(newer) = &pod.metadata.resource_version {
            version.clone_from(newer);
        }
        let creation = labels::creation(&pod).map(ToOwned::to_owned);
        let change = match is_there {
            true => PodChange::Pod(Box::new(pod)),
            false => PodChange::Removed,
        };
        watch.notify(creation.as_deref(), change);
    }
}

#[cfg(test)]
mod tests;
