//! The thread that starts agents. The death signal is sent when the parent *thread* ends, and a
//! runtime's threads come and go; this thread lives as long as the process.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use sandbox_host::WorkerThread;
use tokio::sync::oneshot;

use super::Launch;
use super::launch::SpawnTools;
use crate::cleanup::Leftovers;

enum Job {
    Start {
        launch: Box<Launch>,
        leftovers: Leftovers,
        answer: oneshot::Sender<io::Result<Leftovers>>,
    },
    Run(Box<dyn FnOnce() + Send>),
}

/// An agent that is being started.
#[derive(Debug)]
pub(crate) struct PendingAgent(oneshot::Receiver<io::Result<Leftovers>>);

/// Starts the agent in the groups of `leftovers`. On failure, or if the result is dropped, ends the
/// process and removes what `leftovers` holds.
pub(crate) fn begin_start(launch: Launch, leftovers: Leftovers) -> io::Result<PendingAgent> {
    let (answer, started) = oneshot::channel();
    send(Job::Start {
        launch: Box::new(launch),
        leftovers,
        answer,
    })?;
    Ok(PendingAgent(started))
}

/// Runs `work` on the spawner thread, which also prepares what every start needs. The returned
/// closure waits for the result. Without a spawner thread it runs `work` itself.
pub(crate) fn run_ahead<T: Send + 'static>(
    work: impl FnOnce() -> T + Clone + Send + 'static,
) -> impl FnOnce() -> T {
    let (answer, done) = channel();
    let errand = work.clone();
    // The receiver says whether it was done.
    let sent = send(Job::Run(Box::new(move || drop(answer.send(errand())))));
    move || match sent.ok().and_then(|()| done.recv().ok()) {
        Some(result) => result,
        None => work(),
    }
}

/// Runs `work` on the spawner thread. The returned closure waits for the result.
pub(crate) fn run_on_spawner<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl FnOnce() -> io::Result<T> {
    let (answer, done) = channel();
    // The receiver says whether it was done.
    let sent = send(Job::Run(Box::new(move || drop(answer.send(work())))));
    move || {
        sent?;
        let ended = || io::Error::other("the thread that starts agents has ended");
        done.recv().map_err(|_| ended())
    }
}

impl PendingAgent {
    /// Waits until the agent executes. Returns `leftovers` with its process.
    pub(crate) async fn wait(self) -> io::Result<Leftovers> {
        self.0
            .await
            .map_err(|_| io::Error::other("the thread that starts agents has ended"))?
    }
}

fn send(job: Job) -> io::Result<()> {
    static SPAWNER: WorkerThread<Sender<Job>> = WorkerThread::new("sandbox-spawner");
    let spawner = SPAWNER.handle(|| {
        let (sender, jobs) = channel();
        Ok((sender, move || work(&jobs)))
    })?;
    spawner
        .send(job)
        .map_err(|_| io::Error::other("the thread that starts agents has ended"))
}

fn work(jobs: &Receiver<Job>) {
    let mut tools = None;
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Start {
                launch,
                mut leftovers,
                answer,
            } => {
                let child = SpawnTools::of(&mut tools)
                    .and_then(|tools| launch.run(tools, leftovers.group()));
                let started = child.map(|child| {
                    leftovers.set_agent(child);
                    leftovers
                });
                // If the caller has gone, dropping the result ends and removes the sandbox.
                drop(answer.send(started));
            }
            Job::Run(work) => {
                work();
                // A failure here is reported when something is started.
                let _ = SpawnTools::of(&mut tools);
            }
        }
    }
}
