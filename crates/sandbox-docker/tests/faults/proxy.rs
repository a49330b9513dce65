//! A way to an engine that kills its user at a given request.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// When to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The request has come and the engine has not got it yet.
    Asked,
    /// The engine has answered and the answer was not passed on.
    Answered,
}

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
    /// Whom to kill.
    victim: AtomicU32,
    fired: AtomicBool,
    done: (Mutex<bool>, Condvar),
}

impl Proxy {
    /// Listens at `socket`. Kills at the first request with this method whose line has this part.
    pub fn start(
        engine: &Path,
        socket: &Path,
        method: &'static str,
        part: &'static str,
        when: When,
    ) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let shared = Arc::new(Shared {
            engine: engine.to_owned(),
            method,
            part,
            when,
            victim: AtomicU32::new(0),
            fired: AtomicBool::new(false),
            done: (Mutex::new(false), Condvar::new()),
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

    /// Says whom to kill.
    pub fn aim(&self, pid: u32) {
        self.shared.victim.store(pid, Ordering::SeqCst);
    }

    /// Waits until it was done.
    pub fn wait(&self) {
        let (done, changed) = &self.shared.done;
        let done = done.lock().expect("not poisoned");
        let waited = changed.wait_timeout_while(done, Duration::from_secs(30), |done| !*done);
        let (done, _) = waited.expect("not poisoned");
        assert!(
            *done,
            "there was no {} {}",
            self.shared.method, self.shared.part
        );
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
        if ours && self.when == When::Answered {
            let Ok(count @ 1..) = engine.read(&mut byte) else {
                return;
            };
            self.kill();
            // Nobody is there any more.
            let _ = client.write_all(&byte[..count]);
        }
        let _ = std::io::copy(&mut engine, &mut client);
        let _ = client.shutdown(std::net::Shutdown::Both);
    }

    fn kill(&self) {
        let victim = self.victim.load(Ordering::SeqCst);
        assert_ne!(victim, 0, "nobody was aimed at");
        let killed = Command::new("kill")
            .args(["-KILL", &victim.to_string()])
            .status();
        assert!(killed.is_ok_and(|status| status.success()));
        let (done, changed) = &self.done;
        *done.lock().expect("not poisoned") = true;
        changed.notify_all();
    }
}
