//! What goes on where nobody can wait for it: the end of what somebody has dropped.

use std::fmt;
use std::pin::Pin;
use std::sync::{LazyLock, OnceLock};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread of its own for tasks that outlive whoever starts them, and his runtime. It begins with the first of them.
pub struct Background {
    thread: &'static str,
    queue: OnceLock<Option<UnboundedSender<Task>>>,
    /// How many tasks are not over.
    under_way: LazyLock<watch::Sender<usize>>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("thread", &self.thread)
            .field("under_way", &*self.under_way.borrow())
            .finish_non_exhaustive()
    }
}

/// Counts as under way for as long as it lives: see [`Background::hold`].
#[derive(Debug)]
pub struct UnderWay(&'static Background);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

impl Background {
    /// The thread will have this name, of 15 characters at most.
    #[must_use]
    pub const fn new(thread: &'static str) -> Self {
        Self {
            thread,
            queue: OnceLock::new(),
            under_way: LazyLock::new(|| watch::channel(0).0),
        }
    }

    /// Starts a task and returns; it needs no runtime here. False where the system gives no thread: then it is dropped.
    #[must_use]
    pub fn start(&'static self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let under_way = self.hold();
        let task: Task = Box::pin(async move {
            task.await;
            drop(under_way);
        });
        let queue = self.queue.get_or_init(|| begin(self.thread)).as_ref();
        queue.is_some_and(|queue| queue.send(task).is_ok())
    }

    /// Has [`Background::settled`] wait for what goes on elsewhere, and may yet start a task.
    #[must_use]
    pub fn hold(&'static self) -> UnderWay {
        self.under_way.send_modify(|count| *count += 1);
        UnderWay(self)
    }

    /// Waits until nothing is under way.
    pub async fn settled(&self) {
        // The sender is never dropped.
        let _ = self
            .under_way
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }
}

fn begin(thread: &'static str) -> Option<UnboundedSender<Task>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime
        .inspect_err(|error| tracing::error!(%error, thread, "no runtime for a thread"))
        .ok()?;
    let (queue, mut tasks) = unbounded_channel::<Task>();
    std::thread::Builder::new()
        .name(thread.to_owned())
        .spawn(move || {
            runtime.block_on(async {
                while let Some(task) = tasks.recv().await {
                    tokio::spawn(task);
                }
            });
        })
        .inspect_err(|error| tracing::error!(%error, thread, "no thread"))
        .ok()?;
    Some(queue)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn tasks_go_on_beside_each_other_and_are_waited_for() {
        static BACKGROUND: Background = Background::new("test-background");
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let settled = timeout(LONG, BACKGROUND.settled());
        settled.await.expect("nothing is under way");
        // Started where there is no runtime.
        let begun = std::thread::spawn(|| {
            (0..3).all(|_| {
                BACKGROUND.start(async {
                    sleep(Duration::from_millis(100)).await;
                    DONE.fetch_add(1, Ordering::SeqCst);
                })
            })
        });
        assert!(begun.join().expect("no panic"));
        assert!(DONE.load(Ordering::SeqCst) < 3);
        let settled = timeout(LONG, BACKGROUND.settled());
        settled.await.expect("they end");
        assert_eq!(DONE.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn what_may_yet_start_one_is_waited_for() {
        static BACKGROUND: Background = Background::new("test-background");
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let held = BACKGROUND.hold();
        let waited = timeout(Duration::from_millis(50), BACKGROUND.settled());
        assert!(waited.await.is_err());
        let work = async {
            DONE.fetch_add(1, Ordering::SeqCst);
        };
        assert!(BACKGROUND.start(work));
        drop(held);
        let settled = timeout(LONG, BACKGROUND.settled());
        settled.await.expect("it ends");
        assert_eq!(DONE.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_end() {
        static BACKGROUND: Background = Background::new("test-background");
        assert!(BACKGROUND.start(async { panic!("on purpose") }));
        let settled = timeout(LONG, BACKGROUND.settled());
        settled.await.expect("it is over");
    }
}
