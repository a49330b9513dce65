//! Locks and threads that survive panics and forks.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a thread panicked while it held the lock.
///
/// Use it where every critical section leaves the data consistent at each point where it can panic.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that each process creates for itself: a forked child does not use its parent's.
pub struct PerProcess<T>(Mutex<Option<(u32, T)>>);

impl<T: Clone> PerProcess<T> {
    /// A value that is not created yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// This process' value; calls `create` if there is none.
    ///
    /// # Errors
    ///
    /// What `create` returns. The next call tries again.
    pub fn get_or_try_create<E>(&self, create: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let pid = std::process::id();
        let mut slot = lock(&self.0);
        if let Some((creator, value)) = &*slot
            && *creator == pid
        {
            return Ok(value.clone());
        }
        let value = create()?;
        // The parent's value is leaked: dropping it could wait for threads that are not here.
        std::mem::forget(slot.replace((pid, value.clone())));
        Ok(value)
    }

    /// This process' value; calls `create` if there is none.
    pub fn get_or_create(&self, create: impl FnOnce() -> T) -> T {
        match self.get_or_try_create(|| Ok::<_, std::convert::Infallible>(create())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }
}

impl<T: Clone> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

/// A background thread that starts on first use and then runs as long as the process.
///
/// `H` is the handle through which the process talks to it, such as a sender of jobs. A forked
/// child starts its own thread.
#[derive(Debug)]
pub struct WorkerThread<H> {
    name: &'static str,
    handle: PerProcess<H>,
}

impl<H: Clone> WorkerThread<H> {
    /// The thread will have this name, of at most 15 characters.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            handle: PerProcess::new(),
        }
    }

    /// The handle of the thread. Starts the thread on the first call in this process: `prepare`
    /// returns the handle and the thread's work.
    ///
    /// # Errors
    ///
    /// If `prepare` fails or the system creates no thread. The next call tries again.
    pub fn handle<W: FnOnce() + Send + 'static>(
        &self,
        prepare: impl FnOnce() -> io::Result<(H, W)>,
    ) -> io::Result<H> {
        self.handle.get_or_try_create(|| {
            let (handle, work) = prepare()?;
            std::thread::Builder::new()
                .name(self.name.to_owned())
                .spawn(work)?;
            Ok(handle)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    #[test]
    fn poisoned_lock_is_recovered() {
        let mutex = Mutex::new(1);
        std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _guard = mutex.lock().expect("not poisoned yet");
                panic!("on purpose");
            });
            assert!(panicking.join().is_err());
        });
        assert_eq!(*lock(&mutex), 1);
    }

    #[test]
    fn value_of_another_process_is_replaced() {
        let value = PerProcess(Mutex::new(Some((0, "parent"))));
        assert_eq!(value.get_or_try_create(|| Err("failed")), Err("failed"));
        assert_eq!(value.get_or_create(|| "child"), "child");
        assert_eq!(value.get_or_create(|| "again"), "child");
    }

    #[test]
    fn thread_starts_once_and_a_failed_start_is_retried() {
        static THREAD: WorkerThread<Sender<Sender<&str>>> = WorkerThread::new("test-worker");
        let refused = THREAD.handle::<fn()>(|| Err(io::ErrorKind::Other.into()));
        assert!(refused.is_err());
        let start = || {
            let (jobs, queue) = channel::<Sender<&str>>();
            let work = move || {
                while let Ok(job) = queue.recv() {
                    job.send("done").expect("the test waits");
                }
            };
            Ok((jobs, work))
        };
        for _ in 0..2 {
            let (reply, result) = channel();
            let jobs = THREAD.handle(start).expect("a thread");
            jobs.send(reply).expect("the thread runs");
            assert_eq!(result.recv(), Ok("done"));
        }
    }
}
