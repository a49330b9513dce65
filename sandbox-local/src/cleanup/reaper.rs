//! The thread that removes dropped sandboxes.

use std::sync::mpsc::{Sender, channel};

use sandbox_host::WorkerThread;

use super::Leftovers;

/// Ends and removes in the background. Logs what could not be removed.
pub(super) fn destroy_in_background(leftovers: Leftovers) {
    static REAPER: WorkerThread<Sender<Leftovers>> = WorkerThread::new("sandbox-reaper");
    let reaper = REAPER.handle(|| {
        let (sender, queue) = channel();
        Ok((sender, move || queue.into_iter().for_each(destroy)))
    });
    let unsent = match reaper {
        Ok(reaper) => reaper.send(leftovers).err().map(|unsent| unsent.0),
        Err(_) => Some(leftovers),
    };
    if let Some(leftovers) = unsent {
        destroy(leftovers);
    }
}

fn destroy(mut leftovers: Leftovers) {
    if let Err(left) = leftovers.destroy() {
        tracing::error!(%left, "a sandbox was dropped and could not be removed");
        // Do not drop, which would try again. What did not end in time is left to the kernel and to
        // the next sweep.
        std::mem::forget(leftovers);
    }
}
