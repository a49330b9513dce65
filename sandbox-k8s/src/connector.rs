//! Connects to a pod's agent, and reconnects after a broken stream.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::{Error, ErrorKind};
use sandbox_host::{ByteStream, Connector, StderrTail, Unreachable, lock};
use tokio::time::sleep;

use crate::TIER;
use crate::error::{ClusterOperation, cluster_error};
use crate::failure;
use crate::isolator::PodIsolator;
use crate::lowering::CONTAINER;
use crate::pod::PodRef;
use crate::stream::{self, PodStream};

/// Attempts of the first connection to a pod that is reported as running but refuses `exec`: about
/// 3 s in all. A kubelet reports the end of a container up to 1 s late.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(300);

/// Connects to a pod's agent by the API server's `exec`. After a broken stream, the pod's status
/// decides whether another attempt makes sense.
pub(crate) struct PodConnector {
    pods: Api<Pod>,
    pod: PodRef,
    container: &'static str,
    stderr_tail: StderrTail,
    /// Whether a connection was attempted before.
    was_tried: AtomicBool,
    /// The first stream, if it was opened ahead.
    first: Mutex<Option<PodStream>>,
    /// Why the pod has ended, if that was observed.
    end_reason: Mutex<Option<String>>,
}

impl PodConnector {
    /// A connector to a running pod.
    pub(crate) fn new(pods: Api<Pod>, isolator: &PodIsolator) -> Self {
        Self {
            pods,
            pod: isolator.pod().clone(),
            container: CONTAINER,
            stderr_tail: isolator.stderr_tail(),
            was_tried: AtomicBool::new(false),
            first: Mutex::new(None),
            end_reason: Mutex::new(None),
        }
    }

    /// Connects to the agent of this container instead.
    pub(crate) fn to(mut self, container: &'static str) -> Self {
        self.container = container;
        self
    }

    async fn stream(&self) -> Result<PodStream, Error> {
        let place = (self.pod.name.as_str(), self.container);
        stream::enter(&self.pods, place, &self.stderr_tail).await
    }

    /// Opens the first stream ahead. It must be used, since the agent treats it as the stream of
    /// its first client.
    ///
    /// # Errors
    ///
    /// Errors of the cluster, including that the container does not run yet.
    pub(crate) async fn enter(&self) -> Result<(), Error> {
        let stream = self.stream().await?;
        *lock(&self.first) = Some(stream);
        Ok(())
    }

    /// Replaces the error of a failed first connection by the reason why the pod has ended, if it
    /// has.
    pub(crate) fn explain(&self, failed: Error) -> Error {
        match lock(&self.end_reason).take() {
            Some(why) => failure::ended_early(why).with_source(failed),
            None => failed,
        }
    }

    /// Checks that the pod still runs.
    async fn check_running(&self) -> Result<(), Unreachable> {
        let found = self.pods.get_opt(&self.pod.name).await;
        let found = found
            .map_err(|error| Unreachable::Now(cluster_error(ClusterOperation::GetPod, error)))?;
        // Another pod may have this name by now; its agent waits for a first client of its own.
        let Some(pod) = found.filter(|pod| PodRef::of(pod).as_ref() == Some(&self.pod)) else {
            return Err(gone("it or its node was removed".into()));
        };
        match failure::end_reason(&pod) {
            Some(why) => {
                *lock(&self.end_reason) = Some(why.clone());
                Err(gone(sandbox_core::spi::escape(&why).to_string()))
            }
            None => Ok(()),
        }
    }
}

fn gone(why: String) -> Unreachable {
    let context = format!("the pod is gone: {why}");
    Unreachable::Ever(Error::new(ErrorKind::SandboxEnded, "enter pod", context).on(TIER))
}

/// Whether the error may mean that the container does not run yet or any more. Servers use various
/// codes for that. A missing right or an unreachable server is a different error.
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
impl Connector for PodConnector {
    async fn open(&self) -> Result<Box<dyn ByteStream>, Unreachable> {
        let is_first = !self.was_tried.swap(true, Ordering::Relaxed);
        if !is_first {
            self.check_running().await?;
        }
        let ahead = lock(&self.first).take();
        if let Some(stream) = ahead {
            return Ok(Box::new(stream));
        }
        let attempts = if is_first { ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            match self.stream().await {
                Err(error) if has_no_container(&error) => {}
                entered => return boxed(entered),
            }
            sleep(PAUSE).await;
            self.check_running().await?;
        }
        boxed(self.stream().await)
    }
}
