//! The agent at work: one loop over its clients, their executions and time.

use alloc::{collections::BTreeSet, vec::Vec};
use core::convert::Infallible;

use sandbox_freestanding::{Descriptor, Fd, Pid, net, process};

use super::{
    client::{self, Client},
    common::{Common, StreamName},
    connect::SHUTDOWN_WRITING,
    connection::{Arrival, Chunk, Connection},
    door::{self, Door, refuse, too_many},
    ending::Ending,
    exec::{Execution, Spare, Sweep, drain},
    failing::{failure, refusal},
    log::Log,
    polling::{Moment, POLLIN, POLLOUT, PollSet, after, now, wait_for},
    reaping::{self, Reaped, reap},
    sandbox::Sandbox,
};
use crate::protocol::{
    ExitKind, FailStep, Failure, Kind, MAX_CLIENTS, ProtocolError, Settings, Welcome,
};

/// How long after the grace of a stop everything may take: the bound of a kill, and its report. Milliseconds.
const STOP_BOUND: u64 = 3500;

/// How long a stop waits, after the last execution, for clients to take what is left of the log. Milliseconds.
const LOG_BOUND: u64 = 1000;

/// How long the end of everything may take, milliseconds.
const END_BOUND: u64 = 3500;

/// How long the last frames wait for a host to take any of them, milliseconds.
const LAST_WORDS: u64 = 1000;

/// How long the last frames wait for all hosts together, milliseconds.
const LAST_WORDS_BOUND: u64 = 3000;

/// How long the processes that carry the last frames to later clients may take to pass them on and to end, milliseconds.
const CARRIERS_BOUND: u64 = 500;

/// How long a later client may be silent, or take no answers, where the settings name no lease, milliseconds. Hosts ping
/// every 5 s.
const SILENCE: u64 = 60_000;

/// The number of the client that the agent was started for.
const FIRST: u32 = 0;

#[derive(Debug, Clone, Copy)]
enum Source {
    Client(usize, client::Place),
    Children,
    Door(door::Place),
}

#[derive(Debug)]
struct Stopping {
    kill_at: Moment,
    give_up: Moment,
    killed: bool,
    /// Until when clients may take what is left of the log.
    logs_until: Option<Moment>,
}

/// Which clients come through a process beside the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// None.
    Nobody,
    /// Those behind the first.
    Later,
    /// The first as well.
    All,
}

/// The agent.
#[derive(Debug)]
pub(super) struct Agent {
    common: Common,
    /// The places of this list are those of one round: who leaves is removed between two.
    clients: Vec<Client>,
    last_number: u32,
    door: Option<Door>,
    welcome: Welcome,
    chunk: Chunk,
    sweep: Option<Sweep>,
    stopping: Option<Stopping>,
    owned: bool,
    /// Whether owner and lease count only until a later client has come.
    handed_over: bool,
    /// The first client that comes through a process beside the agent (`connect`), which process 1 takes with it; all behind it do.
    carried: Option<u32>,
    lease: Option<u64>,
    lease_end: Moment,
    lifetime_end: Option<Moment>,
}

impl Agent {
    /// An agent without executions. Later clients come in by the `listener`.
    ///
    /// # Errors
    ///
    /// When there is no memory for the log, or the listener is none.
    pub(super) fn new(
        sandbox: Sandbox,
        settings: &Settings,
        welcome: Welcome,
        listener: Option<Fd>,
        chunk: Chunk,
    ) -> Result<Self, Failure> {
        let lease = (settings.lease_ms > 0).then_some(settings.lease_ms);
        let log = Log::new(settings.log_bytes as usize)
            .map_err(|errno| failure(FailStep::Settings, errno, "memory of the log"))?;
        let door = listener
            .map(|socket| Door::new(socket, settings.key.clone()))
            .transpose()
            .map_err(|errno| failure(FailStep::Settings, errno, "listening socket"))?;
        Ok(Self {
            common: Common::new(sandbox, log),
            clients: Vec::new(),
            last_number: FIRST,
            door,
            welcome,
            chunk,
            sweep: None,
            stopping: None,
            owned: settings.owned,
            handed_over: settings.handed_over,
            carried: None,
            lease,
            lifetime_end: (settings.lifetime_ms > 0).then(|| after(now(), settings.lifetime_ms)),
            lease_end: lease.map_or(Moment::MAX, |lease| after(now(), lease)),
        })
    }

    /// The same, whose clients come through processes beside it: those that come later, or all.
    pub(super) fn carried(mut self, carried: Carried) -> Self {
        self.carried = match carried {
            Carried::Nobody => None,
            Carried::Later => FIRST.checked_add(1),
            Carried::All => Some(FIRST),
        };
        self
    }

    /// Serves the stream that the agent was started with, and all who come later, until the end; then ends everything.
    pub(super) fn run(mut self, mut connection: Connection) -> Ending {
        connection
            .outgoing
            .message(0, Kind::Welcome, &self.welcome.encode());
        self.clients
            .push(Client::new(FIRST, connection, Moment::MAX));
        let ending = match self.work() {
            Ok(never) => match never {},
            Err(ending) => ending,
        };
        if ending != Ending::Stopped || self.clients.iter().any(Client::has_executions) {
            self.end_all();
        }
        if let Some(failure) = ending.failure() {
            self.tell_all(Kind::Failed, &failure.encode());
        }
        self.send_all();
        self.await_carriers();
        ending
    }

    fn work(&mut self) -> Result<Infallible, Ending> {
        let mut set = PollSet::new();
        let mut events = Vec::new();
        // What came together with the settings is here already.
        self.dispatch(0)?;
        loop {
            self.advance()?;
            for index in 0..self.clients.len() {
                let connection = &mut self.clients[index].connection;
                let alive = connection.is_alive();
                connection.send();
                if alive && !connection.is_alive() {
                    self.stream_ended(index)?;
                }
            }
            self.clients.retain(|client| !client.is_over());
            self.common.reserve.tick(&self.common.sandbox);
            self.collect(&mut set);
            let until = self.next_moment();
            set.wait(until)
                .map_err(|errno| Ending::Broken(failure(FailStep::Settings, errno, "ppoll")))?;
            events.clear();
            events.extend(set.happened());
            for (source, _) in &events {
                match *source {
                    Source::Client(index, client::Place::Stream) => self.hear(index)?,
                    Source::Client(index, client::Place::Execution(stream, part)) => {
                        self.clients[index].happened(stream, part, &mut self.common.log);
                    }
                    Source::Children => self.reap(),
                    Source::Door(place) => self.let_in(place),
                }
            }
        }
    }

    fn collect(&self, set: &mut PollSet<Source>) {
        set.clear();
        set.add(
            self.common.sandbox.child_ended.raw(),
            POLLIN,
            Source::Children,
        );
        for (index, client) in self.clients.iter().enumerate() {
            client.wants(set, |place| Source::Client(index, place));
        }
        if let Some(door) = &self.door {
            door.wants(set, Source::Door);
        }
    }

    fn next_moment(&self) -> Option<Moment> {
        let stopping = self.stopping.as_ref().map(|stopping| {
            let next = if stopping.killed {
                stopping.give_up
            } else {
                stopping.kill_at
            };
            next.min(stopping.logs_until.unwrap_or(next))
        });
        self.clients
            .iter()
            .filter_map(Client::next_moment)
            .chain(self.silent_until())
            .chain(self.sweep.as_ref().map(Sweep::next))
            .chain(stopping)
            .chain(self.lease.map(|_| self.lease_end))
            .chain(self.lifetime_end)
            .chain(self.door.as_ref().and_then(Door::next_moment))
            .chain(self.common.reserve.next_moment())
            .min()
    }

    fn silent_until(&self) -> Option<Moment> {
        self.clients
            .iter()
            .filter(|client| client.connection.is_alive() && client.number != FIRST)
            .map(|client| client.silent_until)
            .min()
    }

    /// A stream can be read, written, or has ended.
    fn hear(&mut self, index: usize) -> Result<(), Ending> {
        let client = &mut self.clients[index];
        match client.hear(&mut self.chunk) {
            Arrival::Bytes => {
                if client.number != FIRST {
                    client.silent_until = after(now(), self.lease.unwrap_or(SILENCE));
                }
                if let Some(lease) = self.lease {
                    self.lease_end = after(now(), lease);
                }
                self.dispatch(index)
            }
            Arrival::Nothing => Ok(()),
            Arrival::End => self.stream_ended(index),
        }
    }

    fn dispatch(&mut self, index: usize) -> Result<(), Ending> {
        match self.clients[index].dispatch(&mut self.common) {
            Ok(()) => Ok(()),
            Err(error) if self.is_vital(index) => Err(error.into()),
            Err(error) => {
                self.dismiss(index, &broken(error));
                Ok(())
            }
        }
    }

    /// Whether everything ends with this client: its owner, or the only way to reach an agent that nothing else would end.
    fn is_vital(&self, index: usize) -> bool {
        self.clients[index].number == FIRST
            && (self.owned || (self.lease.is_none() && self.door.is_none()))
    }

    /// A client is gone, which reading or writing has shown.
    fn stream_ended(&mut self, index: usize) -> Result<(), Ending> {
        if self.is_vital(index) {
            return Err(Ending::OwnerGone);
        }
        self.clients[index].depart(None, &mut self.common);
        Ok(())
    }

    /// Ends a client that is not wanted any more.
    fn dismiss(&mut self, index: usize, failure: &Failure) {
        self.clients[index].depart(Some(failure), &mut self.common);
    }

    fn let_in(&mut self, place: door::Place) {
        let Some(door) = &mut self.door else { return };
        for socket in door.happened(place) {
            let alive = self
                .clients
                .iter()
                .filter(|client| client.connection.is_alive());
            if alive.count() >= MAX_CLIENTS {
                refuse(&socket, &too_many());
                continue;
            }
            // Four thousand million clients later, the first number would come again.
            let Some(number) = self.last_number.checked_add(1) else {
                refuse(&socket, &too_many());
                continue;
            };
            self.last_number = number;
            if self.handed_over {
                (self.owned, self.lease) = (false, None);
            }
            let mut connection = Connection::of_socket(socket);
            connection
                .outgoing
                .message(0, Kind::Welcome, &self.welcome.encode());
            let silent_until = after(now(), self.lease.unwrap_or(SILENCE));
            self.clients
                .push(Client::new(number, connection, silent_until));
        }
    }

    fn reap(&mut self) {
        drain(&self.common.sandbox.child_ended);
        loop {
            match reap() {
                Some(Reaped::Ended(pid)) => {
                    if let Some(name) = self.common.supervisors.remove(&pid)
                        && let Some(execution) = self.execution(name)
                        && execution.supervisor() == pid
                    {
                        execution.supervisor_ended();
                    }
                }
                Some(Reaped::Stopped(pid)) => {
                    // Only code of the agent's own identity does this to a supervisor. It would never report.
                    if self.common.supervisors.contains_key(&pid) {
                        reaping::kill(pid);
                    }
                }
                None => return,
            }
        }
    }

    fn execution(&mut self, name: StreamName) -> Option<&mut Execution> {
        self.clients
            .iter_mut()
            .find(|client| client.number == name.client)?
            .execution(name.stream)
    }

    /// What follows from all that has happened, and from time.
    fn advance(&mut self) -> Result<(), Ending> {
        let now = now();
        if self.lease.is_some() && now >= self.lease_end {
            return Err(Ending::LeaseOver);
        }
        if self.lifetime_end.is_some_and(|end| now >= end) {
            return Err(Ending::LifetimeOver);
        }
        if let Some(door) = &mut self.door {
            door.tick(now);
        }
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            client.tick(now);
            if now >= client.silent_until && client.connection.is_alive() {
                self.dismiss(index, &refusal(FailStep::Protocol, "silent for too long"));
            }
        }
        self.sweep();
        self.begin_stop(now);
        let mut code_ended = false;
        let log_ended = self.log_ends();
        for client in &mut self.clients {
            code_ended |= client.advance(&mut self.common, log_ended);
        }
        // With the last execution, which has ended just now: nothing else would wake this loop.
        if !log_ended && self.log_ends() {
            for client in &mut self.clients {
                code_ended |= client.advance(&mut self.common, true);
            }
        }
        if code_ended {
            self.plan_spare();
        }
        self.advance_stop(now)
    }

    /// Whether nothing is added to the log any more.
    fn log_ends(&self) -> bool {
        self.stopping.is_some() && !self.clients.iter().any(Client::has_executions)
    }

    fn plan_spare(&mut self) {
        let code_runs = self.clients.iter().any(Client::runs_code);
        if !code_runs && self.stopping.is_none() && self.sweep.is_none() {
            self.common.reserve.plan();
        }
    }

    fn sweep(&mut self) {
        if self.sweep.is_none() && self.clients.iter().any(Client::has_lost) {
            self.sweep = Some(Sweep::new());
        }
        let Some(sweep) = &mut self.sweep else { return };
        let spare = self.common.reserve.spare().map(Spare::supervisor);
        let supervisors = self.common.supervisors.keys().copied();
        let supervisors: BTreeSet<Pid> = supervisors.chain(spare).collect();
        if let Some(swept) = sweep.round(self.common.sandbox.files.as_ref(), &supervisors) {
            self.sweep = None;
            for execution in self.clients.iter_mut().flat_map(Client::executions) {
                execution.swept(swept);
            }
        }
    }

    fn begin_stop(&mut self, now: Moment) {
        let Some(grace) = self.common.stop_asked() else {
            return;
        };
        if self.stopping.is_some() {
            return;
        }
        self.common.reserve.end();
        for execution in self.clients.iter_mut().flat_map(Client::executions) {
            execution.terminate();
        }
        let kill_at = after(now, u64::from(grace));
        self.stopping = Some(Stopping {
            kill_at,
            give_up: after(kill_at, STOP_BOUND),
            killed: false,
            logs_until: None,
        });
    }

    fn advance_stop(&mut self, now: Moment) -> Result<(), Ending> {
        let Some(stopping) = &mut self.stopping else {
            return Ok(());
        };
        if now >= stopping.kill_at && !stopping.killed {
            stopping.killed = true;
            for execution in self.clients.iter_mut().flat_map(Client::executions) {
                execution.kill(ExitKind::Killed);
            }
        }
        if !self.clients.iter().any(Client::has_executions) {
            let until = *stopping
                .logs_until
                .get_or_insert_with(|| after(now, LOG_BOUND));
            let quiet = self.clients.iter().all(|client| client.streams() == 0);
            if quiet || now >= until {
                return Err(self.stopped());
            }
        }
        if now >= stopping.give_up {
            return Err(self.stopped());
        }
        Ok(())
    }

    fn stopped(&mut self) -> Ending {
        // Who asked for the stop destroys the sandbox once it is told: the others must have what is theirs by then.
        self.send_all();
        self.tell_all(Kind::Stopped, &[]);
        Ending::Stopped
    }

    fn tell_all(&mut self, kind: Kind, message: &[u8]) {
        for client in &mut self.clients {
            client.connection.outgoing.message(0, kind, message);
        }
    }

    /// Writes everything to everybody, within a bound.
    fn send_all(&mut self) {
        let bound = after(now(), LAST_WORDS_BOUND);
        let mut set = PollSet::new();
        loop {
            set.clear();
            for client in &mut self.clients {
                let connection = &mut client.connection;
                connection.send();
                if let (false, Some(output)) = (connection.outgoing.is_empty(), connection.output())
                {
                    set.add(output, POLLOUT, ());
                }
            }
            let begun = now();
            if set.is_empty() || begun >= bound {
                return;
            }
            let waited = set.wait(Some(after(begun, LAST_WORDS).min(bound)));
            if waited.is_err() || set.happened().next().is_none() {
                return;
            }
        }
    }

    /// Waits until those who carry the last frames out of the sandbox have passed them on, which their end shows: where the agent is
    /// process 1, its own end would kill them before.
    fn await_carriers(&mut self) {
        let Some(carried) = self.carried else {
            return;
        };
        if process::current() != Pid(1) {
            return;
        }
        let bound = after(now(), CARRIERS_BOUND);
        let later = self
            .clients
            .iter()
            .filter(|client| client.number >= carried)
            .filter_map(|client| client.connection.output());
        for socket in later {
            // One that is closed already has nobody behind it.
            if net::shutdown(socket, SHUTDOWN_WRITING).is_err() {
                continue;
            }
            // What still comes from it is not read: only its end counts.
            let left = bound.saturating_sub(now()) / 1000;
            wait_for(socket, 0, Some(left));
        }
    }

    /// Ends every process. Process 1 need not: its end is everybody's.
    fn end_all(&mut self) {
        if process::current() == Pid(1) {
            return;
        }
        for client in &mut self.clients {
            client.drop_executions();
        }
        self.common.reserve.end();
        let end = after(now(), END_BOUND);
        let mut set = PollSet::new();
        set.add(self.common.sandbox.child_ended.raw(), POLLIN, ());
        while !self.common.supervisors.is_empty() && now() < end {
            // An error only shortens the wait.
            let _ = set.wait(Some(end));
            self.reap();
        }
        for pid in self.common.supervisors.keys() {
            reaping::kill(*pid);
        }
        let mut sweep = Sweep::new();
        while sweep
            .round(self.common.sandbox.files.as_ref(), &BTreeSet::new())
            .is_none()
        {
            // As above.
            let _ = set.wait(Some(sweep.next()));
            self.reap();
        }
    }
}

fn broken(error: ProtocolError) -> Failure {
    refusal(
        FailStep::Protocol,
        alloc::string::ToString::to_string(&error),
    )
}
