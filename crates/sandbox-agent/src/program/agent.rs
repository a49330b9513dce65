//! The agent at work: one loop over the stream, the executions and time.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::ToString,
    vec::Vec,
};
use core::convert::Infallible;

use sandbox_freestanding::{Descriptor, Pid, process};

use super::{
    connection::{Arrival, Connection},
    ending::Ending,
    exec::{Execution, Part, Spare, Sweep, drain},
    failing::{failure, refusal},
    log::Log,
    outgoing::FLOODED,
    polling::{Moment, POLLIN, POLLOUT, PollSet, after, now},
    reaping::{self, Reaped, reap},
    replay::Replay,
    sandbox::Sandbox,
};
use crate::protocol::{
    ExecRequest, ExitKind, FailStep, Failure, Header, Kind, MAX_STREAMS, Program, ProtocolError,
    Settings,
};

/// How long after the grace of a stop everything may take: the bound of a kill, and its report. Milliseconds.
const STOP_BOUND: u64 = 3500;

/// How long the end of everything may take, milliseconds.
const END_BOUND: u64 = 3500;

/// How long the last frames wait for the host to take them, milliseconds.
const LAST_WORDS: u64 = 1000;

/// How long after the end of the first execution a second one is prepared, milliseconds: a sandbox for one execution is
/// gone by then.
const SPARE_PAUSE: u64 = 1;

#[derive(Debug, Clone, Copy)]
enum Source {
    Host,
    Children,
    Execution(u32, Part),
}

#[derive(Debug)]
struct Stopping {
    kill_at: Moment,
    give_up: Moment,
    killed: bool,
}

/// The agent.
#[derive(Debug)]
pub(super) struct Agent {
    sandbox: Sandbox,
    executions: BTreeMap<u32, Execution>,
    replays: BTreeMap<u32, Replay>,
    /// Supervisors that have not been reaped, with their streams.
    supervisors: BTreeMap<Pid, u32>,
    /// The next execution, while no code runs.
    spare: Option<Spare>,
    /// How many executions of code have been started.
    begun: u32,
    /// When a spare execution is made, if no code runs then.
    spare_at: Moment,
    log: Log,
    sweep: Option<Sweep>,
    stopping: Option<Stopping>,
    owned: bool,
    lease: Option<u64>,
    lease_end: Moment,
}

impl Agent {
    /// An agent without executions.
    ///
    /// # Errors
    ///
    /// When there is no memory for the log.
    pub(super) fn new(sandbox: Sandbox, settings: &Settings) -> Result<Self, Failure> {
        let lease = (settings.lease_ms > 0).then_some(settings.lease_ms);
        let log = Log::new(settings.log_bytes as usize)
            .map_err(|errno| failure(FailStep::Settings, errno, "memory of the log"))?;
        Ok(Self {
            sandbox,
            executions: BTreeMap::new(),
            replays: BTreeMap::new(),
            supervisors: BTreeMap::new(),
            spare: None,
            begun: 0,
            spare_at: Moment::MAX,
            log,
            sweep: None,
            stopping: None,
            owned: settings.owned,
            lease,
            lease_end: lease.map_or(Moment::MAX, |lease| after(now(), lease)),
        })
    }

    /// Serves until the end, and ends everything.
    pub(super) fn run(mut self, mut connection: Connection) -> Ending {
        let ending = match self.work(&mut connection) {
            Ok(never) => match never {},
            Err(ending) => ending,
        };
        if ending != Ending::Stopped || !self.executions.is_empty() {
            self.end_all();
        }
        if let Some(failure) = ending.failure() {
            connection
                .outgoing
                .message(0, Kind::Failed, &failure.encode());
        }
        connection.send_all(LAST_WORDS);
        ending
    }

    fn work(&mut self, connection: &mut Connection) -> Result<Infallible, Ending> {
        let mut set = PollSet::new();
        let mut events = Vec::new();
        // What came together with the settings is here already.
        self.dispatch(connection)?;
        loop {
            self.advance(connection)?;
            connection.send();
            if !connection.alive {
                self.stream_ended()?;
            }
            self.make_spare();
            self.collect(connection, &mut set);
            let until = self.next_moment();
            set.wait(until)
                .map_err(|errno| Ending::Broken(failure(FailStep::Settings, errno, "ppoll")))?;
            events.clear();
            events.extend(set.happened());
            for (source, _) in &events {
                match *source {
                    Source::Host => self.hear(connection)?,
                    Source::Children => self.reap(),
                    Source::Execution(stream, part) => {
                        if let Some(execution) = self.executions.get_mut(&stream) {
                            execution.happened(part, &mut connection.outgoing, &mut self.log);
                        }
                    }
                }
            }
        }
    }

    fn collect(&self, connection: &Connection, set: &mut PollSet<Source>) {
        set.clear();
        if connection.alive {
            let ends = connection.ends;
            let listen = connection.outgoing.len() < FLOODED;
            let mut events = if listen { POLLIN } else { 0 };
            if !connection.outgoing.is_empty() {
                if ends.input == ends.output {
                    events |= POLLOUT;
                } else {
                    set.add(ends.output, POLLOUT, Source::Host);
                }
            }
            set.add(ends.input, events, Source::Host);
        }
        set.add(self.sandbox.child_ended.raw(), POLLIN, Source::Children);
        let room = connection.outgoing.has_room();
        for execution in self.executions.values() {
            execution.wants(room, set, Source::Execution);
        }
    }

    fn next_moment(&self) -> Option<Moment> {
        let stopping = self.stopping.as_ref().map(|stopping| {
            if stopping.killed {
                stopping.give_up
            } else {
                stopping.kill_at
            }
        });
        self.executions
            .values()
            .filter_map(Execution::next_moment)
            .chain(self.sweep.as_ref().map(Sweep::next))
            .chain(stopping)
            .chain(self.lease.map(|_| self.lease_end))
            .chain((self.spare_at != Moment::MAX).then_some(self.spare_at))
            .min()
    }

    /// The stream can be read, written, or has ended.
    fn hear(&mut self, connection: &mut Connection) -> Result<(), Ending> {
        if connection.outgoing.len() >= FLOODED || !connection.alive {
            return Ok(());
        }
        match connection.receive() {
            Arrival::Bytes => {
                if let Some(lease) = self.lease {
                    self.lease_end = after(now(), lease);
                }
                self.dispatch(connection)
            }
            Arrival::Nothing => Ok(()),
            Arrival::End => {
                connection.alive = false;
                Ok(())
            }
        }
    }

    /// The host is gone, which reading or writing has shown.
    fn stream_ended(&self) -> Result<(), Ending> {
        // Without a lease nothing would ever end it.
        if self.owned || self.lease.is_none() {
            Err(Ending::OwnerGone)
        } else {
            Ok(())
        }
    }

    fn dispatch(&mut self, connection: &mut Connection) -> Result<(), Ending> {
        let mut incoming = core::mem::take(&mut connection.incoming);
        let mut assembler = core::mem::take(&mut connection.assembler);
        while let Some(frame) = incoming.next_frame()? {
            let header = frame.header;
            if header.more && header.kind == Kind::Stdin {
                return Err(ProtocolError::BadValue("flags of data").into());
            }
            if let Some(message) = assembler.push(header, frame.payload)? {
                self.message(header, message, connection)?;
            }
        }
        connection.incoming = incoming;
        connection.assembler = assembler;
        Ok(())
    }

    fn message(
        &mut self,
        header: Header,
        message: &[u8],
        connection: &mut Connection,
    ) -> Result<(), Ending> {
        let outgoing = &mut connection.outgoing;
        match (header.stream, header.kind) {
            (0, Kind::Ping) => outgoing.message(0, Kind::Pong, message),
            (0, Kind::Stop) => {
                let grace = message
                    .try_into()
                    .map_err(|_| ProtocolError::BadValue("grace"))?;
                self.stop(u32::from_le_bytes(grace));
            }
            (0, _) => return Err(ProtocolError::Unexpected("frame on stream 0").into()),
            (stream, Kind::Exec) => {
                if self.is_open(stream) {
                    return Err(ProtocolError::Unexpected("second use of a stream").into());
                }
                let request = ExecRequest::decode(message)?;
                match self.start(stream, &request, message) {
                    Ok(execution) => {
                        self.supervisors.insert(execution.supervisor(), stream);
                        self.executions.insert(stream, execution);
                    }
                    Err(failure) => outgoing.message(stream, Kind::Failed, &failure.encode()),
                }
            }
            (stream, Kind::Logs) => {
                if self.is_open(stream) {
                    return Err(ProtocolError::Unexpected("second use of a stream").into());
                }
                let tail = message
                    .try_into()
                    .map_err(|_| ProtocolError::BadValue("tail"))?;
                match self.check_room() {
                    Ok(()) => {
                        let replay = Replay::new(&self.log, u32::from_le_bytes(tail));
                        self.replays.insert(stream, replay);
                    }
                    Err(failure) => outgoing.message(stream, Kind::Failed, &failure.encode()),
                }
            }
            (
                stream,
                kind @ (Kind::Stdin | Kind::StdinEnd | Kind::Signal | Kind::Kill | Kind::Credit),
            ) => {
                if let Some(execution) = self.executions.get_mut(&stream) {
                    execution.frame(kind, message, outgoing)?;
                } else if let Some(replay) = self.replays.get_mut(&stream) {
                    replay.frame(kind, message)?;
                }
                // A stream that has ended: the frames crossed on their way.
            }
            _ => return Err(ProtocolError::Unexpected("kind of frame from the host").into()),
        }
        Ok(())
    }

    fn is_open(&self, stream: u32) -> bool {
        self.executions.contains_key(&stream) || self.replays.contains_key(&stream)
    }

    fn check_room(&self) -> Result<(), Failure> {
        if self.executions.len() + self.replays.len() >= MAX_STREAMS {
            let detail = MAX_STREAMS.to_string() + " streams are open already";
            return Err(refusal(FailStep::Request, detail));
        }
        Ok(())
    }

    fn start(
        &mut self,
        stream: u32,
        request: &ExecRequest,
        message: &[u8],
    ) -> Result<Execution, Failure> {
        self.check_room()?;
        if self.stopping.is_some() {
            return Err(refusal(FailStep::Request, "the sandbox is being stopped"));
        }
        let routine = matches!(request.program, Program::Builtin(_));
        let mut spare = None;
        if !routine {
            self.begun = self.begun.saturating_add(1);
            self.spare_at = Moment::MAX;
            // Where it does not suit, it ends here all the same: code is about to run.
            spare = self.spare.take();
            spare = spare.filter(|_| Spare::suits(request, message));
        }
        Execution::start(stream, &self.sandbox, request, message, spare)
    }

    /// Makes a spare execution when it is time for one.
    fn make_spare(&mut self) {
        if self.spare_at > now() {
            return;
        }
        self.spare_at = Moment::MAX;
        // Without one, the next execution is made when it is asked for, and says what fails.
        self.spare = Spare::start(&self.sandbox).ok();
    }

    /// Code has ended: if it was the last, it is time for a spare execution soon.
    fn plan_spare(&mut self) {
        let code_runs = !self.executions.values().all(Execution::is_routine);
        if code_runs || self.stopping.is_some() || self.sweep.is_some() || self.spare.is_some() {
            return;
        }
        let pause = if self.begun > 1 { 0 } else { SPARE_PAUSE };
        self.spare_at = after(now(), pause);
    }

    fn stop(&mut self, grace: u32) {
        if self.stopping.is_some() {
            return;
        }
        self.spare = None;
        self.spare_at = Moment::MAX;
        for execution in self.executions.values_mut() {
            execution.terminate();
        }
        let kill_at = after(now(), u64::from(grace));
        self.stopping = Some(Stopping {
            kill_at,
            give_up: after(kill_at, STOP_BOUND),
            killed: false,
        });
    }

    fn reap(&mut self) {
        drain(&self.sandbox.child_ended);
        loop {
            match reap() {
                Some(Reaped::Ended(pid)) => {
                    if let Some(stream) = self.supervisors.remove(&pid)
                        && let Some(execution) = self.executions.get_mut(&stream)
                        && execution.supervisor() == pid
                    {
                        execution.supervisor_ended();
                    }
                }
                Some(Reaped::Stopped(pid)) => {
                    // Only code of the agent's own identity does this to a supervisor. It would never report.
                    if self.supervisors.contains_key(&pid) {
                        reaping::kill(pid);
                    }
                }
                None => return,
            }
        }
    }

    /// What follows from all that has happened, and from time.
    fn advance(&mut self, connection: &mut Connection) -> Result<(), Ending> {
        let now = now();
        if self.lease.is_some() && now >= self.lease_end {
            return Err(Ending::LeaseOver);
        }
        for execution in self.executions.values_mut() {
            execution.tick(now);
        }
        self.sweep();
        let outgoing = &mut connection.outgoing;
        let mut code_ended = false;
        self.executions.retain(|_, execution| {
            let finished = execution.finish(outgoing);
            code_ended |= finished && !execution.is_routine();
            !finished
        });
        if code_ended {
            self.plan_spare();
        }
        let outgoing = &mut connection.outgoing;
        let log = &self.log;
        self.replays
            .retain(|stream, replay| !replay.advance(*stream, log, outgoing));
        self.advance_stop(now, connection)
    }

    fn sweep(&mut self) {
        if self.sweep.is_none() && self.executions.values().any(Execution::is_lost) {
            self.sweep = Some(Sweep::new());
        }
        let Some(sweep) = &mut self.sweep else { return };
        let spare = self.spare.iter().map(Spare::supervisor);
        let supervisors: BTreeSet<Pid> = self.supervisors.keys().copied().chain(spare).collect();
        if let Some(swept) = sweep.round(self.sandbox.files.as_ref(), &supervisors) {
            self.sweep = None;
            for execution in self.executions.values_mut() {
                execution.swept(swept);
            }
        }
    }

    fn advance_stop(&mut self, now: Moment, connection: &mut Connection) -> Result<(), Ending> {
        let Some(stopping) = &mut self.stopping else {
            return Ok(());
        };
        if now >= stopping.kill_at && !stopping.killed {
            stopping.killed = true;
            for execution in self.executions.values_mut() {
                execution.kill(ExitKind::Killed);
            }
        }
        let quiet = self.executions.is_empty() && self.replays.is_empty();
        if quiet || now >= stopping.give_up {
            connection.outgoing.message(0, Kind::Stopped, &[]);
            return Err(Ending::Stopped);
        }
        Ok(())
    }

    /// Ends every process. Process 1 need not: its end is everybody's.
    fn end_all(&mut self) {
        if process::current() == Pid(1) {
            return;
        }
        // A supervisor whose socket closes kills its tree and ends.
        self.executions.clear();
        self.spare = None;
        let end = after(now(), END_BOUND);
        let mut set = PollSet::new();
        set.add(self.sandbox.child_ended.raw(), POLLIN, ());
        while !self.supervisors.is_empty() && now() < end {
            // An error only shortens the wait.
            let _ = set.wait(Some(end));
            self.reap();
        }
        for pid in self.supervisors.keys() {
            reaping::kill(*pid);
        }
        let mut sweep = Sweep::new();
        while sweep
            .round(self.sandbox.files.as_ref(), &BTreeSet::new())
            .is_none()
        {
            // As above.
            let _ = set.wait(Some(sweep.next()));
            self.reap();
        }
    }
}
