//! The agent at work: one loop over its clients, their executions and time.

mod clients;
mod end;

use alloc::{collections::BTreeSet, vec::Vec};
use core::convert::Infallible;

use crate::runtime::{Descriptor, Fd, Pid};

use self::end::Stopping;
use super::{
    client::{self, Client},
    common::{Common, StreamName},
    connection::{Chunk, Connection},
    door::{self, Door},
    ending::Ending,
    exec::{Execution, Spare, Sweep, drain},
    failing::{failure, refusal},
    log::Log,
    polling::{Moment, POLLIN, PollSet, after, now},
    reaping::{self, Reaped, reap},
    sandbox::Sandbox,
};
use crate::protocol::{FailStep, Failure, Kind, Settings, Welcome};

/// The number of the client that the agent was started for.
const FIRST: u32 = 0;

#[derive(Debug, Clone, Copy)]
enum Source {
    Client(usize, client::Place),
    Children,
    Door(door::Place),
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
        for client in &mut self.clients {
            client.connection.finish();
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
                let had_stream = connection.has_stream();
                connection.send();
                if had_stream && !connection.has_stream() {
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
                    Source::Door(place) => self.let_in(place)?,
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
        self.clients
            .iter()
            .filter_map(Client::next_moment)
            .chain(self.silent_until())
            .chain((0..self.clients.len()).filter_map(|index| self.away_until(index)))
            .chain(self.sweep.as_ref().map(Sweep::next))
            .chain(self.stopping.as_ref().map(Stopping::next_moment))
            .chain(self.lease.map(|_| self.lease_end))
            .chain(self.lifetime_end)
            .chain(self.door.as_ref().and_then(Door::next_moment))
            .chain(self.common.reserve.next_moment())
            .min()
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
            if now >= client.silent_until && client.connection.has_stream() {
                self.dismiss(index, &refusal(FailStep::Protocol, "silent for too long"));
            }
            if self.away_until(index).is_some_and(|until| now >= until) {
                if self.is_vital(index) {
                    return Err(Ending::LeaseOver);
                }
                self.dismiss(index, &refusal(FailStep::Protocol, "away for too long"));
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
}
