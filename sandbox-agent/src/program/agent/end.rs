//! The end of everything: on a client's word after a grace, or at once.

use alloc::collections::BTreeSet;

use crate::runtime::{Pid, net, process};

use super::Agent;
use crate::{
    program::{
        client::Client,
        connect::SHUTDOWN_WRITING,
        ending::Ending,
        exec::Sweep,
        polling::{Moment, POLLIN, POLLOUT, PollSet, after, now, wait_for},
        reaping,
    },
    protocol::{ExitKind, Kind},
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

#[derive(Debug)]
pub(super) struct Stopping {
    kill_at: Moment,
    give_up: Moment,
    killed: bool,
    /// Until when clients may take what is left of the log.
    logs_until: Option<Moment>,
}

impl Stopping {
    /// The next moment at which [`Agent::advance_stop`] has something to do.
    pub(super) fn next_moment(&self) -> Moment {
        let next = if self.killed {
            self.give_up
        } else {
            self.kill_at
        };
        next.min(self.logs_until.unwrap_or(next))
    }
}

impl Agent {
    pub(super) fn begin_stop(&mut self, now: Moment) {
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

    pub(super) fn advance_stop(&mut self, now: Moment) -> Result<(), Ending> {
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

    pub(super) fn tell_all(&mut self, kind: Kind, message: &[u8]) {
        for client in &mut self.clients {
            client.connection.outgoing.message(0, kind, message);
        }
    }

    /// Writes everything to everybody, within a bound.
    pub(super) fn send_all(&mut self) {
        let bound = after(now(), LAST_WORDS_BOUND);
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
    pub(super) fn await_carriers(&mut self) {
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
    pub(super) fn end_all(&mut self) {
        if process::current() == Pid(1) {
            return;
        }
        for client in &mut self.clients {
            client.drop_executions();
        }
        self.common.reserve.end();
        let end = after(now(), END_BOUND);
        let mut set = PollSet::new();
        set.add(self.common.sandbox.child_ended.as_raw(), POLLIN, ());
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
