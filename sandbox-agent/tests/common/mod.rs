//! A client for tests: starts the agent on one end of a socket pair and speaks the protocol on the
//! other.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

use std::{
    collections::HashMap,
    fs::File,
    io::{ErrorKind, Read, Write},
    ops::{Deref, DerefMut},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

pub mod listening;
pub mod processes;
pub mod seccomp;
pub mod stream;

pub use seccomp::refuse;
pub use stream::{ExecResult, StreamMessage, TestStream};

use seccomp::install;

use sandbox_agent::protocol::{
    AgentSettings, Attach, Builtin, Channel, ClientKey, Confinement, ExecProgram, ExecRequest,
    ExitKind, ExitReport, Failure, FrameBuffer, FrameKind, Header, MessageAssembler, Welcome,
    encode_frame, encode_message,
};

/// Timeout of a test for any event.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// The agent in a memory file.
fn agent_file() -> RawFd {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| {
        // SAFETY: the kernel reads the name.
        let raw = unsafe { libc::memfd_create(c"sandbox-agent".as_ptr(), libc::MFD_CLOEXEC) };
        let mut file = File::from(owned(raw));
        file.write_all(sandbox_agent::program()).unwrap();
        file
    })
    .as_raw_fd()
}

/// A command that runs the agent, or a `wrapper` program that runs the agent as its argument. The
/// agent finds `socket` on descriptor 42. System calls in `without` fail with ENOSYS.
pub fn agent_command(wrapper: &[&str], socket: Option<RawFd>, without: &[i64]) -> Command {
    let words = [wrapper, &["/proc/self/fd/43"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).env_clear();
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let filter = refuse(without, libc::ENOSYS);
    let filter_wanted = !without.is_empty();
    let agent = agent_file();
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            let placed = libc::dup2(agent, 43) == 43
                && socket.is_none_or(|socket| libc::dup2(socket, 42) == 42)
                && (!filter_wanted || install(&filter));
            if placed {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    command
}

/// The client that started the agent.
pub struct FirstClient {
    wire: TestStream,
    pub agent: Child,
    /// Whether the agent exits when the stream ends.
    owned: bool,
}

impl Deref for FirstClient {
    type Target = TestStream;

    fn deref(&self) -> &TestStream {
        &self.wire
    }
}

impl DerefMut for FirstClient {
    fn deref_mut(&mut self) -> &mut TestStream {
        &mut self.wire
    }
}

/// Settings without confinement.
pub fn settings() -> AgentSettings {
    AgentSettings {
        key: ClientKey::new([7; 32]),
        lease_ms: 0,
        owned: true,
        detached_after_attach: false,
        lifetime_ms: 0,
        log_bytes: 64 * 1024,
        workdir: b"/".to_vec(),
        expected_objects: Vec::new(),
        chown_dirs: Vec::new(),
        launcher: Vec::new(),
        make_dirs: Vec::new(),
        kill_count_files: Vec::new(),
        egress: None,
        confinement: Confinement {
            umask: 0o022,
            ..Confinement::default()
        },
    }
}

/// A request for a command with a default environment.
pub fn command(argv: &[&str]) -> ExecRequest {
    ExecRequest {
        program: ExecProgram::Command {
            argv: argv
                .iter()
                .map(|argument| argument.as_bytes().to_vec())
                .collect(),
        },
        env: vec![b"PATH=/usr/bin:/bin".to_vec(), b"LC_ALL=C".to_vec()],
        workdir: Vec::new(),
        stdin: false,
        timeout_ms: 0,
        log: false,
        terminal: None,
        root: false,
    }
}

/// A request for a shell script.
pub fn script(text: &str) -> ExecRequest {
    command(&["sh", "-c", text])
}

/// A request for a builtin.
pub fn builtin(builtin: Builtin) -> ExecRequest {
    ExecRequest {
        program: ExecProgram::Builtin(builtin),
        env: Vec::new(),
        ..command(&["x"])
    }
}

impl FirstClient {
    /// Starts the agent through `wrapper` (a program that runs its arguments), with these arguments
    /// after `serve --fd N`.
    pub fn launch(wrapper: &[&str], arguments: &[&str]) -> FirstClient {
        Self::launch_without(wrapper, arguments, &[])
    }

    /// As `launch`, without some system calls.
    pub fn launch_without(wrapper: &[&str], arguments: &[&str], calls: &[i64]) -> FirstClient {
        let (socket, agent_socket) = UnixStream::pair().unwrap();
        let mut command = agent_command(wrapper, Some(agent_socket.as_raw_fd()), calls);
        let agent = command
            .args(["serve", "--fd", "42"])
            .args(arguments)
            .spawn()
            .unwrap();
        FirstClient::over(socket, agent)
    }

    /// Uses an agent that is running already.
    pub fn over(socket: UnixStream, agent: Child) -> FirstClient {
        FirstClient {
            wire: TestStream::over(socket),
            agent,
            owned: true,
        }
    }

    /// Starts the agent with these settings.
    #[track_caller]
    pub fn start(settings: &AgentSettings) -> FirstClient {
        let mut client = FirstClient::launch(&[], &[]);
        client.hello(settings).unwrap();
        client
    }

    /// Sets whether the agent exits when this stream ends. By default it does.
    pub fn set_owned(&mut self, owned: bool) {
        self.owned = owned;
    }

    /// Waits for the agent's exit.
    #[track_caller]
    pub fn agent_end(&mut self) -> ExitStatus {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.agent.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for FirstClient {
    fn drop(&mut self) {
        if !self.owned {
            // It may have exited.
            let _ = self.agent.kill();
        }
        // Closing the stream ends the agent; otherwise it is killed.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.agent.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.agent.kill();
                let _ = self.agent.wait();
                assert!(
                    std::thread::panicking(),
                    "the agent outlived its owner's stream"
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Takes ownership of a raw descriptor.
pub fn owned(raw: i32) -> OwnedFd {
    assert!(raw >= 0);
    // SAFETY: the caller just received it.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// Checks that a shell command fails with `words` on stderr.
#[track_caller]
pub fn refused(client: &mut FirstClient, text: &str, words: &str) {
    let outcome = client.run(&script(text));
    let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(outcome.kind() != ExitKind::Exited(0), "{text} worked");
    assert!(stderr.contains(words), "{text}: {stderr}");
}
