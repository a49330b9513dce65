//! Connects to a pod before its kubelet reports that it runs.
//!
//! A kubelet reports container starts once per second, but accepts `exec` as soon as the container
//! runs. A client that waits for few pods therefore tries `exec` while it also waits for the
//! status. A client that waits for many pods does not: each request counts, and a busy node is
//! slower than its kubelet's poll.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::Result;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::connector::{PodConnector, has_no_container};
use crate::requested::RequestedPod;
use crate::wait::{self, StartTimeouts};
use crate::watch::PodSubscription;

/// At most this many waiting pods are probed by `exec`.
const MAX_WAITING: usize = 4;
/// The most attempts per pod.
const MAX_ATTEMPTS: usize = 10;
/// The assumed start time of a container before one was measured. Most take longer.
const ASSUMED_LATENCY: Duration = Duration::from_millis(300);
/// The pause between attempts is the time since scheduling divided by this.
const PAUSE_DIVISOR: u32 = 8;
/// The shortest pause between attempts: about the duration of one.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// The last measured time from scheduling a pod to the first successful `exec`.
#[derive(Debug, Default)]
pub(crate) struct StartLatency {
    /// Microseconds; 0 if not measured yet.
    last: AtomicU64,
}

impl StartLatency {
    /// The delay before the first attempt: three quarters of the last measured time.
    fn first_delay(&self) -> Duration {
        match self.last.load(Ordering::Relaxed) {
            0 => ASSUMED_LATENCY,
            last => Duration::from_micros(last) * 3 / 4,
        }
    }

    fn record(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.last.store(time, Ordering::Relaxed);
    }
}

/// Waits until `exec` succeeds or the status says that the pod runs. Returns the pod if the status
/// was first.
///
/// # Errors
///
/// As [`wait::until_running`]. Errors of `exec` are left to the next connection attempt.
pub(crate) async fn until_connected(
    pods: &Api<Pod>,
    subscription: &mut PodSubscription,
    timeouts: StartTimeouts,
    asked: Option<&RequestedPod>,
    connector: &PodConnector,
    latency: &StartLatency,
) -> Result<Option<Pod>> {
    let few = subscription.waiting() <= MAX_WAITING;
    let (scheduled, is_scheduled) = oneshot::channel();
    let running = wait::until_running(pods, subscription, timeouts, asked, Some(scheduled));
    if !few {
        return running.await.map(Some);
    }
    probe(running, is_scheduled, latency, || connector.enter()).await
}

async fn probe<T, F>(
    running: impl Future<Output = Result<T>>,
    is_scheduled: oneshot::Receiver<()>,
    latency: &StartLatency,
    enter: impl Fn() -> F,
) -> Result<Option<T>>
where
    F: Future<Output = Result<()>>,
{
    let mut running = pin!(running);
    if let Either::Left((ran, _)) = select(&mut running, is_scheduled).await {
        return ran.map(Some);
    }
    let begin = Instant::now();
    let mut next = begin + latency.first_delay();
    for number in 0..MAX_ATTEMPTS {
        if let Either::Left((ran, _)) = select(&mut running, pin!(sleep_until(next))).await {
            if number == 0 && ran.is_ok() {
                latency.record(begin.elapsed() / 2);
            }
            return ran.map(Some);
        }
        let (entered, ran) = match select(&mut running, pin!(enter())).await {
            Either::Right((entered, _)) => (entered, None),
            // The attempt may have connected already, as the agent's first client, so finish it.
            Either::Left((ran, attempt)) => {
                let ran = ran?;
                (attempt.await, Some(ran))
            }
        };
        match (entered, ran) {
            (Ok(()), ran) => {
                // The first attempt succeeded at once: the container may have run for long, so
                // record half.
                let part = if number == 0 { 2 } else { 1 };
                latency.record(begin.elapsed() / part);
                return Ok(ran);
            }
            (Err(_), Some(ran)) => return Ok(Some(ran)),
            (Err(error), None) if has_no_container(&error) => {}
            (Err(_), None) => break,
        }
        next = Instant::now() + (begin.elapsed() / PAUSE_DIVISOR).max(MIN_PAUSE);
    }
    running.await.map(Some)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use sandbox_core::{Error, ErrorKind};
    use tokio::time::{sleep, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, "enter pod", "no")
    }

    fn scheduled() -> oneshot::Receiver<()> {
        let (scheduled, is_scheduled) = oneshot::channel();
        scheduled.send(()).expect("a receiver");
        is_scheduled
    }

    /// Probes a pod whose `exec` gives `answers` in order, repeating the last, while its status is
    /// `ran`. Returns the result and the number of attempts.
    async fn probed(
        ran: impl Future<Output = Result<u8>>,
        latency: &StartLatency,
        answers: &[Result<(), ErrorKind>],
    ) -> (Option<Result<Option<u8>>>, usize) {
        let attempts = Cell::new(0);
        let enter = || async {
            let number = attempts.replace(attempts.get() + 1).min(answers.len() - 1);
            answers[number].map_err(error)
        };
        let outcome = probe(ran, scheduled(), latency, enter);
        let outcome = timeout(Duration::from_secs(5), outcome).await.ok();
        (outcome, attempts.get())
    }

    #[tokio::test]
    async fn probes_until_connected_and_adapts_the_delay() {
        let latency = StartLatency::default();
        let early = Err(ErrorKind::Io);
        let (outcome, attempts) = probed(pending(), &latency, &[early, early, Ok(())]).await;
        assert!(matches!(outcome, Some(Ok(None))), "{outcome:?}");
        assert_eq!(attempts, 3);
        // The next probe waits for about as long as this one took.
        assert!(
            latency.first_delay() > ASSUMED_LATENCY * 3 / 4,
            "{:?}",
            latency.first_delay()
        );
        latency.record(Duration::from_millis(80));
        assert_eq!(latency.first_delay(), Duration::from_millis(60));
        // One slow start does not slow down all that follow.
        latency.record(LONG);
        let soon = async {
            sleep(Duration::from_millis(50)).await;
            Ok(7)
        };
        let (outcome, attempts) = probed(soon, &latency, &[Ok(())]).await;
        assert!(matches!(outcome, Some(Ok(Some(7)))), "{outcome:?}");
        assert_eq!(attempts, 0);
        assert!(
            latency.first_delay() < LONG / 4,
            "{:?}",
            latency.first_delay()
        );
    }

    #[tokio::test]
    async fn attempts_are_limited() {
        let latency = StartLatency::default();
        latency.record(Duration::from_millis(20));
        let (outcome, attempts) =
            probed(pending(), &latency, &[Err(ErrorKind::SandboxEnded)]).await;
        assert!(outcome.is_none(), "{outcome:?}");
        assert_eq!(attempts, MAX_ATTEMPTS);
        for useless in [ErrorKind::SetupFailed, ErrorKind::SandboxUnavailable] {
            let (outcome, attempts) = probed(pending(), &latency, &[Err(useless)]).await;
            assert!(outcome.is_none(), "{outcome:?}");
            assert_eq!(attempts, 1);
        }
    }

    #[tokio::test]
    async fn status_result_wins() {
        let latency = StartLatency::default();
        let (outcome, attempts) = probed(ready(Ok(7)), &latency, &[Ok(())]).await;
        assert!(matches!(outcome, Some(Ok(Some(7)))), "{outcome:?}");
        assert_eq!(attempts, 0);
        let failed = ready(Err(error(ErrorKind::ImageNotFound)));
        let (outcome, _) = probed(failed, &latency, &[Ok(())]).await;
        assert!(matches!(outcome, Some(Err(error)) if error.kind() == ErrorKind::ImageNotFound));
        // A pod without a node is not probed.
        let (_placed, is_scheduled) = oneshot::channel();
        let waiting = probe(pending::<Result<u8>>(), is_scheduled, &latency, || async {
            panic!("it has no node")
        });
        assert!(timeout(2 * ASSUMED_LATENCY, waiting).await.is_err());
    }

    #[tokio::test]
    async fn running_attempt_is_finished_after_status() {
        let latency = StartLatency::default();
        for (connects, expected) in [(true, Ok(())), (false, Err(ErrorKind::Io))] {
            let ended = Cell::new(false);
            let (status_sender, status) = oneshot::channel::<()>();
            let status_sender = Cell::new(Some(status_sender));
            let enter = || async {
                // The status arrives during this attempt.
                drop(status_sender.take());
                sleep(Duration::from_millis(50)).await;
                ended.set(true);
                expected.map_err(error)
            };
            let running = async {
                let _ = status.await;
                Ok(7)
            };
            let outcome = timeout(LONG, probe(running, scheduled(), &latency, enter)).await;
            assert!(
                matches!(outcome, Ok(Ok(Some(7)))),
                "{connects}: {outcome:?}"
            );
            assert!(ended.get());
        }
    }
}
