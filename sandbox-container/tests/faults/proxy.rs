//! A way to an engine that ends its user, or the engine, at a given request.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::processes::{Signal, send};

/// When to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The request has come and the engine has not got it yet.
    Asked,
    /// The engine has answered and the answer was not passed on.
    Answered,
}

/// A request: its method, a part of its line, and before or after what it asks for.
pub type Moment = (&'static str, &'static str, When);

/// How long somebody may take to be aimed at, to ask, or to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy in front of an engine.
pub struct Proxy {
    shared: Arc<Shared>,
    socket: PathBuf,
}

struct Shared {
    engine: PathBuf,
    /// The request that ends it all: how it begins.
    method: &'static str,
    part: &'static str,
    when: When,
    /// Who is sent what.
    victims: Mutex<(Vec<u32>, Signal)>,
    fired: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Waiting,
    Aimed,
    Sent,
    /// The engine has answered the request, or will not any more.
    Answered,
}

impl Proxy {
    /// Listens at `socket`. Does it at the first request with this method whose line has this part.
    pub fn start(engine: &Path, socket: &Path, (method, part, when): Moment) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let shared = Arc::new(Shared {
            engine: engine.to_owned(),
            method,
            part,
            when,
            victims: Mutex::new((Vec::new(), Signal::Kill)),
            fired: AtomicBool::new(false),
            progress: Mutex::new(Progress::Waiting),
            changed: Condvar::new(),
        });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.carry(client));
            }
        });
        Self {
            shared,
            socket: socket.to_owned(),
        }
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Says who is sent what. A request that comes before waits for it.
    pub fn aim(&self, victims: Vec<u32>, signal: Signal) {
        *self.shared.victims.lock().expect("not poisoned") = (victims, signal);
        self.shared.reach(Progress::Aimed);
    }

    /// Waits until it was done.
    pub fn wait(&self) {
        self.shared.wait(Progress::Sent);
    }

    /// Waits until the engine has answered that request, so that whatever it makes is made.
    pub fn wait_answered(&self) {
        self.shared.wait(Progress::Answered);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The thread that listens stays until the test program ends.
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Shared {
    fn carry(self: Arc<Self>, mut client: UnixStream) {
        let Ok(mut engine) = UnixStream::connect(&self.engine) else {
            return;
        };
        let mut head = Vec::new();
        let mut byte = [0; 4096];
        while !head.contains(&b'\n') {
            match client.read(&mut byte) {
                Ok(count @ 1..) => head.extend_from_slice(&byte[..count]),
                _ => return,
            }
        }
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let ours = line.starts_with(self.method)
            && line.contains(self.part)
            && !self.fired.swap(true, Ordering::SeqCst);
        if ours && self.when == When::Asked {
            self.kill();
        }
        if engine.write_all(&head).is_err() {
            return;
        }
        let (mut from, mut to) = match (client.try_clone(), engine.try_clone()) {
            (Ok(from), Ok(to)) => (from, to),
            _ => return,
        };
        std::thread::spawn(move || {
            // Either side may break it.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
        if ours {
            let answer = engine.read(&mut byte);
            if self.when == When::Answered {
                let Ok(1..) = answer else { return };
                self.kill();
            }
            self.reach(Progress::Answered);
            if let Ok(count) = answer {
                // Nobody is there any more.
                let _ = client.write_all(&byte[..count]);
            }
        }
        let _ = std::io::copy(&mut engine, &mut client);
        let _ = client.shutdown(std::net::Shutdown::Both);
    }

    fn kill(&self) {
        self.wait(Progress::Aimed);
        let (victims, signal) = self.victims.lock().expect("not poisoned").clone();
        for victim in victims {
            send(victim, signal);
        }
        self.reach(Progress::Sent);
    }

    fn reach(&self, progress: Progress) {
        *self.progress.lock().expect("not poisoned") = progress;
        self.changed.notify_all();
    }

    fn wait(&self, wanted: Progress) {
        let progress = self.progress.lock().expect("not poisoned");
        let waited = self
            .changed
            .wait_timeout_while(progress, PATIENCE, |progress| *progress < wanted);
        let (progress, _) = waited.expect("not poisoned");
        assert!(
            *progress >= wanted,
            "{} {} is {progress:?}, not {wanted:?}",
            self.method,
            self.part
        );
    }
}
