//! The thread that starts agents. The kernel kills a process that is tied to its parent when the parent's *thread* ends, and the
//! threads of a runtime come and go: this one stays as long as the process.

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

/// Starts the agent in the groups of `remains`. When this fails, or the answer is not waited for, what `remains` holds is
/// removed, the process ended first.
pub(crate) fn begin(launch: Launch, remains: Remains) -> io::Result<Started> {
    let (answer, started) = oneshot::channel();
    send(Job::Start {
        launch: Box::new(launch),
        remains,
        answer,
    })?;
    Ok(Started(started))
}

/// Does `work` on the thread that starts agents, which also makes what every start needs; the caller goes on meanwhile. Where
/// there is no such thread, it is done at once.
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

/// Does `work` on the thread that starts agents, and nowhere else; the caller goes on meanwhile.
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
    /// Gives `remains` back with the process in it, once it executes the agent.
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
                // Nobody waits any more: dropping what is in there ends and removes it.
                drop(answer.send(started));
            }
            Job::Errand(work) => {
                work();
                // What fails here fails again, and is said, when something is started.
                let _ = Tools::of(&mut tools);
            }
        }
    }
}
