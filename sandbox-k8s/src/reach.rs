//! The way to a pod's agent, as often as it has to be gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::{Error, ErrorKind};
use sandbox_host::{ByteStream, LastWords, Reach, Unreachable};
use tokio::time::sleep;

use crate::TIER;
use crate::error::{Operation, cluster_error};
use crate::failure;
use crate::pod::Target;
use crate::stream::{self, PodStream};

/// How often a pod that is said to run, and lets nobody in, is tried for the first time: for three seconds or so. A kubelet tells that
/// a container has ended a second after it has.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(300);

/// Enters a pod by the API server's `exec`. Where that breaks, the pod says whether it is of any use to come back.
pub(crate) struct PodReach {
    pods: Api<Pod>,
    pod: Target,
    last_words: LastWords,
    /// Whether it was tried before.
    tried: AtomicBool,
    /// The first stream, where it was opened ahead.
    first: Mutex<Option<PodStream>>,
    /// Why the pod does not run any more, where that was seen.
    over: Mutex<Option<String>>,
}

impl PodReach {
    /// The way into a pod that runs.
    pub(crate) fn new(pods: Api<Pod>, pod: Target) -> Self {
        Self {
            pods,
            pod,
            last_words: LastWords::default(),
            tried: AtomicBool::new(false),
            first: Mutex::new(None),
            over: Mutex::new(None),
        }
    }

    /// Opens the first stream ahead. It must be used: the agent takes it for that of its first client.
    ///
    /// # Errors
    ///
    /// What the cluster refuses: also as long as the container does not run.
    pub(crate) async fn enter(&self) -> Result<(), Error> {
        let stream = stream::enter(&self.pods, &self.pod.name, &self.last_words).await?;
        *lock(&self.first) = Some(stream);
        Ok(())
    }

    /// Why the agent did not answer its first client: where its pod has ended meanwhile, for that reason.
    pub(crate) fn why(&self, failed: Error) -> Error {
        match lock(&self.over).take() {
            Some(why) => failure::too_soon(why).with_source(failed),
            None => failed,
        }
    }

    /// What was said on standard error, of all its streams.
    pub(crate) fn last_words(&self) -> LastWords {
        self.last_words.clone()
    }

    /// Whether the pod still runs.
    async fn look(&self) -> Result<(), Unreachable> {
        let found = self.pods.get_opt(&self.pod.name).await;
        let found =
            found.map_err(|error| Unreachable::Now(cluster_error(Operation::GetPod, error)))?;
        // Another one may have its name by now, whose agent waits for its own first client.
        let Some(pod) = found.filter(|pod| Target::of(pod).as_ref() == Some(&self.pod)) else {
            return Err(gone("it was removed, or its node was".into()));
        };
        match failure::over(&pod) {
            Some(why) => {
                *lock(&self.over) = Some(why.clone());
                Err(gone(sandbox_core::escape(&why).to_string()))
            }
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone(why: String) -> Unreachable {
    let context = format!("the pod is gone: {why}");
    Unreachable::Ever(Error::new(ErrorKind::SandboxEnded, "enter pod", context).on(TIER))
}

/// Whether the pod's container may not run, or not any more, which servers say with various codes. A missing right, or a server that does
/// not answer, is no such thing.
pub(crate) fn has_no_container(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::SandboxEnded)
}

fn boxed(entered: Result<PodStream, Error>) -> Result<Box<dyn ByteStream>, Unreachable> {
    match entered {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(Unreachable::Now(error)),
    }
}

#[async_trait]
impl Reach for PodReach {
    async fn open(&self) -> Result<Box<dyn ByteStream>, Unreachable> {
        let is_first = !self.tried.swap(true, Ordering::Relaxed);
        if !is_first {
            self.look().await?;
        }
        let ahead = lock(&self.first).take();
        if let Some(stream) = ahead {
            return Ok(Box::new(stream));
        }
        let attempts = if is_first { ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            match stream::enter(&self.pods, &self.pod.name, &self.last_words).await {
                Err(error) if has_no_container(&error) => {}
                entered => return boxed(entered),
            }
            sleep(PAUSE).await;
            self.look().await?;
        }
        boxed(stream::enter(&self.pods, &self.pod.name, &self.last_words).await)
    }
}
