//! An agent with a control socket, and later clients.

use std::{
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            net::{UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use sandbox_agent::protocol::{AgentSettings, Failure, FrameKind, LogRequest};

use super::{FirstClient, StreamMessage, TIMEOUT, TestStream, agent_command, command, settings};

/// The path of an agent's control socket.
pub struct ControlAddress(pub PathBuf, tempfile::TempDir);

impl ControlAddress {
    /// A connection that has not authenticated.
    pub fn connect(&self) -> TestStream {
        TestStream::over(UnixStream::connect(&self.0).unwrap())
    }

    /// An authenticated client.
    #[track_caller]
    pub fn attach(&self, settings: &AgentSettings) -> TestStream {
        let mut wire = self.connect();
        wire.attach(&settings.key).unwrap();
        wire
    }
}

/// Settings of a sandbox that outlives its first client.
pub fn detached() -> AgentSettings {
    AgentSettings {
        owned: false,
        ..settings()
    }
}

/// Waits for the end of the stream; returns the failure on stream 0, if any.
#[track_caller]
pub fn last_failure(wire: &mut TestStream) -> Option<Failure> {
    let start = Instant::now();
    let mut word = None;
    loop {
        match wire.receive(Duration::from_millis(100)) {
            Some(StreamMessage {
                stream: 0,
                kind: FrameKind::Failed,
                bytes,
            }) => word = Some(Failure::decode(&bytes).unwrap()),
            Some(_) => {}
            None if wire.has_ended() => return word,
            None => assert!(start.elapsed() < TIMEOUT, "the stream does not end"),
        }
    }
}

/// A client connected through `sandbox-agent connect`, and that process.
pub fn through_connect(name: &str) -> (TestStream, Child) {
    let (socket, agent_socket) = UnixStream::pair().unwrap();
    let agent_socket = OwnedFd::from(agent_socket);
    let child = agent_command(&[], None, &[])
        .args(["connect", name])
        .stdin(agent_socket.try_clone().unwrap())
        .stdout(agent_socket)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (TestStream::over(socket), child)
}

/// Checks that the client is served.
pub fn echo(wire: &mut TestStream) {
    let outcome = wire.run(&command(&["echo", "alive"]));
    assert_eq!(outcome.text(), "alive\n");
}

/// Follows the log from its last `tail` lines on.
pub fn follow(wire: &mut TestStream, tail: u32) -> u32 {
    let stream = wire.open_stream();
    wire.send(
        stream,
        FrameKind::Logs,
        &LogRequest { tail, follow: true }.encode(),
    );
    stream
}

impl FirstClient {
    /// Starts an agent with a control socket and these settings.
    #[track_caller]
    pub fn listen(settings: &AgentSettings) -> (FirstClient, ControlAddress) {
        let temp_dir = tempfile::tempdir().unwrap();
        let address = ControlAddress(temp_dir.path().join("socket"), temp_dir);
        let listener = UnixListener::bind(&address.0).unwrap();
        let (socket, agent_socket) = UnixStream::pair().unwrap();
        let mut command = agent_command(&[], Some(agent_socket.as_raw_fd()), &[]);
        command.args(["serve", "--fd", "42", "--listen-fd", "44"]);
        let raw = listener.as_raw_fd();
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(raw, 44) == 44 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
        let mut client = FirstClient::over(socket, command.spawn().unwrap());
        client.set_owned(settings.owned);
        client.hello(settings).unwrap();
        (client, address)
    }
}
