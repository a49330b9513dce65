//! The agent's main loop over its clients, executions and timeouts.

mod clients;
mod shutdown;

use alloc::{collections::BTreeSet, vec::Vec};
use core::convert::Infallible;

use crate::runtime::{Descriptor, Fd, Pid};

use self::shutdown::Stopping;
use super::{
    client::{Client, ClientEvent},
    connection::{Connection, ReadBuffer},
    control_listener::{ControlListener, ListenerEvent},
    egress::{CodeConnection, Egress, EgressEvent},
    exec::{Execution, PreforkedExec, Sweep, drain},
    exit_reason::ExitReason,
    failures::{failure, refusal},
    output_log::OutputLog,
    poll_set::{MonotonicMicros, POLLIN, PollSet, after, now},
    prepared_sandbox::PreparedSandbox,
    reaping::{self, Reaped, reap},
    shared::{SharedState, StreamName},
};
use crate::protocol::{AgentSettings, FailStep, Failure, FrameKind, Welcome};

/// The number of the client that started the agent.
pub(super) const FIRST_CLIENT: u32 = 0;

#[derive(Debug, Clone, Copy)]
enum AgentEvent {
    Client(usize, ClientEvent),
    Children,
    Listener(ListenerEvent),
    Egress(EgressEvent),
}

/// Which clients are connected through a `sandbox-agent connect` process beside the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxiedClients {
    /// None.
    None,
    /// All but the first.
    Later,
    /// All, the first included.
    All,
}

/// The agent.
#[derive(Debug)]
pub(super) struct Agent {
    shared: SharedState,
    /// Indices are valid within one poll iteration; disconnected clients are removed between
    /// iterations.
    clients: Vec<Client>,
    last_number: u32,
    listener: Option<ControlListener>,
    welcome: Welcome,
    read_buffer: ReadBuffer,
    sweep: Option<Sweep>,
    stopping: Option<Stopping>,
    owned: bool,
    /// Whether `owned` and `lease` apply only until a later client has connected.
    detached_after_attach: bool,
    /// The number of the first client that is connected through a proxy process, as are all later
    /// ones. If the agent is process 1, its exit kills these processes.
    first_proxied: Option<u32>,
    lease: Option<u64>,
    lease_end: MonotonicMicros,
    lifetime_end: Option<MonotonicMicros>,
}

impl Agent {
    /// Creates an agent without executions. Later clients connect to `listener`.
    ///
    /// # Errors
    ///
    /// When memory for the log is missing, or `listener` is not a listening socket.
    pub(super) fn new(
        sandbox: PreparedSandbox,
        settings: &AgentSettings,
        welcome: Welcome,
        listener: Option<Fd>,
        read_buffer: ReadBuffer,
        egress: Option<Egress>,
    ) -> Result<Self, Failure> {
        let lease = (settings.lease_ms > 0).then_some(settings.lease_ms);
        let log = OutputLog::new(settings.log_bytes as usize)
            .map_err(|errno| failure(FailStep::Settings, errno, "memory of the log"))?;
        let listener = listener
            .map(|socket| ControlListener::new(socket, settings.key.clone()))
            .transpose()
            .map_err(|errno| failure(FailStep::Settings, errno, "listening socket"))?;
        Ok(Self {
            shared: SharedState::new(sandbox, log, egress),
            clients: Vec::new(),
            last_number: FIRST_CLIENT,
            listener,
            welcome,
            read_buffer,
            sweep: None,
            stopping: None,
            owned: settings.owned,
            detached_after_attach: settings.detached_after_attach,
            first_proxied: None,
            lease,
            lifetime_end: (settings.lifetime_ms > 0).then(|| after(now(), settings.lifetime_ms)),
            lease_end: lease.map_or(MonotonicMicros::MAX, |lease| after(now(), lease)),
        })
    }

    /// Sets which clients are connected through proxy processes.
    pub(super) fn with_proxied(mut self, proxied: ProxiedClients) -> Self {
        self.first_proxied = match proxied {
            ProxiedClients::None => None,
            ProxiedClients::Later => FIRST_CLIENT.checked_add(1),
            ProxiedClients::All => Some(FIRST_CLIENT),
        };
        self
    }

    /// Serves the first client's stream and all later clients until the agent ends, then kills
    /// everything.
    pub(super) fn run(mut self, mut connection: Connection) -> ExitReason {
        connection
            .outgoing
            .message(0, FrameKind::Welcome, &self.welcome.encode());
        self.clients
            .push(Client::new(FIRST_CLIENT, connection, MonotonicMicros::MAX));
        let ending = match self.serve_until_exit() {
            Ok(never) => match never {},
            Err(ending) => ending,
        };
        if ending != ExitReason::Stopped || self.clients.iter().any(Client::has_executions) {
            self.kill_all();
        }
        if let Some(failure) = ending.failure() {
            self.broadcast(FrameKind::Failed, &failure.encode());
        }
        for client in &mut self.clients {
            client.connection.finish();
        }
        self.send_all();
        self.await_proxies();
        ending
    }

    fn serve_until_exit(&mut self) -> Result<Infallible, ExitReason> {
        let mut set = PollSet::new();
        let mut events = Vec::new();
        // Frames that arrived together with the settings are in the buffer already.
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
            self.clients.retain(|client| !client.is_finished());
            self.shared.prefork_pool.tick(&self.shared.sandbox);
            self.collect(&mut set);
            let until = self.next_moment();
            set.wait(until)
                .map_err(|errno| ExitReason::Broken(failure(FailStep::Settings, errno, "ppoll")))?;
            events.clear();
            events.extend(set.ready());
            for (source, _) in &events {
                match *source {
                    AgentEvent::Client(index, ClientEvent::Stream) => self.receive(index)?,
                    AgentEvent::Client(index, ClientEvent::Execution(stream, part)) => {
                        self.clients[index].descriptor_ready(stream, part, &mut self.shared.log);
                    }
                    AgentEvent::Client(index, ClientEvent::Connection(stream)) => {
                        self.clients[index].connection_ready(stream);
                    }
                    AgentEvent::Children => self.reap(),
                    AgentEvent::Listener(place) => self.accept_clients(place)?,
                    AgentEvent::Egress(event) => self.egress_ready(event),
                }
            }
        }
    }

    fn collect(&self, set: &mut PollSet<AgentEvent>) {
        set.clear();
        set.add(
            self.shared.sandbox.child_ended.raw(),
            POLLIN,
            AgentEvent::Children,
        );
        for (index, client) in self.clients.iter().enumerate() {
            client.register(set, |place| AgentEvent::Client(index, place));
        }
        if let Some(listener) = &self.listener {
            listener.register(set, AgentEvent::Listener);
        }
        if let Some(egress) = &self.shared.egress {
            let carrier = self.clients.iter().find(|client| carries(client, egress));
            // Without a carrier, connections are reset at once.
            let accepts = carrier.is_none_or(|carrier| carrier.room_for_connections() > 0);
            egress.register(accepts, set, AgentEvent::Egress);
        }
    }

    fn next_moment(&self) -> Option<MonotonicMicros> {
        self.clients
            .iter()
            .filter_map(Client::next_moment)
            .chain(self.next_expiry())
            .chain((0..self.clients.len()).filter_map(|index| self.reconnect_deadline(index)))
            .chain(self.sweep.as_ref().map(Sweep::next))
            .chain(self.stopping.as_ref().map(Stopping::next_moment))
            .chain(self.lease.map(|_| self.lease_end))
            .chain(self.lifetime_end)
            .chain(
                self.listener
                    .as_ref()
                    .and_then(ControlListener::next_moment),
            )
            .chain(self.shared.prefork_pool.next_moment())
            .chain(self.shared.egress.as_ref().and_then(Egress::next_moment))
            .min()
    }

    /// A descriptor of the way out is ready. The carrier's connection takes what arrives.
    fn egress_ready(&mut self, event: EgressEvent) {
        let Some(egress) = &mut self.shared.egress else {
            return;
        };
        let carrier = self
            .clients
            .iter_mut()
            .find(|client| carries(client, egress));
        let room = carrier
            .as_ref()
            .map_or(usize::MAX, |carrier| carrier.room_for_connections());
        let connections = egress.ready(event, room);
        match carrier {
            Some(carrier) => connections
                .into_iter()
                .for_each(|connection| carrier.carry(connection)),
            None => connections.into_iter().for_each(CodeConnection::reset),
        }
    }

    fn reap(&mut self) {
        drain(&self.shared.sandbox.child_ended);
        loop {
            match reap() {
                Some(Reaped::Ended(pid)) => {
                    if let Some(name) = self.shared.supervisors.remove(&pid)
                        && let Some(execution) = self.execution(name)
                        && execution.supervisor() == pid
                    {
                        execution.supervisor_ended();
                    }
                }
                Some(Reaped::Stopped(pid)) => {
                    // Only code with the agent's own identity can stop a supervisor. A stopped
                    // supervisor would never report.
                    if self.shared.supervisors.contains_key(&pid) {
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

    /// Handles expired timeouts and the results of all events.
    fn advance(&mut self) -> Result<(), ExitReason> {
        let now = now();
        if self.lease.is_some() && now >= self.lease_end {
            return Err(ExitReason::LeaseOver);
        }
        if self.lifetime_end.is_some_and(|end| now >= end) {
            return Err(ExitReason::LifetimeOver);
        }
        if let Some(listener) = &mut self.listener {
            listener.tick(now);
        }
        if let Some(egress) = &mut self.shared.egress {
            egress.tick(now);
        }
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            client.tick(now);
            if now >= client.expires_at && client.connection.has_stream() {
                self.disconnect(index, &refusal(FailStep::Protocol, "silent for too long"));
            }
            if self
                .reconnect_deadline(index)
                .is_some_and(|until| now >= until)
            {
                if self.ends_sandbox(index) {
                    return Err(ExitReason::LeaseOver);
                }
                self.disconnect(index, &refusal(FailStep::Protocol, "away for too long"));
            }
        }
        self.sweep();
        self.begin_stop(now);
        let mut code_exited = false;
        let log_was_complete = self.log_complete();
        for client in &mut self.clients {
            code_exited |= client.advance(&mut self.shared, log_was_complete);
        }
        // The last execution ended just now: no event would wake this loop again.
        if !log_was_complete && self.log_complete() {
            for client in &mut self.clients {
                code_exited |= client.advance(&mut self.shared, true);
            }
        }
        if code_exited {
            self.schedule_prefork();
        }
        self.advance_stop(now)
    }

    /// Whether no more output can be added to the log.
    fn log_complete(&self) -> bool {
        self.stopping.is_some() && !self.clients.iter().any(Client::has_executions)
    }

    fn schedule_prefork(&mut self) {
        let code_runs = self.clients.iter().any(Client::runs_code);
        if !code_runs && self.stopping.is_none() && self.sweep.is_none() {
            self.shared.prefork_pool.schedule();
        }
    }

    fn sweep(&mut self) {
        if self.sweep.is_none() && self.clients.iter().any(Client::has_lost_execution) {
            self.sweep = Some(Sweep::new());
        }
        let Some(sweep) = &mut self.sweep else { return };
        let preforked = self
            .shared
            .prefork_pool
            .idle()
            .map(PreforkedExec::supervisor);
        let supervisors = self.shared.supervisors.keys().copied();
        let supervisors: BTreeSet<Pid> = supervisors.chain(preforked).collect();
        if let Some(swept) = sweep.round(self.shared.sandbox.procfs.as_ref(), &supervisors) {
            self.sweep = None;
            for execution in self.clients.iter_mut().flat_map(Client::executions) {
                execution.swept(swept);
            }
        }
    }
}

/// Whether the client carries the connections of code now.
fn carries(client: &Client, egress: &Egress) -> bool {
    client.number == egress.carrier() && client.connection.is_alive()
}
