//! Tests with items that cost nothing, and with a clock that is set.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

/// A stock of numbers, and what its task is asked with.
struct Numbers {
    asked: mpsc::UnboundedSender<Asked<usize>>,
    status: watch::Receiver<PoolStatus>,
    started: Arc<AtomicUsize>,
    /// How long the next starts take; an error fails them.
    time: Arc<Mutex<Result<Duration, String>>>,
}

impl Numbers {
    fn new(settings: PoolSettings) -> Self {
        let started = Arc::new(AtomicUsize::new(0));
        let time = Arc::new(Mutex::new(Ok(Duration::from_millis(100))));
        let (count, times) = (Arc::clone(&started), Arc::clone(&time));
        let start: Starter<usize> = Arc::new(move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let time = times.lock().expect("no panic").clone();
            Box::pin(async move {
                let fail = |why| Error::new(ErrorKind::SetupFailed, "start", why);
                tokio::time::sleep(time.map_err(fail)?).await;
                Ok(number)
            })
        });
        let (sender, status) = watch::channel(PoolStatus::default());
        let (asked, requests) = mpsc::unbounded_channel();
        let stock = Stock::new(settings, start, sender, asked.downgrade());
        tokio::spawn(stock.work(requests));
        Self {
            asked,
            status,
            started,
            time,
        }
    }

    fn ask(&self) -> oneshot::Receiver<Result<ClaimAnswer<usize>>> {
        let (sender, answer) = oneshot::channel();
        assert!(self.asked.send(Asked::Claim(sender)).is_ok());
        answer
    }

    async fn claim(&self) -> Result<ClaimAnswer<usize>> {
        self.ask().await.expect("the task works")
    }

    async fn number(&self) -> usize {
        match self.claim().await.expect("one is there") {
            ClaimAnswer::Item(number, mut slot) => {
                slot.taken();
                // Until `release`.
                std::mem::forget(slot);
                number
            }
            ClaimAnswer::Temporary => panic!("it is temporary"),
        }
    }

    fn release(&self) {
        assert!(self.asked.send(Asked::Released).is_ok());
    }

    async fn until(&mut self, is_right: impl FnMut(&PoolStatus) -> bool) {
        let right = self.status.wait_for(is_right);
        drop(right.await.expect("the task works"));
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }
}

fn is_exhausted(answer: Result<ClaimAnswer<usize>>) -> bool {
    answer.is_err_and(|error| error.kind() == ErrorKind::PoolExhausted)
}

#[tokio::test(start_paused = true)]
async fn claimed_items_are_replaced_and_never_handed_over_twice() {
    let mut numbers = Numbers::new(PoolSettings::new(2).most(4));
    numbers.until(|status| status.ready == 2).await;
    assert_eq!((numbers.number().await, numbers.number().await), (0, 1));
    // These wait for a start.
    assert_eq!((numbers.number().await, numbers.number().await), (2, 3));
    assert!(is_exhausted(numbers.claim().await));
    numbers.release();
    assert_eq!(numbers.number().await, 4);
    assert_eq!(numbers.started(), 5);
}

#[tokio::test(start_paused = true)]
async fn exhausted_pool_waits_as_long_as_it_is_told() {
    let wait = Exhausted::Wait(Duration::from_secs(5));
    let numbers = Numbers::new(PoolSettings::new(0).most(1).exhausted(wait));
    assert_eq!(numbers.number().await, 0);
    let start = Instant::now();
    assert!(is_exhausted(numbers.claim().await));
    assert_eq!(start.elapsed().as_secs(), 5);
    let (first, second) = (numbers.ask(), numbers.ask());
    numbers.release();
    let first = first.await.expect("the task works");
    assert!(matches!(first, Ok(ClaimAnswer::Item(1, _))), "{first:?}");
    assert!(is_exhausted(second.await.expect("the task works")));
}

#[tokio::test(start_paused = true)]
async fn exhausted_pool_allows_temporary_items() {
    let settings = PoolSettings::new(1).most(1).exhausted(Exhausted::Temporary);
    let numbers = Numbers::new(settings);
    assert_eq!(numbers.number().await, 0);
    let answer = numbers.claim().await;
    assert!(matches!(answer, Ok(ClaimAnswer::Temporary)), "{answer:?}");
    assert_eq!(numbers.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn replacement_starts_only_once_the_claim_has_its_item() {
    let mut numbers = Numbers::new(PoolSettings::new(1).most(2));
    numbers.until(|status| status.ready == 1).await;
    let Ok(ClaimAnswer::Item(0, mut slot)) = numbers.claim().await else {
        panic!("0 waits");
    };
    numbers.until(|status| status.claimed == 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(numbers.started(), 1);
    // Another claim does not wait for that.
    assert_eq!(numbers.number().await, 1);
    numbers.release();
    slot.taken();
    numbers.until(|status| status.ready == 1).await;
    assert_eq!(numbers.started(), 3);
}

#[tokio::test(start_paused = true)]
async fn item_of_a_cancelled_claim_counts_no_more() {
    let mut numbers = Numbers::new(PoolSettings::new(1).most(1));
    numbers.until(|status| status.ready == 1).await;
    let answer = numbers.ask();
    numbers.until(|status| status.claimed == 1).await;
    drop(answer);
    numbers
        .until(|status| (status.claimed, status.ready) == (0, 1))
        .await;
}

#[tokio::test(start_paused = true)]
async fn old_items_are_replaced() {
    let age = Duration::from_secs(60);
    let mut numbers = Numbers::new(PoolSettings::new(1).max_age(age));
    numbers.until(|status| status.ready == 1).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(numbers.number().await, 1);
}

#[tokio::test(start_paused = true)]
async fn failed_start_is_told_to_one_claim_and_tried_again_later() {
    let mut numbers = Numbers::new(PoolSettings::new(1));
    *numbers.time.lock().expect("no panic") = Err("no space".to_owned());
    let error = numbers.claim().await.expect_err("it fails");
    assert!(error.to_string().contains("no space"), "{error}");
    numbers.until(|status| status.failed.is_some()).await;
    let begin = numbers.started();
    tokio::time::sleep(Duration::from_secs(20)).await;
    // After 1, 2, 4 and 8 seconds, and not more often.
    let tried = numbers.started() - begin;
    assert!((2..=5).contains(&tried), "{tried}");
    *numbers.time.lock().expect("no panic") = Ok(Duration::from_millis(1));
    let expected = numbers.started();
    assert_eq!(numbers.number().await, expected);
    numbers.until(|status| status.failed.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn abandoned_claim_loses_no_item() {
    let numbers = Numbers::new(PoolSettings::new(0).most(1));
    drop(numbers.ask());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(numbers.number().await, 0);
}

#[tokio::test(start_paused = true)]
async fn closed_pool_gives_back_what_starts() {
    let mut numbers = Numbers::new(PoolSettings::new(2).most(2));
    numbers.until(|status| status.ready == 2).await;
    assert_eq!(numbers.number().await, 0);
    numbers.release();
    numbers.until(|status| status.starting == 1).await;
    let (sender, given) = oneshot::channel();
    assert!(numbers.asked.send(Asked::Close(sender)).is_ok());
    assert_eq!(given.await.expect("the task works"), [1, 2]);
}
