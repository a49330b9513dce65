//! One client: its stream, and the executions and replays that it has opened.

use alloc::collections::BTreeMap;

use super::{
    common::{Common, StreamName},
    connection::{Arrival, Chunk, Connection},
    exec::{Execution, Part},
    log::Log,
    polling::{Moment, POLLIN, POLLOUT, PollSet},
    replay::Replay,
};
use crate::protocol::{ExecRequest, ExitKind, Failure, Header, Kind, LogRequest, ProtocolError};

/// What something happened to, of one client.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Stream,
    Execution(u32, Part),
}

/// A client. One whose stream has ended stays until its executions have.
#[derive(Debug)]
pub(super) struct Client {
    /// 0 for the one that the agent was started for.
    pub(super) number: u32,
    pub(super) connection: Connection,
    executions: BTreeMap<u32, Execution>,
    replays: BTreeMap<u32, Replay>,
    /// When it is given up, unless something comes from it first.
    pub(super) silent_until: Moment,
}

impl Client {
    pub(super) fn new(number: u32, connection: Connection, silent_until: Moment) -> Self {
        Self {
            number,
            connection,
            executions: BTreeMap::new(),
            replays: BTreeMap::new(),
            silent_until,
        }
    }

    /// Whether nothing is left of it.
    pub(super) fn is_over(&self) -> bool {
        !self.connection.is_alive() && self.executions.is_empty()
    }

    /// How many streams are open.
    pub(super) fn streams(&self) -> usize {
        self.executions.len() + self.replays.len()
    }

    /// Whether any of its executions is code.
    pub(super) fn runs_code(&self) -> bool {
        !self.executions.values().all(Execution::is_routine)
    }

    /// Whether any execution has not ended.
    pub(super) fn has_executions(&self) -> bool {
        !self.executions.is_empty()
    }

    /// Adds what is to be waited for.
    pub(super) fn wants<T: Copy>(&self, set: &mut PollSet<T>, meaning: impl Fn(Place) -> T) {
        if let Some((input, output)) = self.connection.ends() {
            let mut events = if self.connection.listens() { POLLIN } else { 0 };
            if self.connection.has_to_write() {
                match output {
                    None => events |= POLLOUT,
                    Some(output) => set.add(output, POLLOUT, meaning(Place::Stream)),
                }
            }
            set.add(input, events, meaning(Place::Stream));
        }
        let room = self.connection.outgoing.has_room();
        for execution in self.executions.values() {
            execution.wants(room, set, |stream, part| {
                meaning(Place::Execution(stream, part))
            });
        }
    }

    /// Reads once.
    pub(super) fn hear(&mut self, chunk: &mut Chunk) -> Arrival {
        if self.connection.listens() && self.connection.has_stream() {
            self.connection.receive(chunk)
        } else {
            Arrival::Nothing
        }
    }

    /// Takes the messages that are whole.
    ///
    /// # Errors
    ///
    /// When one breaks the protocol; the connection cannot go on then.
    pub(super) fn dispatch(&mut self, common: &mut Common) -> Result<(), ProtocolError> {
        let mut incoming = core::mem::take(&mut self.connection.incoming);
        let mut assembler = core::mem::take(&mut self.connection.assembler);
        while let Some(frame) = incoming.next_frame()? {
            let header = frame.header;
            if header.more && header.kind == Kind::Stdin {
                return Err(ProtocolError::BadValue("flags of data"));
            }
            if let Some(message) = assembler.push(header, frame.payload)? {
                self.message(header, message, common)?;
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
        common: &mut Common,
    ) -> Result<(), ProtocolError> {
        match (header.stream, header.kind) {
            (0, Kind::Ping) => self.connection.outgoing.message(0, Kind::Pong, message),
            (0, Kind::Stop) => {
                let grace = message
                    .try_into()
                    .map_err(|_| ProtocolError::BadValue("grace"))?;
                common.ask_to_stop(u32::from_le_bytes(grace));
            }
            (0, _) => return Err(ProtocolError::Unexpected("frame on stream 0")),
            (stream, Kind::Exec | Kind::Logs) if self.is_open(stream) => {
                return Err(ProtocolError::Unexpected("second use of a stream"));
            }
            (stream, Kind::Exec) => {
                let request = ExecRequest::decode(message)?;
                match self.start(stream, &request, message, common) {
                    Ok(()) => {}
                    Err(failure) => self.fail(stream, &failure),
                }
            }
            (stream, Kind::Logs) => {
                let request = LogRequest::decode(message)?;
                match common.open_stream() {
                    Ok(()) => {
                        let replay = Replay::new(&common.log, request);
                        self.replays.insert(stream, replay);
                    }
                    Err(failure) => self.fail(stream, &failure),
                }
            }
            (
                stream,
                kind @ (Kind::Stdin | Kind::StdinEnd | Kind::Signal | Kind::Kill | Kind::Credit),
            ) => {
                if let Some(execution) = self.executions.get_mut(&stream) {
                    execution.frame(kind, message, &mut self.connection.outgoing)?;
                } else if let Some(replay) = self.replays.get_mut(&stream) {
                    replay.frame(kind, message)?;
                }
                // A stream that has ended: the frames crossed on their way.
            }
            _ => return Err(ProtocolError::Unexpected("kind of frame from the host")),
        }
        Ok(())
    }

    fn is_open(&self, stream: u32) -> bool {
        self.executions.contains_key(&stream) || self.replays.contains_key(&stream)
    }

    fn fail(&mut self, stream: u32, failure: &Failure) {
        self.connection
            .outgoing
            .message(stream, Kind::Failed, &failure.encode());
    }

    fn start(
        &mut self,
        stream: u32,
        request: &ExecRequest,
        message: &[u8],
        common: &mut Common,
    ) -> Result<(), Failure> {
        common.check_running()?;
        common.open_stream()?;
        let spare = common.reserve.take(request, message);
        let execution = Execution::start(stream, &common.sandbox, request, message, spare)
            .inspect_err(|_| common.close_streams(1))?;
        let name = StreamName {
            client: self.number,
            stream,
        };
        common.supervisors.insert(execution.supervisor(), name);
        self.executions.insert(stream, execution);
        Ok(())
    }

    /// Something happened to a descriptor of an execution.
    pub(super) fn happened(&mut self, stream: u32, part: Part, log: &mut Log) {
        if let Some(execution) = self.executions.get_mut(&stream) {
            execution.happened(part, &mut self.connection.outgoing, log);
        }
    }

    /// One of its executions.
    pub(super) fn execution(&mut self, stream: u32) -> Option<&mut Execution> {
        self.executions.get_mut(&stream)
    }

    /// Its executions.
    pub(super) fn executions(&mut self) -> impl Iterator<Item = &mut Execution> {
        self.executions.values_mut()
    }

    /// Whether a supervisor of one of its executions vanished.
    pub(super) fn has_lost(&self) -> bool {
        self.executions.values().any(Execution::is_lost)
    }

    /// The next moment at which an execution has something to do.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        self.executions
            .values()
            .filter_map(Execution::next_moment)
            .min()
    }

    /// Does what time asks for.
    pub(super) fn tick(&mut self, now: Moment) {
        for execution in self.executions.values_mut() {
            execution.tick(now);
        }
    }

    /// Ends what has come to its end, and sends on what can be sent. Nothing more is written to the log with `log_ends`.
    /// Says whether code has ended.
    pub(super) fn advance(&mut self, common: &mut Common, log_ends: bool) -> bool {
        let before = self.streams();
        let outgoing = &mut self.connection.outgoing;
        let mut code_ended = false;
        self.executions.retain(|_, execution| {
            let finished = execution.finish(outgoing);
            code_ended |= finished && !execution.is_routine();
            !finished
        });
        let log = &common.log;
        self.replays.retain(|stream, replay| {
            if log_ends {
                replay.end_at(log.end());
            }
            !replay.advance(*stream, log, outgoing)
        });
        common.close_streams(before - self.streams());
        code_ended
    }

    /// Tells the client why, if it takes a word at once; then the stream ends, and with it all that it had opened.
    pub(super) fn depart(&mut self, failure: Option<&Failure>, common: &mut Common) {
        if let Some(failure) = failure {
            self.fail(0, failure);
            self.connection.send();
        }
        self.connection.close();
        common.close_streams(self.replays.len());
        self.replays.clear();
        for execution in self.executions.values_mut() {
            execution.kill(ExitKind::Killed);
            execution.abandon();
        }
    }

    /// Forgets its executions. A supervisor whose socket closes kills its tree and ends.
    pub(super) fn drop_executions(&mut self) {
        self.executions.clear();
    }
}
