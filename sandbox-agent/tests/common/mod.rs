//! A host for tests: starts the agent on one end of a socket pair and speaks the protocol on the other.
#![allow(dead_code, reason = "each test program uses a part")]

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

pub mod processes;
pub mod several;

use sandbox_agent::protocol::{
    Attach, Builtin, Channel, Confinement, ExecRequest, ExitKind, ExitReport, Failure, FrameBuffer,
    Header, Key, Kind, MessageAssembler, Program, Settings, Welcome, encode_frame, encode_message,
};

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The agent as a file in memory.
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

/// A command that executes the agent, or a `wrapper` that executes what it is given behind its own arguments, with the
/// agent and its arguments there. The agent finds `socket` on descriptor 42.
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

/// What came on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub stream: u32,
    pub kind: Kind,
    pub bytes: Vec<u8>,
}

/// A host's end of a stream.
pub struct Wire {
    pub socket: UnixStream,
    buffer: FrameBuffer,
    assembler: MessageAssembler,
    next_stream: u32,
    waiting: HashMap<u32, Vec<Message>>,
    ended: bool,
}

/// The host that has started the agent.
pub struct Client {
    wire: Wire,
    pub agent: Child,
    /// Whether the agent ends with the stream.
    owned: bool,
}

impl Deref for Client {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

/// How an execution ended, and all it wrote.
#[derive(Debug)]
pub struct Outcome {
    pub pid: Option<u32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: Result<ExitReport, Failure>,
}

impl Outcome {
    #[track_caller]
    pub fn report(&self) -> ExitReport {
        match &self.end {
            Ok(report) => *report,
            Err(failure) => panic!("the execution failed: {failure:?}"),
        }
    }

    #[track_caller]
    pub fn failure(&self) -> &Failure {
        self.end
            .as_ref()
            .expect_err("the execution should have failed")
    }

    #[track_caller]
    pub fn kind(&self) -> ExitKind {
        self.report().kind
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Settings without any confinement.
pub fn settings() -> Settings {
    Settings {
        key: Key::new([7; 32]),
        lease_ms: 0,
        owned: true,
        handed_over: false,
        lifetime_ms: 0,
        log_bytes: 64 * 1024,
        workdir: b"/".to_vec(),
        placed: Vec::new(),
        give_dirs: Vec::new(),
        make_dirs: Vec::new(),
        kill_counts: Vec::new(),
        confinement: Confinement {
            umask: 0o022,
            ..Confinement::default()
        },
    }
}

/// A request for a command with the usual environment.
pub fn command(argv: &[&str]) -> ExecRequest {
    ExecRequest {
        program: Program::Command {
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
    }
}

/// A request for a shell script.
pub fn script(text: &str) -> ExecRequest {
    command(&["sh", "-c", text])
}

/// A request for a routine of the agent.
pub fn builtin(builtin: Builtin) -> ExecRequest {
    ExecRequest {
        program: Program::Builtin(builtin),
        env: Vec::new(),
        ..command(&["x"])
    }
}

impl Client {
    /// Starts the agent by `wrapper` (a program and its arguments, which execute the rest of their arguments), with
    /// these arguments behind `serve --fd N`.
    pub fn launch(wrapper: &[&str], arguments: &[&str]) -> Client {
        Self::launch_without(wrapper, arguments, &[])
    }

    /// As `launch`, on a kernel that does not know some system calls.
    pub fn launch_without(wrapper: &[&str], arguments: &[&str], calls: &[i64]) -> Client {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command = agent_command(wrapper, Some(theirs.as_raw_fd()), calls);
        let agent = command
            .args(["serve", "--fd", "42"])
            .args(arguments)
            .spawn()
            .unwrap();
        Client::over(socket, agent)
    }

    /// Speaks to an agent that runs already.
    pub fn over(socket: UnixStream, agent: Child) -> Client {
        Client {
            wire: Wire::over(socket),
            agent,
            owned: true,
        }
    }

    /// Starts the agent with these settings.
    #[track_caller]
    pub fn start(settings: &Settings) -> Client {
        let mut client = Client::launch(&[], &[]);
        client.hello(settings).unwrap();
        client
    }

    /// Says whether the agent ends with this stream, which it does unless its settings say otherwise.
    pub fn set_owned(&mut self, owned: bool) {
        self.owned = owned;
    }

    /// Waits for the agent's own end.
    #[track_caller]
    pub fn agent_end(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.agent.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Wire {
    /// Speaks over a socket.
    pub fn over(socket: UnixStream) -> Wire {
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire {
            socket,
            buffer: FrameBuffer::new(),
            assembler: MessageAssembler::new(),
            next_stream: 1,
            waiting: HashMap::new(),
            ended: false,
        }
    }

    /// Shows the key.
    pub fn attach(&mut self, key: &Key) -> Result<Welcome, Failure> {
        self.greet(Kind::Attach, &Attach { key: key.clone() }.encode())
    }

    /// Sends the settings.
    pub fn hello(&mut self, settings: &Settings) -> Result<Welcome, Failure> {
        self.greet(Kind::Hello, &settings.encode())
    }

    fn greet(&mut self, kind: Kind, message: &[u8]) -> Result<Welcome, Failure> {
        self.send(0, kind, message);
        let answer = self.wait(0);
        match answer.kind {
            Kind::Welcome => Ok(Welcome::decode(&answer.bytes).unwrap()),
            Kind::Failed => Err(Failure::decode(&answer.bytes).unwrap()),
            other => panic!("{other:?} is no answer to a greeting"),
        }
    }

    /// Sends a message.
    pub fn send(&mut self, stream: u32, kind: Kind, message: &[u8]) {
        let mut bytes = Vec::new();
        if kind == Kind::Stdin {
            encode_frame(&mut bytes, stream, kind, false, message);
        } else {
            encode_message(&mut bytes, stream, kind, message);
        }
        self.socket.write_all(&bytes).unwrap();
    }

    /// A number that no stream has had.
    pub fn open_stream(&mut self) -> u32 {
        self.next_stream += 1;
        self.next_stream - 1
    }

    /// Opens a stream.
    pub fn exec(&mut self, request: &ExecRequest) -> u32 {
        let stream = self.open_stream();
        self.send(stream, Kind::Exec, &request.encode());
        stream
    }

    /// The next message of any stream, or `None` at the end of the connection or after `patience`.
    pub fn receive(&mut self, patience: Duration) -> Option<Message> {
        let end = Instant::now() + patience;
        let mut chunk = vec![0; 256 * 1024];
        loop {
            while let Some(frame) = self.buffer.next_frame().unwrap() {
                let Header { stream, kind, .. } = frame.header;
                if let Some(bytes) = self.assembler.push(frame.header, frame.payload).unwrap() {
                    return Some(Message {
                        stream,
                        kind,
                        bytes: bytes.to_vec(),
                    });
                }
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => {
                    self.ended = true;
                    return None;
                }
                Ok(count) => self.buffer.extend(&chunk[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if Instant::now() > end {
                        return None;
                    }
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.ended = true;
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Whether the agent's end of the stream was seen.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next message of a stream; others are kept.
    #[track_caller]
    pub fn wait(&mut self, stream: u32) -> Message {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(kept) = self.waiting.get_mut(&stream)
                && !kept.is_empty()
            {
                return kept.remove(0);
            }
            assert!(Instant::now() < end, "nothing came on stream {stream}");
            if let Some(message) = self.receive(Duration::from_secs(1)) {
                self.waiting
                    .entry(message.stream)
                    .or_default()
                    .push(message);
            }
        }
    }

    /// Grants credit.
    pub fn grant(&mut self, stream: u32, channel: Channel, bytes: usize) {
        let credit = channel.credit(u32::try_from(bytes).unwrap());
        let mut frame = Vec::new();
        encode_message(&mut frame, stream, Kind::Credit, &credit);
        // What came may have been the agent's last word.
        let _ = self.socket.write_all(&frame);
    }

    /// Follows a stream to its end, granting credit for all that comes.
    #[track_caller]
    pub fn finish(&mut self, stream: u32) -> Outcome {
        self.follow(stream, |_, _| {})
    }

    /// As `finish`, with a look at each message.
    #[track_caller]
    pub fn follow(&mut self, stream: u32, mut look: impl FnMut(&mut Self, &Message)) -> Outcome {
        let (mut stdout, mut stderr, mut pid) = (Vec::new(), Vec::new(), None);
        let end = loop {
            let message = self.wait(stream);
            look(self, &message);
            match message.kind {
                Kind::Started => {
                    assert!(pid.is_none() && stdout.is_empty() && stderr.is_empty());
                    pid = Some(u32::from_le_bytes(message.bytes[..].try_into().unwrap()));
                }
                Kind::Stdout => {
                    self.grant(stream, Channel::Stdout, message.bytes.len());
                    stdout.extend(message.bytes);
                }
                Kind::Stderr => {
                    self.grant(stream, Channel::Stderr, message.bytes.len());
                    stderr.extend(message.bytes);
                }
                Kind::Credit => {}
                Kind::Exited => break Ok(ExitReport::decode(&message.bytes).unwrap()),
                Kind::Failed => break Err(Failure::decode(&message.bytes).unwrap()),
                other => panic!("{other:?} on the stream of an execution"),
            }
        };
        if let Ok(report) = &end {
            assert_eq!(report.stdout_total, stdout.len() as u64);
            assert_eq!(report.stderr_total, stderr.len() as u64);
        }
        Outcome {
            pid,
            stdout,
            stderr,
            end,
        }
    }

    /// Waits for the report at the end of a stream, without a look at what comes before.
    #[track_caller]
    pub fn wait_end(&mut self, stream: u32) -> ExitReport {
        loop {
            let message = self.wait(stream);
            if message.kind == Kind::Exited {
                return ExitReport::decode(&message.bytes).unwrap();
            }
            assert_ne!(message.kind, Kind::Failed);
        }
    }

    /// Runs a request to its end.
    #[track_caller]
    pub fn run(&mut self, request: &ExecRequest) -> Outcome {
        let stream = self.exec(request);
        self.finish(stream)
    }

    /// Asks whether the agent answers, and how fast.
    #[track_caller]
    pub fn ping(&mut self) -> Duration {
        let start = Instant::now();
        let payload = start.elapsed().as_nanos().to_le_bytes();
        self.send(0, Kind::Ping, &payload);
        let answer = self.wait(0);
        assert_eq!((answer.kind, &answer.bytes[..]), (Kind::Pong, &payload[..]));
        start.elapsed()
    }
}

/// A seccomp program that refuses system calls of these numbers with an error.
pub fn refuse(calls: &[libc::c_long], errno: i32) -> Vec<u8> {
    let mut program: Vec<(u16, u8, u8, u32)> = vec![(0x20, 0, 0, 0)];
    for call in calls {
        program.push((0x15, 0, 1, u32::try_from(*call).unwrap()));
        program.push((0x06, 0, 0, 0x0005_0000 | errno.cast_unsigned()));
    }
    program.push((0x06, 0, 0, 0x7fff_0000));
    program
        .into_iter()
        .flat_map(|(code, jt, jf, k)| {
            let mut record = code.to_ne_bytes().to_vec();
            record.extend([jt, jf]);
            record.extend(k.to_ne_bytes());
            record
        })
        .collect()
}

/// Installs a program for the calling process, which must be root.
fn install(program: &[u8]) -> bool {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len() / 8).unwrap(),
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the kernel reads the program, whose records are 8 bytes long.
    unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        ) == 0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.owned {
            // It may have ended.
            let _ = self.agent.kill();
        }
        // The end of the stream ends the agent; if not, this does.
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

/// An owned descriptor out of a raw one that nobody else owns.
pub fn owned(raw: i32) -> OwnedFd {
    assert!(raw >= 0);
    // SAFETY: the caller just received it.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// A shell command fails inside, and says why in these words.
#[track_caller]
pub fn refused(client: &mut Client, text: &str, words: &str) {
    let outcome = client.run(&script(text));
    let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(outcome.kind() != ExitKind::Exited(0), "{text} worked");
    assert!(stderr.contains(words), "{text}: {stderr}");
}
