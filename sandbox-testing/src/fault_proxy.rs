//! An HTTP proxy that signals processes at one chosen request: the client, to test what it leaves,
//! or the server.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::processes::{Signal, send};

/// The longest wait for the breakpoint and its response. It includes all requests of a client
/// before: the creation, use and removal of a sandbox, on an engine that other tests keep busy.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A point in the exchange of requests at which the proxy sends the signal.
#[derive(Debug, Clone, Copy)]
pub struct Breakpoint {
    /// The request's method.
    pub method: &'static str,
    /// A part of the request's path and query.
    pub path: &'static str,
    /// On which side of the request.
    pub side: BreakpointSide,
}

/// Whether a breakpoint is before or after its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakpointSide {
    /// The proxy has the request, the server does not.
    Before,
    /// The proxy has the response, the client does not.
    After,
}

/// The point before the server gets the first such request.
pub const fn before(method: &'static str, path: &'static str) -> Breakpoint {
    Breakpoint {
        method,
        path,
        side: BreakpointSide::Before,
    }
}

/// The point before the client gets the response to the first such request.
pub const fn after(method: &'static str, path: &'static str) -> Breakpoint {
    Breakpoint {
        method,
        path,
        side: BreakpointSide::After,
    }
}

/// A running proxy. It accepts clients until the test program ends.
pub struct FaultProxy {
    state: Arc<ProxyState>,
    address: String,
    socket: Option<PathBuf>,
}

struct ProxyState {
    connect: Box<dyn Fn() -> io::Result<ProxyStream> + Send + Sync>,
    breakpoint: Breakpoint,
    /// Whether the server's connection stays open until the response, even if the client closes its
    /// own.
    awaits_response: bool,
    reached: AtomicBool,
    progress: Mutex<FaultProgress>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone)]
struct FaultProgress {
    target: Option<(Vec<u32>, Signal)>,
    signaled: bool,
    /// The server has answered the request, or has closed the connection.
    answered: bool,
}

impl FaultProxy {
    /// Listens on a Unix socket, in front of the server on another one.
    ///
    /// The server sees at once that a client closes its connection, as it would without a proxy.
    ///
    /// # Panics
    ///
    /// If it cannot listen on `socket`.
    pub fn unix(server: &Path, socket: &Path, breakpoint: Breakpoint) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let server = server.to_owned();
        let state = ProxyState::new(breakpoint, false, move || {
            UnixStream::connect(&server).map(ProxyStream::Unix)
        });
        let accept = move || {
            listener
                .accept()
                .map(|(stream, _)| ProxyStream::Unix(stream))
        };
        state.clone().serve(accept);
        Self {
            state,
            address: format!("unix://{}", socket.display()),
            socket: Some(socket.to_owned()),
        }
    }

    /// Listens on a free TCP port of loopback, in front of the server on another one.
    ///
    /// The server's connection stays open until it has answered the request of the breakpoint.
    /// `kubectl proxy` would otherwise cancel a request that it has passed on.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn tcp(server_port: u16, breakpoint: Breakpoint) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = ProxyState::new(breakpoint, true, move || {
            TcpStream::connect(("127.0.0.1", server_port)).map(ProxyStream::Tcp)
        });
        let accept = move || {
            listener
                .accept()
                .map(|(stream, _)| ProxyStream::Tcp(stream))
        };
        state.clone().serve(accept);
        Self {
            state,
            address: format!("http://127.0.0.1:{port}"),
            socket: None,
        }
    }

    /// The address for clients.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets the processes that get the signal. A request at the breakpoint waits for this call.
    pub fn aim(&self, pids: Vec<u32>, signal: Signal) {
        self.state
            .advance(|progress| progress.target = Some((pids, signal)));
    }

    /// Waits until the signal was sent.
    ///
    /// # Panics
    ///
    /// If that takes longer than two minutes, with all requests before.
    pub fn wait_signaled(&self) {
        self.state.wait(|progress| progress.signaled);
    }

    /// Waits until the signal was sent and the server has answered, so that whatever the request
    /// makes exists.
    ///
    /// # Panics
    ///
    /// If that takes longer than two minutes, with all requests before.
    pub fn wait_answered(&self) {
        self.state
            .wait(|progress| progress.signaled && progress.answered);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            // The test may have removed it with its folder.
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl ProxyState {
    fn new(
        breakpoint: Breakpoint,
        awaits_response: bool,
        connect: impl Fn() -> io::Result<ProxyStream> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            connect: Box::new(connect),
            breakpoint,
            awaits_response,
            reached: AtomicBool::new(false),
            progress: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn serve(self: Arc<Self>, accept: impl Fn() -> io::Result<ProxyStream> + Send + 'static) {
        thread::spawn(move || {
            loop {
                // A client may have closed its connection before it was accepted.
                let Ok(client) = accept() else { continue };
                let state = self.clone();
                thread::spawn(move || state.forward(client));
            }
        });
    }

    fn forward(self: Arc<Self>, client: ProxyStream) {
        let Ok(server) = (self.connect)() else {
            return;
        };
        let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        // Whether the server's next bytes are the response to the request at the breakpoint.
        let awaiting = Arc::new(AtomicBool::new(false));
        let (state, requested) = (self.clone(), awaiting.clone());
        thread::spawn(move || state.forward_requests(from_client, to_server, &requested));
        self.forward_responses(server, client, &awaiting);
    }

    /// Clients write the head of a request at once, so each request begins a read.
    fn forward_requests(
        &self,
        mut client: ProxyStream,
        mut server: ProxyStream,
        awaiting: &AtomicBool,
    ) {
        let mut bytes = [0; 64 << 10];
        let mut at_breakpoint = false;
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            if self.breakpoint.matches(&bytes[..count])
                && !self.reached.swap(true, Ordering::SeqCst)
            {
                if self.breakpoint.side == BreakpointSide::Before {
                    self.signal();
                }
                awaiting.store(true, Ordering::SeqCst);
                at_breakpoint = true;
            }
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        if at_breakpoint && self.awaits_response {
            self.wait(|progress| progress.answered);
        }
        server.shutdown(Shutdown::Write);
    }

    fn forward_responses(
        &self,
        mut server: ProxyStream,
        mut client: ProxyStream,
        awaiting: &AtomicBool,
    ) {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            if awaiting.swap(false, Ordering::SeqCst) {
                if self.breakpoint.side == BreakpointSide::After {
                    self.signal();
                }
                self.advance(|progress| progress.answered = true);
            }
            // After the client was killed, the response is still awaited.
            if client.write_all(&bytes[..count]).is_err() && !awaiting.load(Ordering::SeqCst) {
                break;
            }
        }
        if awaiting.load(Ordering::SeqCst) {
            self.advance(|progress| progress.answered = true);
        }
        client.shutdown(Shutdown::Both);
    }

    fn signal(&self) {
        let progress = self.wait(|progress| progress.target.is_some());
        let (pids, signal) = progress.target.expect("the wait is over");
        for pid in pids {
            send(pid, signal);
        }
        self.advance(|progress| progress.signaled = true);
    }

    fn advance(&self, step: impl FnOnce(&mut FaultProgress)) {
        step(&mut self.progress.lock().expect("not poisoned"));
        self.changed.notify_all();
    }

    fn wait(&self, reached: impl Fn(&FaultProgress) -> bool) -> FaultProgress {
        let progress = self.progress.lock().expect("not poisoned");
        let waited = self
            .changed
            .wait_timeout_while(progress, TIMEOUT, |progress| !reached(progress));
        let (progress, _) = waited.expect("not poisoned");
        let progress = progress.clone();
        assert!(reached(&progress), "{:?}: {progress:?}", self.breakpoint);
        progress
    }
}

impl Breakpoint {
    /// Whether these bytes begin with a request line of this method and path.
    fn matches(&self, bytes: &[u8]) -> bool {
        let line = bytes
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        line.strip_prefix(self.method)
            .and_then(|rest| rest.strip_prefix(' '))
            .is_some_and(|path| path.ends_with(" HTTP/1.1") && path.contains(self.path))
    }
}

/// A connection of either kind.
enum ProxyStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ProxyStream {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// Does nothing where the peer has closed the connection.
    fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Read for ProxyStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for ProxyStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_line_of_the_method_and_path_matches() {
        let breakpoint = before("POST", "/pods");
        assert!(breakpoint.matches(b"POST /api/v1/pods?x HTTP/1.1\r\nHost: a\r\n\r\n"));
        for other in [
            &b"GET /api/v1/pods HTTP/1.1\r\n"[..],
            b"POST /api/v1/secrets HTTP/1.1\r\n",
            b"POST /pods in a body",
            b"",
        ] {
            assert!(!breakpoint.matches(other), "{other:?}");
        }
    }

    #[test]
    fn the_signal_is_sent_once_and_the_response_still_arrives() {
        let folder = tempfile::tempdir().expect("a folder");
        let [server, proxy] = ["server", "proxy"].map(|name| folder.path().join(name));
        let listener = UnixListener::bind(&server).expect("a socket");
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut bytes = [0; 100];
                while let Ok(1..) = client.read(&mut bytes) {
                    client.write_all(b"response").expect("sent");
                }
            }
        });
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let proxy = FaultProxy::unix(&server, &proxy, after("GET", "/chosen"));
        proxy.aim(vec![child.id()], Signal::Kill);
        let socket = proxy.address().trim_start_matches("unix://").to_owned();
        let mut client = UnixStream::connect(socket).expect("connected");
        let mut request = |line: &[u8]| {
            let mut bytes = [0; 100];
            client.write_all(line).expect("sent");
            let count = client.read(&mut bytes).expect("received");
            assert_eq!(&bytes[..count], b"response");
        };
        request(b"GET /other HTTP/1.1\r\n\r\n");
        assert!(matches!(child.try_wait(), Ok(None)));
        request(b"GET /chosen HTTP/1.1\r\n\r\n");
        proxy.wait_signaled();
        proxy.wait_answered();
        assert!(!child.wait().expect("an end").success());
    }
}
