//! A client's end of a stream.

use std::{
    collections::HashMap,
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use sandbox_agent::protocol::{
    AgentSettings, Attach, Channel, ClientKey, ExecRequest, ExitKind, ExitReport, Failure,
    FrameBuffer, FrameKind, Header, MessageAssembler, Welcome, encode_frame, encode_message,
};

use super::TIMEOUT;

/// A message on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamMessage {
    pub stream: u32,
    pub kind: FrameKind,
    pub bytes: Vec<u8>,
}

/// A client's end of a connection, which collects messages by stream.
pub struct TestStream {
    pub socket: UnixStream,
    buffer: FrameBuffer,
    assembler: MessageAssembler,
    next_stream: u32,
    waiting: HashMap<u32, Vec<StreamMessage>>,
    ended: bool,
}

/// An execution's end and its output.
#[derive(Debug)]
pub struct ExecResult {
    pub pid: Option<u32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: Result<ExitReport, Failure>,
}

impl ExecResult {
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

impl TestStream {
    /// Uses a connected socket.
    pub fn over(socket: UnixStream) -> TestStream {
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        TestStream {
            socket,
            buffer: FrameBuffer::new(),
            assembler: MessageAssembler::new(),
            next_stream: 1,
            waiting: HashMap::new(),
            ended: false,
        }
    }

    /// Authenticates with the key.
    pub fn attach(&mut self, key: &ClientKey) -> Result<Welcome, Failure> {
        self.greet(FrameKind::Attach, &Attach { key: key.clone() }.encode())
    }

    /// Sends the settings.
    pub fn hello(&mut self, settings: &AgentSettings) -> Result<Welcome, Failure> {
        self.greet(FrameKind::Hello, &settings.encode())
    }

    fn greet(&mut self, kind: FrameKind, message: &[u8]) -> Result<Welcome, Failure> {
        self.send(0, kind, message);
        let answer = self.wait(0);
        match answer.kind {
            FrameKind::Welcome => Ok(Welcome::decode(&answer.bytes).unwrap()),
            FrameKind::Failed => Err(Failure::decode(&answer.bytes).unwrap()),
            other => panic!("{other:?} is no answer to a greeting"),
        }
    }

    /// Sends a message.
    pub fn send(&mut self, stream: u32, kind: FrameKind, message: &[u8]) {
        let mut bytes = Vec::new();
        if kind == FrameKind::Stdin {
            encode_frame(&mut bytes, stream, kind, false, message);
        } else {
            encode_message(&mut bytes, stream, kind, message);
        }
        self.socket.write_all(&bytes).unwrap();
    }

    /// An unused stream number.
    pub fn open_stream(&mut self) -> u32 {
        self.next_stream += 1;
        self.next_stream - 1
    }

    /// Starts an execution on a new stream.
    pub fn exec(&mut self, request: &ExecRequest) -> u32 {
        let stream = self.open_stream();
        self.send(stream, FrameKind::Exec, &request.encode());
        stream
    }

    /// The next message of any stream, or `None` at the end of the connection or after the timeout.
    pub fn receive(&mut self, patience: Duration) -> Option<StreamMessage> {
        let end = Instant::now() + patience;
        let mut chunk = vec![0; 256 * 1024];
        loop {
            while let Some(frame) = self.buffer.next_frame().unwrap() {
                let Header { stream, kind, .. } = frame.header;
                if let Some(bytes) = self.assembler.push(frame.header, frame.payload).unwrap() {
                    return Some(StreamMessage {
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

    /// Whether the agent has closed the stream.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next message of a stream; keeps messages of others.
    #[track_caller]
    pub fn wait(&mut self, stream: u32) -> StreamMessage {
        let end = Instant::now() + TIMEOUT;
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

    /// A message of a stream that has arrived already.
    pub fn kept(&mut self, stream: u32) -> Option<StreamMessage> {
        let kept = self.waiting.get_mut(&stream)?;
        (!kept.is_empty()).then(|| kept.remove(0))
    }

    /// Grants credit.
    pub fn grant(&mut self, stream: u32, channel: Channel, bytes: usize) {
        let credit = channel.credit(u32::try_from(bytes).unwrap());
        let mut frame = Vec::new();
        encode_message(&mut frame, stream, FrameKind::Credit, &credit);
        // The agent may have closed the stream after its last message.
        let _ = self.socket.write_all(&frame);
    }

    /// Reads a stream to its end and grants credit for all bytes.
    #[track_caller]
    pub fn finish(&mut self, stream: u32) -> ExecResult {
        self.follow(stream, |_, _| {})
    }

    /// As `finish`, and calls `look` for each message.
    #[track_caller]
    pub fn follow(
        &mut self,
        stream: u32,
        mut look: impl FnMut(&mut Self, &StreamMessage),
    ) -> ExecResult {
        let (mut stdout, mut stderr, mut pid) = (Vec::new(), Vec::new(), None);
        let end = loop {
            let message = self.wait(stream);
            look(self, &message);
            match message.kind {
                FrameKind::Started => {
                    assert!(pid.is_none() && stdout.is_empty() && stderr.is_empty());
                    pid = Some(u32::from_le_bytes(message.bytes[..].try_into().unwrap()));
                }
                FrameKind::Stdout => {
                    self.grant(stream, Channel::Stdout, message.bytes.len());
                    stdout.extend(message.bytes);
                }
                FrameKind::Stderr => {
                    self.grant(stream, Channel::Stderr, message.bytes.len());
                    stderr.extend(message.bytes);
                }
                FrameKind::Credit => {}
                FrameKind::Exited => break Ok(ExitReport::decode(&message.bytes).unwrap()),
                FrameKind::Failed => break Err(Failure::decode(&message.bytes).unwrap()),
                other => panic!("{other:?} on the stream of an execution"),
            }
        };
        if let Ok(report) = &end {
            assert_eq!(report.stdout_total, stdout.len() as u64);
            assert_eq!(report.stderr_total, stderr.len() as u64);
        }
        ExecResult {
            pid,
            stdout,
            stderr,
            end,
        }
    }

    /// Waits for the report at the end of a stream, ignoring other messages.
    #[track_caller]
    pub fn wait_end(&mut self, stream: u32) -> ExitReport {
        loop {
            let message = self.wait(stream);
            if message.kind == FrameKind::Exited {
                return ExitReport::decode(&message.bytes).unwrap();
            }
            assert_ne!(message.kind, FrameKind::Failed);
        }
    }

    /// Runs a request to its end.
    #[track_caller]
    pub fn run(&mut self, request: &ExecRequest) -> ExecResult {
        let stream = self.exec(request);
        self.finish(stream)
    }

    /// Pings the agent and measures its response time.
    #[track_caller]
    pub fn ping(&mut self) -> Duration {
        let start = Instant::now();
        let payload = start.elapsed().as_nanos().to_le_bytes();
        self.send(0, FrameKind::Ping, &payload);
        let answer = self.wait(0);
        assert_eq!(
            (answer.kind, &answer.bytes[..]),
            (FrameKind::Pong, &payload[..])
        );
        start.elapsed()
    }
}
