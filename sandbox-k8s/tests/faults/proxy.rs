//! A way to the API server that kills its user at a given request. TLS ends behind it, in `kubectl proxy`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::cluster;

/// When to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The request has come and the server has not got it yet.
    Asked,
    /// The server has answered and the answer was not passed on.
    Answered,
}

/// A request: its method, a part of its line, and before or after what it asks for.
pub type Moment = (&'static str, &'static str, When);

/// `kubectl proxy`: the API without TLS and without a question who asks, on this machine. Dropping it ends it.
pub struct Plain {
    child: Child,
    port: u16,
}

impl Plain {
    pub fn start() -> Self {
        let described = cluster::api_server().expect("looked at before");
        let program = described["program"].as_str().expect("a program");
        let mut child = Command::new(Path::new(program).with_file_name("kubectl"))
            // Executions are refused by default.
            .args(["proxy", "--port=0", "--disable-filter=true"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl");
        let said = BufReader::new(child.stdout.take().expect("its output"));
        let line = said.lines().next().expect("a line").expect("text");
        let port = line.rsplit(':').next().and_then(|port| port.parse().ok());
        Self {
            child,
            port: port.unwrap_or_else(|| panic!("no port: {line}")),
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A proxy in front of that.
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    server: u16,
    moment: Moment,
    fired: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// How far it is.
#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    victim: Option<u32>,
    killed: bool,
    /// The server has answered the request, or will not any more.
    answered: bool,
}

/// How long somebody may take to be aimed at, to ask, or to answer.
const PATIENCE: Duration = Duration::from_secs(120);

impl Proxy {
    /// Kills at the first request with this method whose line has this part.
    pub fn start(server: &Plain, moment: Moment) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            server: server.port,
            moment,
            fired: AtomicBool::new(false),
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        let serving = shared.clone();
        // It listens until the test program ends.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.carry(client));
            }
        });
        Self { shared, port }
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Says who is killed. A request that comes before waits for it.
    pub fn aim(&self, victim: u32) {
        self.shared
            .advance(|progress| progress.victim = Some(victim));
    }

    /// Waits until it was done and the server has answered that request, so that whatever it makes is made.
    pub fn wait(&self) {
        let done = |progress: &Progress| progress.killed && progress.answered;
        self.shared.wait(done);
    }
}

impl Shared {
    fn carry(self: Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.server)) else {
            return;
        };
        let clones = (client.try_clone(), server.try_clone());
        let (Ok(from_client), Ok(to_server)) = clones else {
            return;
        };
        // Whether the next that the server says is the answer.
        let answering = Arc::new(AtomicBool::new(false));
        let (shared, asked) = (self.clone(), answering.clone());
        std::thread::spawn(move || shared.requests(from_client, to_server, &asked));
        self.answers(server, client, &answering);
    }

    /// A connection carries one request after the other, and each begins what is read.
    fn requests(&self, mut client: TcpStream, mut server: TcpStream, answering: &AtomicBool) {
        let mut bytes = [0; 64 << 10];
        let mut ours = false;
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            if self.is_ours(&bytes[..count]) && !self.fired.swap(true, Ordering::SeqCst) {
                if self.moment.2 == When::Asked {
                    self.kill();
                }
                answering.store(true, Ordering::SeqCst);
                ours = true;
            }
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        if ours {
            // `kubectl proxy` would drop what it has passed on already, and nobody would know what became of it.
            self.wait(|progress| progress.answered);
        }
        // Either side may break it.
        let _ = server.shutdown(Shutdown::Write);
    }

    fn is_ours(&self, bytes: &[u8]) -> bool {
        let line = bytes
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let (method, part, _) = self.moment;
        line.strip_prefix(method)
            .and_then(|rest| rest.strip_prefix(' '))
            .is_some_and(|path| path.ends_with(" HTTP/1.1") && path.contains(part))
    }

    fn answers(&self, mut server: TcpStream, mut client: TcpStream, answering: &AtomicBool) {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            if answering.swap(false, Ordering::SeqCst) {
                if self.moment.2 == When::Answered {
                    self.kill();
                }
                self.advance(|progress| progress.answered = true);
            }
            // A client that was killed takes no answer, and one is waited for all the same.
            if client.write_all(&bytes[..count]).is_err() && !answering.load(Ordering::SeqCst) {
                break;
            }
        }
        if answering.load(Ordering::SeqCst) {
            self.advance(|progress| progress.answered = true);
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    fn kill(&self) {
        let aimed = self.wait(|progress| progress.victim.is_some());
        let pid = aimed.victim.expect("waited for");
        let mut kill = Command::new("kill");
        let status = kill.args(["-KILL", &pid.to_string()]).status();
        let status = status.expect("kill");
        assert!(status.success(), "{status}");
        self.advance(|progress| progress.killed = true);
    }

    fn advance(&self, step: impl FnOnce(&mut Progress)) {
        step(&mut self.progress.lock().expect("not poisoned"));
        self.changed.notify_all();
    }

    fn wait(&self, reached: impl Fn(&Progress) -> bool) -> Progress {
        let progress = self.progress.lock().expect("not poisoned");
        let waited = self
            .changed
            .wait_timeout_while(progress, PATIENCE, |progress| !reached(progress));
        let (progress, _) = waited.expect("not poisoned");
        assert!(reached(&progress), "{:?}: {progress:?}", self.moment);
        *progress
    }
}
