//! Stopping on a client's request after a grace period, and killing everything.

use alloc::collections::BTreeSet;

use crate::runtime::{Pid, net, process};

use super::Agent;
use crate::{
    program::{
        client::Client,
        exec::Sweep,
        exit_reason::ExitReason,
        poll_set::{MonotonicMicros, POLLIN, POLLOUT, PollSet, after, now, wait_for},
        reaping,
        relay::SHUTDOWN_WRITING,
    },
    protocol::{ExitKind, FrameKind},
};

/// How long killing and reporting may take after the grace period of a stop, in milliseconds.
const STOP_TIMEOUT_MS: u64 = 3500;

/// How long a stop waits after the last execution for clients to read the rest of the log, in
/// milliseconds.
const LOG_TIMEOUT_MS: u64 = 1000;

/// How long killing every process may take, in milliseconds.
const KILL_TIMEOUT_MS: u64 = 3500;

/// How long the last frames wait for a client to accept any of them, in milliseconds.
const FLUSH_TIMEOUT_MS: u64 = 1000;

/// How long the last frames wait for all clients together, in milliseconds.
const TOTAL_FLUSH_TIMEOUT_MS: u64 = 3000;

/// How long the proxy processes may take to relay the last frames and to exit, in milliseconds.
const PROXIES_TIMEOUT_MS: u64 = 500;

#[derive(Debug)]
pub(super) struct Stopping {
    kill_at: MonotonicMicros,
    give_up_at: MonotonicMicros,
    killed: bool,
    /// When the wait for clients to read the rest of the log ends.
    logs_until: Option<MonotonicMicros>,
}

impl Stopping {
    /// The next time at which [`Agent::advance_stop`] has something to do.
    pub(super) fn next_moment(&self) -> MonotonicMicros {
        let next = if self.killed {
            self.give_up_at
        } else {
            self.kill_at
        };
        next.min(self.logs_until.unwrap_or(next))
    }
}

impl Agent {
    pub(super) fn begin_stop(&mut self, now: MonotonicMicros) {
        let Some(grace) = self.shared.stop_grace() else {
            return;
        };
        if self.stopping.is_some() {
            return;
        }
        self.shared.prefork_pool.close();
        for execution in self.clients.iter_mut().flat_map(Client::executions) {
            execution.terminate();
        }
        let kill_at = after(now, u64::from(grace));
        self.stopping = Some(Stopping {
            kill_at,
            give_up_at: after(kill_at, STOP_TIMEOUT_MS),
            killed: false,
            logs_until: None,
        });
    }

    pub(super) fn advance_stop(&mut self, now: MonotonicMicros) -> Result<(), ExitReason> {
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
                .get_or_insert_with(|| after(now, LOG_TIMEOUT_MS));
            let quiet = self.clients.iter().all(|client| client.streams() == 0);
            if quiet || now >= until {
                return Err(self.finish_stop());
            }
        }
        if now >= stopping.give_up_at {
            return Err(self.finish_stop());
        }
        Ok(())
    }

    fn finish_stop(&mut self) -> ExitReason {
        // The client that asked for the stop destroys the sandbox on its answer, so all other
        // output is written first.
        self.send_all();
        self.broadcast(FrameKind::Stopped, &[]);
        ExitReason::Stopped
    }

    pub(super) fn broadcast(&mut self, kind: FrameKind, message: &[u8]) {
        for client in &mut self.clients {
            client.connection.outgoing.message(0, kind, message);
        }
    }

    /// Writes all pending output to all clients, within a timeout.
    pub(super) fn send_all(&mut self) {
        let bound = after(now(), TOTAL_FLUSH_TIMEOUT_MS);
        let mut set = PollSet::new();
        loop {
            set.clear();
            for client in &mut self.clients {
                let connection = &mut client.connection;
                connection.send();
                if let (true, Some(output)) = (connection.has_to_write(), connection.output()) {
                    set.add(output, POLLOUT, ());
                }
            }
            let started = now();
            if set.is_empty() || started >= bound {
                return;
            }
            let waited = set.wait(Some(after(started, FLUSH_TIMEOUT_MS).min(bound)));
            if waited.is_err() || set.ready().next().is_none() {
                return;
            }
        }
    }

    /// Waits until the proxy processes have exited, which means that they have relayed the last
    /// frames. If the agent is process 1, its own exit would kill them too early.
    pub(super) fn await_proxies(&mut self) {
        let Some(first_proxied) = self.first_proxied else {
            return;
        };
        if process::current() != Pid(1) {
            return;
        }
        let bound = after(now(), PROXIES_TIMEOUT_MS);
        let sockets = self
            .clients
            .iter()
            .filter(|client| client.number >= first_proxied)
            .filter_map(|client| client.connection.output());
        for socket in sockets {
            // The proxy has already exited.
            if net::shutdown(socket, SHUTDOWN_WRITING).is_err() {
                continue;
            }
            // Only the hang-up counts; input is not read.
            let remaining = bound.saturating_sub(now()) / 1000;
            wait_for(socket, 0, Some(remaining));
        }
    }

    /// Kills every process. If the agent is process 1, its exit does so.
    pub(super) fn kill_all(&mut self) {
        if process::current() == Pid(1) {
            return;
        }
        for client in &mut self.clients {
            client.drop_executions();
        }
        self.shared.prefork_pool.close();
        let end = after(now(), KILL_TIMEOUT_MS);
        let mut set = PollSet::new();
        set.add(self.shared.sandbox.child_ended.as_raw(), POLLIN, ());
        while !self.shared.supervisors.is_empty() && now() < end {
            // An error only shortens the wait.
            let _ = set.wait(Some(end));
            self.reap();
        }
        for pid in self.shared.supervisors.keys() {
            reaping::kill(*pid);
        }
        let mut sweep = Sweep::new();
        while sweep
            .round(self.shared.sandbox.procfs.as_ref(), &BTreeSet::new())
            .is_none()
        {
            // An error only shortens the wait.
            let _ = set.wait(Some(sweep.next()));
            self.reap();
        }
    }
}
