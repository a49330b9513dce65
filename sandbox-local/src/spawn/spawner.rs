//! The thread that starts agents. The death signal is sent when the parent *thread* ends, and a
//! runtime's threads come and go; this thread lives as long as the process.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::Launch;
use super::launch::Tools;
use crate::remains::Remains;

enum Job {
    Start {
        launch: Box<Launch>,
        remains: Remains,
        answer: oneshot::Sender<io::Result<Remains>>,
    },
    Errand(Box<dyn FnOnce() + Send>),
}

/// An agent that is being started.
#[derive(Debug)]
pub(crate) struct Started(oneshot::Receiver<io::Result<Remains>>);

/// Starts the agent in the groups of `leftovers`. On failure, or if the result is dropped, ends the
/// process and removes what `leftovers` holds.
pub(crate) fn begin(launch: Launch, remains: Remains) -> io::Result<Started> {
    let (answer, started) = oneshot::channel();
    send(Job::Start {
        launch: Box::new(launch),
        remains,
        answer,
    })?;
    Ok(Started(started))
}

/// Runs `work` on the spawner thread, which also prepares what every start needs. The returned
/// closure waits for the result. Without a spawner thread it runs `work` itself.
pub(crate) fn ahead<T: Send + 'static>(
    work: impl FnOnce() -> T + Clone + Send + 'static,
) -> impl FnOnce() -> T {
    let (answer, done) = channel();
    let errand = work.clone();
    // The receiver says whether it was done.
    let sent = send(Job::Errand(Box::new(move || drop(answer.send(errand())))));
    move || match sent.ok().and_then(|()| done.recv().ok()) {
        Some(result) => result,
        None => work(),
    }
}

/// Runs `work` on the spawner thread. The returned closure waits for the result.
pub(crate) fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl FnOnce() -> io::Result<T> {
    let (answer, done) = channel();
    // The receiver says whether it was done.
    let sent = send(Job::Errand(Box::new(move || drop(answer.send(work())))));
    move || {
        sent?;
        let ended = || io::Error::other("the thread that starts agents has ended");
        done.recv().map_err(|_| ended())
    }
}

impl Started {
    /// Waits until the agent executes. Returns `leftovers` with its process.
    pub(crate) async fn wait(self) -> io::Result<Remains> {
        self.0
            .await
            .map_err(|_| io::Error::other("the thread that starts agents has ended"))?
    }
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
    sender
        .send(job)
        .map_err(|_| io::Error::other("the thread that starts agents has ended"))
}

fn work(jobs: &Receiver<Job>) {
    let mut tools = None;
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Start {
                launch,
                mut remains,
                answer,
            } => {
                let child =
                    Tools::of(&mut tools).and_then(|tools| launch.run(tools, remains.group()));
                let started = child.map(|child| {
                    remains.set_child(child);
                    remains
                });
                // If the caller has gone, dropping the result ends and removes the sandbox.
                drop(answer.send(started));
            }
            Job::Errand(work) => {
                work();
                // A failure here is reported when something is started.
                let _ = Tools::of(&mut tools);
            }
        }
    }
}
