//! How many jobs run at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Lets a number of callers in at the same time, in the order in which they ask.
#[derive(Debug)]
pub struct Permits {
    count: usize,
    /// How many callers have asked, and how many are done.
    callers: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Permits {
    /// Lets in `count` callers at the same time.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            callers: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for its turn, and calls `act`.
    pub fn hold<T>(&self, act: impl FnOnce() -> T) -> T {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let own = callers.0;
        callers.0 += 1;
        let waits = |(_, done): &mut (usize, usize)| own >= *done + self.count;
        let turn = self.changed.wait_while(callers, waits);
        drop(turn.unwrap_or_else(PoisonError::into_inner));
        let result = act();
        self.callers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1 += 1;
        self.changed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_than_the_count_run_at_the_same_time() {
        let (permits, running, most) = (Permits::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    permits.hold(|| {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(20));
                        running.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
    }
}
