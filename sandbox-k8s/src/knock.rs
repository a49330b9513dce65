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

use crate::made::Asked;
use crate::reach::{PodReach, has_no_container};
use crate::wait::{self, Patience};
use crate::watch::Ticket;

/// At most this many waiting pods are probed by `exec`.
const FEW: usize = 4;
/// The most attempts per pod.
const KNOCKS: usize = 10;
/// The assumed start time of a container before one was measured. Most take longer.
const FIRST: Duration = Duration::from_millis(300);
/// The pause between attempts is the time since scheduling divided by this.
const PART: u32 = 8;
/// The shortest pause between attempts: about the duration of one.
const SHORTEST: Duration = Duration::from_millis(20);

/// The last measured time from scheduling a pod to the first successful `exec`.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Microseconds; 0 if not measured yet.
    last: AtomicU64,
}

impl Pace {
    /// The delay before the first attempt: three quarters of the last measured time.
    fn first(&self) -> Duration {
        match self.last.load(Ordering::Relaxed) {
            0 => FIRST,
            last => Duration::from_micros(last) * 3 / 4,
        }
    }

    fn took(&self, time: Duration) {
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
pub(crate) async fn until_entered(
    pods: &Api<Pod>,
    ticket: &mut Ticket,
    patience: Patience,
    asked: Option<&Asked>,
    reach: &PodReach,
    pace: &Pace,
) -> Result<Option<Pod>> {
    let few = ticket.waiting() <= FEW;
    let (placed, is_placed) = oneshot::channel();
    let running = wait::until_running(pods, ticket, patience, asked, Some(placed));
    if !few {
        return running.await.map(Some);
    }
    knock(running, is_placed, pace, || reach.enter()).await
}

async fn knock<T, F>(
    running: impl Future<Output = Result<T>>,
    is_placed: oneshot::Receiver<()>,
    pace: &Pace,
    enter: impl Fn() -> F,
) -> Result<Option<T>>
where
    F: Future<Output = Result<()>>,
{
    let mut running = pin!(running);
    if let Either::Left((ran, _)) = select(&mut running, is_placed).await {
        return ran.map(Some);
    }
    let begin = Instant::now();
    let mut next = begin + pace.first();
    for number in 0..KNOCKS {
        if let Either::Left((ran, _)) = select(&mut running, pin!(sleep_until(next))).await {
            if number == 0 && ran.is_ok() {
                pace.took(begin.elapsed() / 2);
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
                pace.took(begin.elapsed() / part);
                return Ok(ran);
            }
            (Err(_), Some(ran)) => return Ok(Some(ran)),
            (Err(error), None) if has_no_container(&error) => {}
            (Err(_), None) => break,
        }
        next = Instant::now() + (begin.elapsed() / PART).max(SHORTEST);
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

    fn placed() -> oneshot::Receiver<()> {
        let (placed, is_placed) = oneshot::channel();
        placed.send(()).expect("somebody listens");
        is_placed
    }

    /// Probes a pod whose `exec` gives `answers` in order, repeating the last, while its status is
    /// `ran`. Returns the result and the number of attempts.
    async fn knocked(
        ran: impl Future<Output = Result<u8>>,
        pace: &Pace,
        answers: &[Result<(), ErrorKind>],
    ) -> (Option<Result<Option<u8>>>, usize) {
        let tried = Cell::new(0);
        let enter = || async {
            let number = tried.replace(tried.get() + 1).min(answers.len() - 1);
            answers[number].map_err(error)
        };
        let came = knock(ran, placed(), pace, enter);
        let came = timeout(Duration::from_secs(5), came).await.ok();
        (came, tried.get())
    }

    #[tokio::test]
    async fn it_is_tried_until_somebody_lets_in_and_sooner_the_next_time() {
        let pace = Pace::default();
        let early = Err(ErrorKind::Io);
        let (came, tried) = knocked(pending(), &pace, &[early, early, Ok(())]).await;
        assert!(matches!(came, Some(Ok(None))), "{came:?}");
        assert_eq!(tried, 3);
        // The next probe waits for about as long as this one took.
        assert!(pace.first() > FIRST * 3 / 4, "{:?}", pace.first());
        pace.took(Duration::from_millis(80));
        assert_eq!(pace.first(), Duration::from_millis(60));
        // One slow start does not slow down all that follow.
        pace.took(LONG);
        let soon = async {
            sleep(Duration::from_millis(50)).await;
            Ok(7)
        };
        let (came, tried) = knocked(soon, &pace, &[Ok(())]).await;
        assert!(matches!(came, Some(Ok(Some(7)))), "{came:?}");
        assert_eq!(tried, 0);
        assert!(pace.first() < LONG / 4, "{:?}", pace.first());
    }

    #[tokio::test]
    async fn it_is_not_tried_for_ever() {
        let pace = Pace::default();
        pace.took(Duration::from_millis(20));
        let (came, tried) = knocked(pending(), &pace, &[Err(ErrorKind::SandboxEnded)]).await;
        assert!(came.is_none(), "{came:?}");
        assert_eq!(tried, KNOCKS);
        for useless in [ErrorKind::SetupFailed, ErrorKind::SandboxUnavailable] {
            let (came, tried) = knocked(pending(), &pace, &[Err(useless)]).await;
            assert!(came.is_none(), "{came:?}");
            assert_eq!(tried, 1);
        }
    }

    #[tokio::test]
    async fn what_the_status_says_counts() {
        let pace = Pace::default();
        let (came, tried) = knocked(ready(Ok(7)), &pace, &[Ok(())]).await;
        assert!(matches!(came, Some(Ok(Some(7)))), "{came:?}");
        assert_eq!(tried, 0);
        let failed = ready(Err(error(ErrorKind::ImageNotFound)));
        let (came, _) = knocked(failed, &pace, &[Ok(())]).await;
        assert!(matches!(came, Some(Err(error)) if error.kind() == ErrorKind::ImageNotFound));
        // A pod without a node is not probed.
        let (_placed, is_placed) = oneshot::channel();
        let waiting = knock(pending::<Result<u8>>(), is_placed, &pace, || async {
            panic!("it has no node")
        });
        assert!(timeout(2 * FIRST, waiting).await.is_err());
    }

    #[tokio::test]
    async fn an_attempt_under_way_is_not_given_up_for_a_status() {
        let pace = Pace::default();
        for (came_in, expected) in [(true, Ok(())), (false, Err(ErrorKind::Io))] {
            let ended = Cell::new(false);
            let (runs, told) = oneshot::channel::<()>();
            let runs = Cell::new(Some(runs));
            let enter = || async {
                // The status arrives during this attempt.
                drop(runs.take());
                sleep(Duration::from_millis(50)).await;
                ended.set(true);
                expected.map_err(error)
            };
            let running = async {
                let _ = told.await;
                Ok(7)
            };
            let came = timeout(LONG, knock(running, placed(), &pace, enter)).await;
            assert!(matches!(came, Ok(Ok(Some(7)))), "{came_in}: {came:?}");
            assert!(ended.get());
        }
    }
}
