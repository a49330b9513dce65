//! Async tasks that run after the code that started them has returned, such as removals on drop.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use sandbox_core::{ErrorKind, Result};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::sync::{PerProcess, WorkerThread};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A thread with a runtime for tasks that outlive the runtime of their creator. The thread starts
/// with the first task. A forked child has its own thread and none of its parent's tasks.
pub struct Background {
    thread_name: &'static str,
    thread: WorkerThread<UnboundedSender<Task>>,
    /// The number of unfinished tasks and of values of [`PendingTask`].
    under_way: PerProcess<watch::Sender<usize>>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("thread", &self.thread_name)
            .field("under_way", &*self.under_way().borrow())
            .finish_non_exhaustive()
    }
}

/// Counts as an unfinished task while it lives: see [`Background::hold`].
#[derive(Debug)]
pub struct PendingTask(watch::Sender<usize>);

impl Drop for PendingTask {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Background {
    /// The thread will have this name, of at most 15 characters.
    #[must_use]
    pub const fn new(thread_name: &'static str) -> Self {
        Self {
            thread_name,
            thread: WorkerThread::new(thread_name),
            under_way: PerProcess::new(),
        }
    }

    /// Starts a task. The caller needs no runtime. Returns false, and drops the task, if the system
    /// creates no thread.
    #[must_use]
    pub fn start(&'static self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let under_way = self.hold();
        let task: Task = Box::pin(async move {
            task.await;
            drop(under_way);
        });
        match self.thread.handle(prepare) {
            Ok(queue) => queue.send(task).is_ok(),
            Err(error) => {
                tracing::error!(%error, thread = self.thread_name, "a thread could not start");
                false
            }
        }
    }

    /// Makes [`Background::settled`] wait until the returned value is dropped. For work elsewhere
    /// that may still start a task.
    #[must_use]
    pub fn hold(&'static self) -> PendingTask {
        let under_way = self.under_way();
        under_way.send_modify(|count| *count += 1);
        PendingTask(under_way)
    }

    /// Waits until all tasks of this process have finished.
    pub async fn settled(&self) {
        // The sender is never dropped.
        let _ = self
            .under_way()
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }

    fn under_way(&self) -> watch::Sender<usize> {
        self.under_way.get_or_create(|| watch::channel(0).0)
    }
}

/// Repeats an action for up to a minute while its engine is unavailable.
///
/// ```
/// use std::time::Duration;
/// use sandbox_host::Retries;
///
/// # async fn remove() -> sandbox_core::Result<()> { Ok(()) }
/// # async fn example() -> sandbox_core::Result<()> {
/// let mut retries = Retries::new([Duration::from_millis(100), Duration::from_secs(1)]);
/// let mut removed = remove().await;
/// while retries.wait_after(&removed).await {
///     removed = remove().await;
/// }
/// removed
/// # }
/// ```
#[derive(Debug)]
pub struct Retries {
    deadline: Instant,
    pause: Duration,
    longest: Duration,
}

impl Retries {
    /// Starts the minute. The pause between two attempts doubles from the first to the longest of
    /// `pauses`.
    #[must_use]
    pub fn new([pause, longest]: [Duration; 2]) -> Self {
        Self {
            deadline: Instant::now() + Duration::from_secs(60),
            pause,
            longest,
        }
    }

    /// Waits, and returns true, if the action is to be repeated after this result: it failed with
    /// `SandboxUnavailable`, and the minute is not over.
    pub async fn wait_after(&mut self, result: &Result<()>) -> bool {
        let is_unavailable = result
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::SandboxUnavailable);
        if !is_unavailable || Instant::now() >= self.deadline {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (2 * self.pause).min(self.longest);
        true
    }
}

fn prepare() -> io::Result<(UnboundedSender<Task>, impl FnOnce() + Send + 'static)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (queue, mut tasks) = unbounded_channel::<Task>();
    let work = move || {
        runtime.block_on(async {
            while let Some(task) = tasks.recv().await {
                tokio::spawn(task);
            }
        });
    };
    Ok((queue, work))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sandbox_core::Error;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn concurrent_tasks_are_waited_for() {
        static BACKGROUND: Background = Background::new("test-background");
        static DONE: AtomicUsize = AtomicUsize::new(0);
        let settled = timeout(LONG, BACKGROUND.settled());
        settled.await.expect("nothing is under way");
        // Called from a thread without a runtime.
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
    async fn held_work_is_waited_for() {
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

    #[tokio::test(start_paused = true)]
    async fn only_an_unavailable_engine_is_retried() {
        let pauses = [Duration::from_secs(1), Duration::from_secs(4)];
        for (kind, attempts) in [(ErrorKind::Io, 1), (ErrorKind::SandboxUnavailable, 18)] {
            let failed = Err(Error::new(kind, "remove", "a test"));
            let mut retries = Retries::new(pauses);
            let mut count = 1;
            while retries.wait_after(&failed).await {
                count += 1;
            }
            assert_eq!(count, attempts);
        }
    }

    #[tokio::test]
    async fn panicking_task_counts_as_finished() {
        static BACKGROUND: Background = Background::new("test-background");
        assert!(BACKGROUND.start(async { panic!("on purpose") }));
        let settled = timeout(LONG, BACKGROUND.settled());
        settled.await.expect("it is over");
    }
}
