//! One client: its stream, and the executions and replays that it has opened.

use alloc::collections::BTreeMap;

use super::{
    connection::{Connection, ReadBuffer, ReadOutcome},
    egress::CodeConnection,
    exec::{Execution, ExecutionDescriptor},
    output_log::OutputLog,
    poll_set::{MonotonicMicros, POLLIN, POLLOUT, PollSet},
    replay::Replay,
    shared::{SharedState, StreamName},
    tcp::{self, TcpStream},
};
use crate::{
    protocol::{
        AGENT_STREAMS, ClosedReport, DialRequest, EgressTable, ExecRequest, ExitKind, Failure,
        FrameKind, Header, LogRequest, MAX_CONNECTIONS, ProtocolError,
    },
    runtime::Errno,
};

/// Which of a client's descriptors is ready.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClientEvent {
    Stream,
    Execution(u32, ExecutionDescriptor),
    Connection(u32),
}

/// A client. After its stream has ended, it stays in the list until its executions have ended.
#[derive(Debug)]
pub(super) struct Client {
    /// 0 for the client that started the agent.
    pub(super) number: u32,
    pub(super) connection: Connection,
    executions: BTreeMap<u32, Execution>,
    replays: BTreeMap<u32, Replay>,
    connections: BTreeMap<u32, TcpStream>,
    /// When the agent disconnects the client, unless it sends something before.
    pub(super) expires_at: MonotonicMicros,
}

impl Client {
    pub(super) fn new(number: u32, connection: Connection, expires_at: MonotonicMicros) -> Self {
        Self {
            number,
            connection,
            executions: BTreeMap::new(),
            replays: BTreeMap::new(),
            connections: BTreeMap::new(),
            expires_at,
        }
    }

    /// Whether it is disconnected and has no executions.
    pub(super) fn is_finished(&self) -> bool {
        !self.connection.is_alive() && self.executions.is_empty()
    }

    /// Number of open streams of executions and of the log.
    pub(super) fn streams(&self) -> usize {
        self.executions.len() + self.replays.len()
    }

    /// Whether any of its executions runs code, not a builtin.
    pub(super) fn runs_code(&self) -> bool {
        !self.executions.values().all(Execution::is_builtin)
    }

    /// Whether any execution is still running.
    pub(super) fn has_executions(&self) -> bool {
        !self.executions.is_empty()
    }

    /// Adds the client's descriptors to the poll set.
    pub(super) fn register<T: Copy>(&self, set: &mut PollSet<T>, token: impl Fn(ClientEvent) -> T) {
        if let Some((input, output)) = self.connection.descriptors() {
            let mut events = if self.connection.wants_input() {
                POLLIN
            } else {
                0
            };
            if self.connection.has_to_write() {
                match output {
                    None => events |= POLLOUT,
                    Some(output) => set.add(output, POLLOUT, token(ClientEvent::Stream)),
                }
            }
            set.add(input, events, token(ClientEvent::Stream));
        }
        let may_read_outputs = self.connection.outgoing.has_room();
        for execution in self.executions.values() {
            execution.register(may_read_outputs, set, |stream, part| {
                token(ClientEvent::Execution(stream, part))
            });
        }
        for (stream, connection) in &self.connections {
            connection.register(
                may_read_outputs,
                set,
                token(ClientEvent::Connection(*stream)),
            );
        }
    }

    /// Reads once from the client.
    pub(super) fn receive(&mut self, read_buffer: &mut ReadBuffer) -> ReadOutcome {
        if self.connection.wants_input() && self.connection.has_stream() {
            self.connection.receive(read_buffer)
        } else {
            ReadOutcome::Nothing
        }
    }

    /// Handles all complete messages in the buffer.
    ///
    /// # Errors
    ///
    /// When a message violates the protocol; the connection is unusable then.
    pub(super) fn dispatch(&mut self, shared: &mut SharedState) -> Result<(), ProtocolError> {
        let mut incoming = core::mem::take(&mut self.connection.incoming);
        let mut assembler = core::mem::take(&mut self.connection.assembler);
        while let Some(frame) = incoming.next_frame()? {
            let header = frame.header;
            if header.more && header.kind == FrameKind::Stdin {
                return Err(ProtocolError::BadValue("flags of data"));
            }
            if let Some(message) = assembler.push(header, frame.payload)? {
                self.message(header, message, shared)?;
            }
        }
        self.connection.incoming = incoming;
        self.connection.assembler = assembler;
        Ok(())
    }

    fn message(
        &mut self,
        header: Header,
        message: &[u8],
        shared: &mut SharedState,
    ) -> Result<(), ProtocolError> {
        match (header.stream, header.kind) {
            (0, FrameKind::Ping) => self
                .connection
                .outgoing
                .message(0, FrameKind::Pong, message),
            (0, FrameKind::Stop) => {
                let grace = message
                    .try_into()
                    .map_err(|_| ProtocolError::BadValue("grace"))?;
                shared.request_stop(u32::from_le_bytes(grace));
            }
            (0, FrameKind::Egress) => match &mut shared.egress {
                Some(egress) => {
                    egress.set(EgressTable::decode(message)?, self.number);
                    self.connection
                        .outgoing
                        .message(0, FrameKind::EgressSet, b"");
                }
                None => return Err(ProtocolError::Unexpected("rules for connections")),
            },
            (0, _) => return Err(ProtocolError::Unexpected("frame on stream 0")),
            (AGENT_STREAMS.., FrameKind::Exec | FrameKind::Logs | FrameKind::Dial) => {
                return Err(ProtocolError::BadValue("number of a stream"));
            }
            (stream, FrameKind::Exec | FrameKind::Logs | FrameKind::Dial)
                if self.is_open(stream) =>
            {
                return Err(ProtocolError::Unexpected("second use of a stream"));
            }
            (stream, FrameKind::Exec) => {
                let request = ExecRequest::decode(message)?;
                match self.start(stream, &request, message, shared) {
                    Ok(()) => {}
                    Err(failure) => self.fail(stream, &failure),
                }
            }
            (stream, FrameKind::Logs) => {
                let request = LogRequest::decode(message)?;
                match shared.open_stream() {
                    Ok(()) => {
                        let replay = Replay::new(&shared.log, request);
                        self.replays.insert(stream, replay);
                    }
                    Err(failure) => self.fail(stream, &failure),
                }
            }
            (stream, FrameKind::Dial) => {
                let request = DialRequest::decode(message)?;
                if let Err(errno) = self.dial(stream, request, shared) {
                    self.closed(stream, ClosedReport { errno: errno.0 });
                }
            }
            (
                stream,
                kind @ (FrameKind::Stdin
                | FrameKind::StdinEnd
                | FrameKind::Signal
                | FrameKind::Kill
                | FrameKind::Resize
                | FrameKind::Credit),
            ) => {
                if let Some(execution) = self.executions.get_mut(&stream) {
                    execution.frame(kind, message, &mut self.connection.outgoing)?;
                } else if let Some(replay) = self.replays.get_mut(&stream) {
                    replay.frame(kind, message)?;
                } else if let Some(connection) = self.connections.get_mut(&stream) {
                    connection.frame(stream, kind, message, &mut self.connection.outgoing)?;
                }
                // The stream has ended: this frame was sent before the client knew.
            }
            _ => return Err(ProtocolError::Unexpected("kind of frame from the host")),
        }
        Ok(())
    }

    fn is_open(&self, stream: u32) -> bool {
        self.executions.contains_key(&stream)
            || self.replays.contains_key(&stream)
            || self.connections.contains_key(&stream)
    }

    fn fail(&mut self, stream: u32, failure: &Failure) {
        self.connection
            .outgoing
            .message(stream, FrameKind::Failed, &failure.encode());
    }

    fn closed(&mut self, stream: u32, report: ClosedReport) {
        self.connection
            .outgoing
            .message(stream, FrameKind::Closed, &report.encode());
    }

    fn dial(
        &mut self,
        stream: u32,
        request: DialRequest,
        shared: &mut SharedState,
    ) -> Result<(), Errno> {
        if !shared.open_connection() {
            return Err(Errno::EMFILE);
        }
        let socket = tcp::dial(request.port).inspect_err(|_| shared.close_connections(1))?;
        let connection = TcpStream::dialed(socket, request.port);
        self.connections.insert(stream, connection);
        Ok(())
    }

    fn start(
        &mut self,
        stream: u32,
        request: &ExecRequest,
        message: &[u8],
        shared: &mut SharedState,
    ) -> Result<(), Failure> {
        shared.check_running()?;
        shared.open_stream()?;
        let preforked = shared.prefork_pool.take(request, message);
        let execution = Execution::start(stream, &shared.sandbox, request, message, preforked)
            .inspect_err(|_| shared.close_streams(1))?;
        let name = StreamName {
            client: self.number,
            stream,
        };
        shared.supervisors.insert(execution.supervisor(), name);
        self.executions.insert(stream, execution);
        Ok(())
    }

    /// A descriptor of an execution is ready.
    pub(super) fn descriptor_ready(
        &mut self,
        stream: u32,
        part: ExecutionDescriptor,
        log: &mut OutputLog,
    ) {
        if let Some(execution) = self.executions.get_mut(&stream) {
            execution.descriptor_ready(part, &mut self.connection.outgoing, log);
        }
    }

    /// How many more connections of code it can carry.
    pub(super) fn room_for_connections(&self) -> usize {
        if !self.connection.is_alive() || !self.connection.outgoing.has_room() {
            return 0;
        }
        let open = self.connections.range(AGENT_STREAMS..).count();
        MAX_CONNECTIONS.saturating_sub(open)
    }

    /// Carries a connection of code.
    pub(super) fn carry(&mut self, connection: CodeConnection) {
        let CodeConnection {
            stream,
            request,
            socket,
        } = connection;
        self.connection
            .outgoing
            .message(stream, FrameKind::Connect, &request.encode());
        self.connections.insert(stream, TcpStream::accepted(socket));
    }

    /// Number of connections that the client has opened.
    fn dialed(&self) -> usize {
        self.connections.range(..AGENT_STREAMS).count()
    }

    /// The socket of a connection is ready.
    pub(super) fn connection_ready(&mut self, stream: u32) {
        if let Some(connection) = self.connections.get_mut(&stream) {
            connection.ready(stream, &mut self.connection.outgoing);
        }
    }

    /// The execution on `stream`.
    pub(super) fn execution(&mut self, stream: u32) -> Option<&mut Execution> {
        self.executions.get_mut(&stream)
    }

    /// All its executions.
    pub(super) fn executions(&mut self) -> impl Iterator<Item = &mut Execution> {
        self.executions.values_mut()
    }

    /// Whether a supervisor of one of its executions has vanished without a report.
    pub(super) fn has_lost_execution(&self) -> bool {
        self.executions.values().any(Execution::is_lost)
    }

    /// The next time at which [`Client::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        self.executions
            .values()
            .filter_map(Execution::next_moment)
            .min()
    }

    /// Handles expired timeouts.
    pub(super) fn tick(&mut self, now: MonotonicMicros) {
        for execution in self.executions.values_mut() {
            execution.tick(now);
        }
    }

    /// Removes finished executions and replays, and sends more of the log. With `log_complete`, no
    /// more output is added to the log. Returns whether an execution of code has ended.
    pub(super) fn advance(&mut self, shared: &mut SharedState, log_complete: bool) -> bool {
        let before = self.streams();
        let outgoing = &mut self.connection.outgoing;
        let mut code_exited = false;
        self.executions.retain(|_, execution| {
            let finished = execution.finish(outgoing);
            code_exited |= finished && !execution.is_builtin();
            !finished
        });
        let log = &shared.log;
        self.replays.retain(|stream, replay| {
            if log_complete {
                replay.end_at(log.end());
            }
            !replay.advance(*stream, log, outgoing)
        });
        shared.close_streams(before - self.streams());
        self.end_connections(shared);
        code_exited
    }

    /// Removes connections that have ended.
    fn end_connections(&mut self, shared: &mut SharedState) {
        let before = self.dialed();
        let outgoing = &mut self.connection.outgoing;
        self.connections.retain(|stream, connection| {
            let end = connection.end();
            if let Some(report) = end {
                outgoing.message(*stream, FrameKind::Closed, &report.encode());
            }
            end.is_none()
        });
        shared.close_connections(before - self.dialed());
    }

    /// Sends `failure` if the stream accepts it at once, closes the stream and kills the client's
    /// executions.
    pub(super) fn close(&mut self, failure: Option<&Failure>, shared: &mut SharedState) {
        if let Some(failure) = failure {
            self.fail(0, failure);
            self.connection.send();
        }
        self.connection.close();
        shared.close_streams(self.replays.len());
        self.replays.clear();
        shared.close_connections(self.dialed());
        self.connections.clear();
        for execution in self.executions.values_mut() {
            execution.kill(ExitKind::Killed);
            execution.abandon();
        }
    }

    /// Drops its executions. A supervisor whose socket closes kills its tree and exits.
    pub(super) fn drop_executions(&mut self) {
        self.executions.clear();
    }
}
