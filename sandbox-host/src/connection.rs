//! One connection to an agent: a task that reads frames into inboxes, and one that writes frames.
//!
//! Incoming data is untrusted: each frame is checked against the open streams and the granted
//! credit, and the first violation ends the connection. Outgoing data is bounded by requests and by
//! the agent's credit.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sandbox_agent::protocol::{
    Channel, ConnectRequest, DialRequest, ExitReport, Failure, Frame, FrameBuffer, FrameKind,
    MAX_FRAME, MessageAssembler, ProtocolError, Welcome, encode_frame, encode_message,
};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agent_timeouts;
use crate::failure::failure_error;
use crate::greeting::{Greeting, greet};
use crate::inbox::{Inbox, StreamEnd};
use crate::link::{self, LinkedStream};
use crate::lock;
use crate::open_stream::OpenStream;
use crate::open_streams::OpenStreams;
use crate::outgoing::{FrameQueue, QueuedFrames};
use crate::tcp::code::{self, CodeConnection, CodeConnections};
use crate::tcp::{Accepted, TcpState, TcpStream};
use crate::watch::watch;

/// Why a connection has ended.
#[derive(Debug, Clone)]
pub(crate) struct ClosedConnection {
    pub(crate) cause: EndCause,
    pub(crate) reason: String,
}

/// What ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// This side closed it.
    Closed,
    /// The agent reported the end of the sandbox or of this client, or its stream ended.
    Ended,
    /// The agent does not read or does not answer.
    Stalled,
    /// The agent broke the protocol.
    Violation,
}

/// The connection as its users see it.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<ConnectionShared>,
    outgoing: FrameQueue,
    ended: watch::Receiver<Option<ClosedConnection>>,
    tasks: Vec<JoinHandle<()>>,
}

/// The state shared by the connection's tasks.
#[derive(Debug)]
pub(crate) struct ConnectionShared {
    streams: Mutex<OpenStreams>,
    ended: watch::Sender<Option<ClosedConnection>>,
    outgoing: FrameQueue,
    last_frame: Mutex<Instant>,
    /// What carries the connections of code.
    pub(crate) code: CodeConnections,
    /// The link below the stream, if streams can be replaced.
    link: Option<Arc<link::LinkShared>>,
}

impl Connection {
    /// Sends the greeting and waits for the agent's welcome.
    pub(crate) async fn open<S>(
        tier: &str,
        stream: S,
        greeting: Greeting<'_>,
    ) -> Result<(Self, Welcome)>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::greet(tier, stream, None, greeting).await
    }

    /// As [`Connection::open`], over a link that replaces broken streams.
    pub(crate) async fn open_linked(
        tier: &str,
        stream: LinkedStream,
        greeting: Greeting<'_>,
    ) -> Result<(Self, Welcome)> {
        let link = stream.shared();
        Self::greet(tier, stream, Some(link), greeting).await
    }

    async fn greet<S>(
        tier: &str,
        stream: S,
        link: Option<Arc<link::LinkShared>>,
        greeting: Greeting<'_>,
    ) -> Result<(Self, Welcome)>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (welcome, buffer) = greet(tier, greeting, &mut reader, &mut writer).await?;
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (ended_sender, ended) = watch::channel(None);
        let shared = Arc::new(ConnectionShared {
            streams: Mutex::default(),
            ended: ended_sender,
            outgoing: outgoing.clone(),
            last_frame: Mutex::new(Instant::now()),
            code: CodeConnections::default(),
            link,
        });
        let tasks = vec![
            tokio::spawn(read(Arc::clone(&shared), reader, buffer)),
            tokio::spawn(write(Arc::clone(&shared), writer, queue)),
            tokio::spawn(watch(Arc::clone(&shared))),
        ];
        Ok((
            Self {
                shared,
                outgoing,
                ended,
                tasks,
            },
            welcome,
        ))
    }

    /// Opens a stream with this first message. The sandbox is given up if the agent does not end
    /// the stream within `limit` plus [`agent_timeouts::KILL`].
    pub(crate) fn open_stream(
        &self,
        kind: FrameKind,
        message: &[u8],
        limit: Option<Duration>,
    ) -> Result<OpenStream> {
        let inbox = Arc::new(Inbox::new(limit));
        let id = {
            let mut streams = self.shared.streams();
            if let Some(ClosedConnection { reason, .. }) = self.ended() {
                return Err(Error::new(ErrorKind::SandboxEnded, "execute", reason));
            }
            streams.add(&inbox)?
        };
        let mut bytes = Vec::new();
        encode_message(&mut bytes, id, kind, message);
        let stream = OpenStream::new(id, inbox, self.outgoing.clone());
        stream.send(bytes);
        Ok(stream)
    }

    /// What its tasks share.
    pub(crate) fn shared(&self) -> Arc<ConnectionShared> {
        Arc::clone(&self.shared)
    }

    /// Sends a message on stream 0.
    pub(crate) fn control(&self, kind: FrameKind, message: &[u8]) {
        self.shared.control(kind, message);
    }

    /// Why the connection has ended; `None` while it is open.
    pub(crate) fn ended(&self) -> Option<ClosedConnection> {
        self.ended.borrow().clone()
    }

    /// Waits for the end of the connection and returns its cause.
    pub(crate) fn watch_end(&self) -> impl Future<Output = EndCause> + Send + 'static {
        self.shared.watch_end()
    }

    /// Closes the connection from this side.
    pub(crate) fn close(&self, reason: &str) {
        self.shared.end(EndCause::Closed, reason);
        if let Some(link) = &self.shared.link {
            link.announce_drop();
        }
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close("the sandbox's handle was dropped");
    }
}

impl ConnectionShared {
    /// Why the connection has ended; `None` while it is open.
    pub(crate) fn ended(&self) -> Option<ClosedConnection> {
        self.ended.borrow().clone()
    }

    fn streams(&self) -> MutexGuard<'_, OpenStreams> {
        lock(&self.streams)
    }

    /// Waits for the end of the connection and returns its cause.
    pub(crate) fn watch_end(&self) -> impl Future<Output = EndCause> + Send + 'static {
        let mut ended = self.ended.subscribe();
        async move {
            // The sender lives as long as the tasks, so its end is the connection's end.
            match ended.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(ended)) => ended.cause,
                _ => EndCause::Closed,
            }
        }
    }

    /// Opens a TCP connection to a port inside.
    pub(crate) fn dial(&self, port: u16) -> Result<TcpStream> {
        let state = Arc::new(TcpState::new());
        let mut streams = self.streams();
        if let Some(ended) = &*self.ended.borrow() {
            let reason = ended.reason.clone();
            return Err(Error::new(ErrorKind::SandboxEnded, "connect", reason));
        }
        let id = streams.add_connection(&state)?;
        drop(streams);
        let mut bytes = Vec::new();
        encode_message(
            &mut bytes,
            id,
            FrameKind::Dial,
            &DialRequest { port }.encode(),
        );
        // A closed queue means that the connection has ended; the state reports it.
        let _ = self.outgoing.send(bytes.into());
        Ok(TcpStream::new(id, state, self.outgoing.clone()))
    }

    pub(crate) fn last_frame(&self) -> MutexGuard<'_, Instant> {
        lock(&self.last_frame)
    }

    pub(crate) fn control(&self, kind: FrameKind, message: &[u8]) {
        let mut bytes = Vec::new();
        encode_message(&mut bytes, 0, kind, message);
        // A closed queue means that the connection has ended, which each stream learns by itself.
        let _ = self.outgoing.send(bytes.into());
    }

    /// How long there was no stream so far.
    pub(crate) fn time_away(&self) -> Duration {
        let link = self.link.as_ref();
        link.map_or(Duration::ZERO, |link| link.time_away())
    }

    /// Whether there is no stream now, but one may follow.
    pub(crate) fn is_away(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_away())
    }

    /// Replaces the stream, if possible. Returns whether it is.
    pub(crate) fn renew(&self) -> bool {
        let link = self.link.as_ref();
        link.inspect(|link| link.renew()).is_some()
    }

    pub(crate) fn is_overdue(&self) -> bool {
        self.streams().are_overdue()
    }

    pub(crate) fn exclude(&self, time: Duration) {
        self.streams().exclude(time);
    }

    pub(crate) fn end(&self, cause: EndCause, reason: &str) {
        let mut streams = self.streams();
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(ClosedConnection {
                    cause,
                    reason: reason.to_owned(),
                });
            }
            first
        });
        streams.lose(reason);
    }

    /// The agent opens a stream for a connection of code.
    fn code_connected(
        &self,
        streams: &mut OpenStreams,
        frame: Frame<'_>,
    ) -> Result<(), ProtocolError> {
        if frame.header.more {
            return Err(ProtocolError::TooLarge("request for a connection"));
        }
        let target = code::target(&ConnectRequest::decode(frame.payload)?);
        let id = frame.header.stream;
        let state = Arc::new(TcpState::new());
        streams.add_of_agent(id, &state)?;
        let stream = TcpStream::new(id, state, self.outgoing.clone());
        self.code.arrived(CodeConnection { target, stream })
    }

    fn violated(&self, error: ProtocolError) {
        self.end(
            EndCause::Violation,
            &format!("the agent broke the protocol: {error}"),
        );
    }

    fn broken(&self, error: &std::io::Error) {
        // A link reports protocol violations this way.
        let inner = error.get_ref();
        if let Some(violation) = inner.and_then(|inner| inner.downcast_ref::<ProtocolError>()) {
            return self.violated(*violation);
        }
        self.end(
            EndCause::Ended,
            &format!("the stream to the sandbox broke: {error}"),
        );
    }

    fn accept(
        &self,
        frame: Frame<'_>,
        message: &mut MessageAssembler,
    ) -> Result<(), ProtocolError> {
        *self.last_frame() = Instant::now();
        let stream = frame.header.stream;
        if stream == 0 {
            return match frame.header.kind {
                FrameKind::Pong => Ok(()),
                FrameKind::EgressSet => self.code.answered(),
                FrameKind::Stopped => {
                    self.end(EndCause::Ended, "the sandbox was stopped");
                    Ok(())
                }
                FrameKind::Failed => {
                    let failure = Failure::decode(frame.payload)?;
                    self.end(EndCause::Ended, failure_error("", &failure).context());
                    Ok(())
                }
                _ => Err(ProtocolError::Unexpected("frame on stream 0")),
            };
        }
        let mut streams = self.streams();
        if let Some(state) = streams.connections.get(&stream) {
            if state.accept(frame)? == Accepted::Last {
                streams.remove_connection(stream);
            }
            return Ok(());
        }
        if frame.header.kind == FrameKind::Connect {
            return self.code_connected(&mut streams, frame);
        }
        let inbox =
            streams
                .inboxes
                .get(&stream)
                .map(Arc::clone)
                .ok_or(ProtocolError::Unexpected(
                    "frame of a stream that is not open",
                ))?;
        match frame.header.kind {
            FrameKind::Stdout | FrameKind::Stderr => {
                drop(streams);
                let channel = if frame.header.kind == FrameKind::Stdout {
                    Channel::Stdout
                } else {
                    Channel::Stderr
                };
                if let Some(bytes) = inbox.output(channel, frame.payload)? {
                    let mut credit = Vec::new();
                    encode_frame(
                        &mut credit,
                        stream,
                        FrameKind::Credit,
                        false,
                        &channel.credit(bytes),
                    );
                    let _ = self.outgoing.send(credit.into());
                }
            }
            FrameKind::Credit => {
                drop(streams);
                match Channel::read_credit(frame.payload)? {
                    (Channel::Stdin, bytes) => inbox.stdin_granted(bytes)?,
                    _ => return Err(ProtocolError::BadValue("channel of a credit")),
                }
            }
            FrameKind::Started => {
                drop(streams);
                inbox.started()?;
            }
            FrameKind::Exited | FrameKind::Failed => {
                let Some(whole) = message.push(frame.header, frame.payload)? else {
                    return Ok(());
                };
                let end = if frame.header.kind == FrameKind::Exited {
                    let report = ExitReport::decode(whole)?;
                    inbox.check_totals(&report)?;
                    StreamEnd::Exited(report)
                } else {
                    StreamEnd::Failed(Failure::decode(whole)?)
                };
                streams.inboxes.remove(&stream);
                drop(streams);
                inbox.end(end);
            }
            _ => return Err(ProtocolError::Unexpected("frame of the host's kind")),
        }
        Ok(())
    }
}

async fn read<R: AsyncRead + Unpin>(
    shared: Arc<ConnectionShared>,
    mut reader: R,
    mut buffer: FrameBuffer,
) {
    let mut message = MessageAssembler::new();
    let mut bytes = vec![0; MAX_FRAME];
    loop {
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => {
                    if let Err(error) = shared.accept(frame, &mut message) {
                        return shared.violated(error);
                    }
                }
                Ok(None) => break,
                Err(error) => return shared.violated(error),
            }
        }
        match reader.read(&mut bytes).await {
            Ok(0) => return shared.end(EndCause::Ended, "the sandbox's agent ended"),
            Ok(count) => buffer.extend(&bytes[..count]),
            Err(error) => return shared.broken(&error),
        }
    }
}

/// Writes frames until the connection ends, and then closes the stream. Otherwise an engine with
/// output for an open stream without a reader could not end the sandbox.
async fn write<W: AsyncWrite + Unpin>(
    shared: Arc<ConnectionShared>,
    writer: W,
    queue: mpsc::UnboundedReceiver<QueuedFrames>,
) {
    let mut ended = shared.ended.subscribe();
    tokio::select! {
        // `shared` holds the sender.
        _ = ended.wait_for(Option::is_some) => {}
        () = write_all(&shared, writer, queue) => {}
    }
}

async fn write_all<W: AsyncWrite + Unpin>(
    shared: &ConnectionShared,
    mut writer: W,
    mut queue: mpsc::UnboundedReceiver<QueuedFrames>,
) {
    while let Some(next) = queue.recv().await {
        let written = async {
            writer.write_all(&next.bytes).await?;
            if queue.is_empty() {
                writer.flush().await
            } else {
                Ok(())
            }
        };
        let written = if shared.link.is_some() {
            // Only answers to pings tell whether an agent that reads nothing is alive.
            Ok(written.await)
        } else {
            tokio::time::timeout(agent_timeouts::STALL, written).await
        };
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return shared.broken(&error),
            Err(_) => return shared.end(EndCause::Stalled, "the sandbox's agent stopped reading"),
        }
    }
}
