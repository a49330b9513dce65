//! The thread that removes dropped sandboxes.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use super::Leftovers;

/// Ends and removes in the background. Logs what could not be removed.
pub(super) fn destroy_in_background(leftovers: Leftovers) {
    static REAPER: Mutex<Option<(u32, Sender<Leftovers>)>> = Mutex::new(None);
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    // The thread does not exist in a fork of the process that started it.
    if reaper.as_ref().is_none_or(|(owner, _)| *owner != pid) {
        let (sender, queue) = channel::<Leftovers>();
        let started = std::thread::Builder::new()
            .name("sandbox-reaper".into())
            .spawn(move || {
                while let Ok(leftovers) = queue.recv() {
                    destroy(leftovers);
                }
            });
        if started.is_err() {
            drop(reaper);
            return destroy(leftovers);
        }
        *reaper = Some((pid, sender));
    }
    let unsent = match &*reaper {
        Some((_, sender)) => sender.send(leftovers).err().map(|unsent| unsent.0),
        None => Some(leftovers),
    };
    drop(reaper);
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
