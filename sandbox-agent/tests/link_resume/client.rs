//! An agent with a named control socket, and a client with a link.

use std::{
    io::{Read, Write},
    os::linux::net::SocketAddrExt,
    os::unix::net::{SocketAddr, UnixStream},
    process::{Child, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use sandbox_agent::protocol::{
    AgentSettings, Attach, BeginLink, ClientKey, Failure, FrameBuffer, FrameKind, HEADER_LEN,
    Header, LinkEnd, Received, Resume, Resumed, encode_frame, encode_message,
};

use crate::common::{TIMEOUT, agent_command, settings};

/// An agent with a named control socket.
pub struct NamedAgent {
    pub name: String,
    pub child: Child,
}

impl Drop for NamedAgent {
    fn drop(&mut self) {
        // It may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl NamedAgent {
    pub fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sandbox-agent-returning-{}-{count}", std::process::id());
        let child = agent_command(&[], None, &[])
            .args(["serve", "--listen", &format!("@{name}")])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { name, child }
    }

    pub fn connect(&self) -> UnixStream {
        let address = SocketAddr::from_abstract_name(&self.name).unwrap();
        let begin = Instant::now();
        loop {
            match UnixStream::connect_addr(&address) {
                Ok(socket) => {
                    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                    return socket;
                }
                Err(error) => assert!(begin.elapsed() < TIMEOUT, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The first client, over a link.
    pub fn first(&self, settings: &AgentSettings) -> LinkedClient {
        let mut linked = self.link(7);
        linked.send(0, FrameKind::Hello, &settings.encode());
        linked.wait(FrameKind::Welcome);
        linked
    }

    /// A link without data.
    pub fn link(&self, secret: u8) -> LinkedClient {
        let mut socket = self.connect();
        let secret = ClientKey::new([secret; 32]);
        send(
            &mut socket,
            FrameKind::Link,
            &BeginLink {
                secret: secret.clone(),
            }
            .encode(),
        );
        LinkedClient {
            awaiting_resumed: true,
            socket,
            secret,
            end: LinkEnd::new(),
            kept: Vec::new(),
            frames: FrameBuffer::new(),
            closed: false,
        }
    }

    pub fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < TIMEOUT, "the agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Attaches a later client; an error if it is refused.
    pub fn attach(&self, secret: u8) -> Result<LinkedClient, Failure> {
        let mut later = self.link(secret);
        let key = settings().key;
        later.send(0, FrameKind::Attach, &Attach { key }.encode());
        match later.next() {
            Some((FrameKind::Welcome, _)) => Ok(later),
            Some((FrameKind::Failed, message)) => Err(Failure::decode(&message).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

pub fn send(socket: &mut UnixStream, kind: FrameKind, message: &[u8]) {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, 0, kind, false, message);
    socket.write_all(&bytes).unwrap();
}

/// Reads the agent's first frame on a stream: `Resumed` or `Failed`.
pub fn answer(socket: &mut UnixStream) -> Result<u64, Failure> {
    let mut head = [0; HEADER_LEN];
    socket.read_exact(&mut head).unwrap();
    let header = Header::decode(&head).unwrap();
    let mut message = vec![0; header.length];
    socket.read_exact(&mut message).unwrap();
    match header.kind {
        FrameKind::Resumed => Ok(Resumed::decode(&message).unwrap().received),
        FrameKind::Failed => Err(Failure::decode(&message).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A client's end of a link.
pub struct LinkedClient {
    /// Reads the agent's first frame on a stream: `Resumed` or `Failed`.
    pub awaiting_resumed: bool,
    pub socket: UnixStream,
    pub secret: ClientKey,
    pub end: LinkEnd,
    pub kept: Vec<u8>,
    pub frames: FrameBuffer,
    pub closed: bool,
}

impl LinkedClient {
    pub fn send(&mut self, stream: u32, kind: FrameKind, message: &[u8]) {
        encode_message(&mut self.kept, stream, kind, message);
        self.flush();
    }

    pub fn flush(&mut self) {
        while let Some(packet) = self.end.next_packet(self.kept.len()) {
            let from = self.end.in_flight();
            let mut bytes = packet.header.to_vec();
            bytes.extend_from_slice(&self.kept[from..from + packet.length]);
            self.end.sent(packet.length);
            self.socket.write_all(&bytes).unwrap();
        }
    }

    /// The next frame; `None` at the end.
    pub fn next(&mut self) -> Option<(FrameKind, Vec<u8>)> {
        if std::mem::take(&mut self.awaiting_resumed) {
            assert_eq!(answer(&mut self.socket), Ok(0));
        }
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return Some((frame.header.kind, frame.payload.to_vec()));
            }
            let mut chunk = [0; 5000];
            let count = match self.socket.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            };
            let mut bytes = &chunk[..count];
            while let Some(received) = self.end.receive(&mut bytes).unwrap() {
                match received {
                    Received::Data(data) => self.frames.extend(data),
                    Received::Acknowledged(count) => drop(self.kept.drain(..count)),
                    Received::Close => self.closed = true,
                }
            }
        }
    }

    #[track_caller]
    pub fn wait(&mut self, kind: FrameKind) -> Vec<u8> {
        loop {
            match self.next() {
                Some((found, message)) if found == kind => return message,
                Some(_) => {}
                None => panic!("the stream ended before {kind:?}"),
            }
        }
    }

    pub fn resume(&self, received: u64) -> Vec<u8> {
        Resume {
            secret: self.secret.clone(),
            received,
        }
        .encode()
    }

    /// Resumes over another stream.
    pub fn reconnect(&mut self, agent: &NamedAgent) -> Result<(), Failure> {
        let mut socket = agent.connect();
        send(
            &mut socket,
            FrameKind::Resume,
            &self.resume(self.end.received()),
        );
        let received = answer(&mut socket)?;
        let released = self.end.resume(received).unwrap();
        self.kept.drain(..released);
        self.socket = socket;
        self.flush();
        Ok(())
    }

    pub fn cut(&self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// The output of a started execution, to its end.
    pub fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        loop {
            match self.next().expect("the stream ended before the execution") {
                (FrameKind::Stdout, bytes) => output.extend(bytes),
                (FrameKind::Exited, _) => return output,
                _ => {}
            }
        }
    }
}
