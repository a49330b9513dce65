//! The thread that starts agents. The kernel kills a process that is tied to its parent when the parent's *thread* ends, and the
//! threads of a runtime come and go: this one stays as long as the process.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::Launch;
use crate::remains::Remains;

struct Job {
    launch: Launch,
    remains: Remains,
    answer: oneshot::Sender<io::Result<Remains>>,
}

/// Starts the agent in the groups of `remains`, and gives them back with the process in them. When this fails, or the future
/// is dropped, what `remains` holds is removed, the process ended first.
pub(crate) async fn spawn(launch: Launch, remains: Remains) -> io::Result<Remains> {
    let (answer, started) = oneshot::channel();
    send(Job { launch, remains, answer })?;
    started.await.map_err(|_| io::Error::other("the thread that starts agents has ended"))?
}

fn send(job: Job) -> io::Result<()> {
    static SPAWNER: Mutex<Option<(u32, Sender<Job>)>> = Mutex::new(None);
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    // The thread does not exist in a fork of the process that started it.
    let sender = match &*spawner {
        Some((owner, sender)) if *owner == pid => sender.clone(),
        _ => {
            let (sender, jobs) = channel();
            std::thread::Builder::new()
                .name("sandbox-spawner".into())
                .spawn(move || work(&jobs))?;
            *spawner = Some((pid, sender.clone()));
            sender
        }
    };
    sender.send(job).map_err(|_| io::Error::other("the thread that starts agents has ended"))
}

fn work(jobs: &Receiver<Job>) {
    while let Ok(Job { launch, mut remains, answer }) = jobs.recv() {
        let started = launch.run(remains.group()).map(|child| {
            remains.set_child(child);
            remains
        });
        // Nobody waits any more: dropping what is in there ends and removes it.
        drop(answer.send(started));
    }
}
