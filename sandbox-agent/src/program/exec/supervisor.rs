//! The supervisor: the parent of an execution's main process, and of every orphan among its descendants. It tells the
//! agent how the main process ended, after it has killed whatever the main process left behind.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::runtime::{
    Descriptor, Errno, Fd, Pid,
    clone::fork,
    io, net,
    process::{self, PR_SET_CHILD_SUBREAPER, Usage, Wait, exit, set_attribute},
    signal::{self, SIGCHLD, SIGKILL, SIGSTOP, SIGTERM, SignalSet},
};

use super::{
    child,
    control::{MAX_PACKET, SupervisorCommand, SupervisorReport},
    spawn::ChildEnds,
    tree::{ProcessInfo, descendants, snapshot},
};
use crate::{
    program::{
        exec_once::{ExecOnceGate, RefusedCounts},
        failures::failure,
        poll_set::{MonotonicMicros, POLLIN, PollSet, after, now},
        prepared_sandbox::PreparedSandbox,
        procfs::Procfs,
    },
    protocol::{ExecRequest, FailStep, Program},
};

/// Until when a tree must be gone after the order to kill it, milliseconds.
const KILL_TIMEOUT_MS: u64 = 2000;

/// How long after the last end of a killed child the rest of the tree is looked for again, milliseconds.
const QUIET_PERIOD_MS: u64 = 10;

/// How long processes are stopped before they are killed, milliseconds: a tree that forks faster than it is found, or
/// whose members wake each other, is killed as far as it is known then.
const STOP_TIMEOUT_MS: u64 = 500;

/// Runs an execution to its end; without a request, its process waits for one.
pub(super) fn run(sandbox: &PreparedSandbox, request: Option<&ExecRequest>, ends: ChildEnds) -> ! {
    match start(sandbox, request, &ends) {
        Ok(StartedExecution {
            main,
            gate,
            child_ended,
        }) => {
            let control = ends.control.into_raw();
            drop((ends.progress, ends.stdin, ends.complete, ends.waiting));
            let outputs = (ends.stdout, ends.stderr);
            let mut supervisor = Supervisor {
                control: Fd::from_raw(control),
                child_ended,
                procfs: sandbox.procfs.as_ref(),
                gate,
                main,
                reaped: 0,
                report: SupervisorReport {
                    end: None,
                    killed: false,
                    stragglers: 0,
                    survivors: 0,
                    cpu_us: 0,
                    max_rss_kib: 0,
                    ended: 0,
                    refused: RefusedCounts::default(),
                },
            };
            supervisor.watch();
            // Held until now, so that the agent hears of their end and of the report at once, and not of each by itself.
            drop(outputs);
            // With the agent gone there is nobody to tell, and nothing left to do.
            let _ = io::write(&supervisor.control, &supervisor.report.encode());
        }
        Err(errno) => {
            let failed = failure(FailStep::Spawn, errno, "process of the execution");
            // As above. Without a report the execution counts as lost, but for this failure.
            let _ = io::write_all(&ends.progress, &[&[0; 4][..], &failed.encode()].concat());
        }
    }
    exit(0)
}

/// An execution whose main process runs.
struct StartedExecution {
    main: Pid,
    gate: Option<ExecOnceGate>,
    child_ended: Fd,
}

fn start(
    sandbox: &PreparedSandbox,
    request: Option<&ExecRequest>,
    ends: &ChildEnds,
) -> Result<StartedExecution, Errno> {
    match set_attribute(PR_SET_CHILD_SUBREAPER, 1, 0) {
        // A kernel without subreapers (gVisor before 2023) gives orphans to the agent: they end with the sandbox, and a backend
        // on such a kernel says so.
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    // Not the agent's, which tells its readers on some kernels (gVisor's) of the agent's children only.
    let child_ended = signal::descriptor(SignalSet::default().with(SIGCHLD))?;
    let program = request.is_none_or(|request| matches!(request.program, Program::Command { .. }));
    let once = sandbox.exec_once && program;
    let (listening, notify) = if once {
        let (agent_ends, child_ends) = net::socket_pair(net::SOCK_SEQPACKET | net::SOCK_CLOEXEC)?;
        // Numbers 0 and 1 are free here, and become the program's standard streams.
        (Some(agent_ends), Some(io::duplicate_above(&child_ends, 3)?))
    } else {
        (None, None)
    };
    // SAFETY: the supervisor has one thread.
    match unsafe { fork() }? {
        None => child::run(sandbox, request, ends, notify),
        Some(main) => Ok(StartedExecution {
            main,
            gate: listening.map(ExecOnceGate::new),
            child_ended,
        }),
    }
}

#[derive(Debug, Clone, Copy)]
enum SupervisorEvent {
    Children,
    Control,
    Gate,
}

struct Supervisor<'a> {
    control: Fd,
    child_ended: Fd,
    procfs: Option<&'a Procfs>,
    gate: Option<ExecOnceGate>,
    main: Pid,
    /// How many children were reaped.
    reaped: u64,
    report: SupervisorReport,
}

impl Supervisor<'_> {
    /// Until no process of the tree is left, or the bound is over.
    fn watch(&mut self) {
        let mut set = PollSet::new();
        loop {
            set.clear();
            set.add(self.child_ended.raw(), POLLIN, SupervisorEvent::Children);
            set.add(self.control.raw(), POLLIN, SupervisorEvent::Control);
            if let Some(gate) = &self.gate {
                set.add(gate.raw(), POLLIN, SupervisorEvent::Gate);
            }
            if set.wait(None).is_err() {
                // Only a kernel without memory: try again.
                continue;
            }
            let mut kill = false;
            for (source, _) in set.ready() {
                match source {
                    SupervisorEvent::Children => drain(&self.child_ended),
                    SupervisorEvent::Control => kill |= self.run_command(),
                    SupervisorEvent::Gate => {
                        if let Some(gate) = &mut self.gate
                            && !gate.serve(&mut self.report.refused)
                        {
                            self.gate = None;
                        }
                    }
                }
            }
            let children_left = self.reap();
            if kill && self.report.end.is_none() {
                self.report.killed = true;
            }
            if self.report.end.is_some() || kill {
                if children_left {
                    self.kill_tree();
                }
                return;
            }
        }
    }

    /// Carries out an order; says whether the tree is to be killed. The end of the socket is the end of the agent.
    fn run_command(&self) -> bool {
        let mut packet = [0; MAX_PACKET];
        let command = match io::read(&self.control, &mut packet) {
            Ok(0) | Err(_) => return true,
            Ok(count) => SupervisorCommand::decode(&packet[..count]),
        };
        let (target, number) = match command {
            Some(SupervisorCommand::Signal(number)) => (self.main, i32::from(number)),
            // The main process leads a session, and so a group, whose number is its own.
            Some(SupervisorCommand::Terminate) => (Pid(-self.main.0), SIGTERM),
            Some(SupervisorCommand::Kill) | None => return true,
        };
        if self.report.end.is_none() {
            // It is not reaped yet, so the number is still its own. A zombie, or a number that is no signal, is no news.
            let _ = signal::kill(target, number);
        }
        false
    }

    /// Takes the ends of children; says whether any child is left.
    fn reap(&mut self) -> bool {
        loop {
            match process::reap() {
                Ok(Some((pid, end, usage))) => self.ended(pid, end, &usage),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn ended(&mut self, pid: Pid, end: Wait, usage: &Usage) {
        self.reaped += 1;
        self.report.max_rss_kib = self.report.max_rss_kib.max(usage.max_rss_kib);
        if pid == self.main && self.report.end.is_none() {
            self.report.end = Some(end);
            self.report.cpu_us = usage.cpu_microseconds();
            self.report.ended = now();
        }
    }

    /// Kills everything below. The first round kills what it finds: nearly always that is all, since whoever was forked
    /// meanwhile is found as a child of this process. If anybody is left, each further round first stops the tree.
    fn kill_tree(&mut self) {
        let started_at = now();
        let Some(procfs) = self.procfs else {
            return self.kill_group(started_at);
        };
        let mut dead = BTreeSet::new();
        let mut found = self.descendants_of_tree(procfs, &[], &BTreeSet::new());
        loop {
            for process in &found {
                // Gone in between is as good as killed.
                let _ = signal::kill(process.pid, SIGKILL);
                // The main process that was killed on order is not its own straggler.
                if !process.ended && process.pid != self.main && dead.insert(process.pid) {
                    self.report.stragglers += 1;
                }
            }
            if !self.reap_while_they_end() {
                return;
            }
            if now() >= after(started_at, KILL_TIMEOUT_MS) {
                let alive = self.descendants_of_tree(procfs, &[], &BTreeSet::new());
                let alive = alive.iter().filter(|process| !process.ended).count();
                self.report.survivors = u32::try_from(alive.max(1)).unwrap_or(u32::MAX);
                return;
            }
            found = self.stop_all(procfs, started_at);
        }
    }

    /// Takes the ends of children until none is left (false), or for a while none ends any more (true).
    fn reap_while_they_end(&mut self) -> bool {
        let mut reaped = self.reaped;
        let mut until = after(now(), QUIET_PERIOD_MS);
        while self.reap() {
            if self.reaped != reaped {
                reaped = self.reaped;
                until = after(now(), QUIET_PERIOD_MS);
            }
            if now() >= until {
                return true;
            }
            self.wait_for_child(until);
        }
        false
    }

    /// Stops the tree until no new member is found, so that nobody forks away from the kill.
    fn stop_all(&self, procfs: &Procfs, started_at: MonotonicMicros) -> Vec<ProcessInfo> {
        let mut known = BTreeSet::new();
        let mut members = Vec::new();
        loop {
            let found = self.descendants_of_tree(procfs, &members, &known);
            if found.is_empty() {
                return members;
            }
            for process in found {
                // A process that cannot be stopped is killed nevertheless.
                let _ = signal::kill(process.pid, SIGSTOP);
                known.insert(process.pid);
                members.push(process);
            }
            if now() > after(started_at, STOP_TIMEOUT_MS) {
                return members;
            }
        }
    }

    /// Who descends from this process, or from one of `members`, and is not in `known`.
    fn descendants_of_tree(
        &self,
        procfs: &Procfs,
        members: &[ProcessInfo],
        known: &BTreeSet<Pid>,
    ) -> Vec<ProcessInfo> {
        let mut processes = Vec::new();
        // A procfs that cannot be listed shows nobody; the children are then still there at the bound, and reported.
        let _ = snapshot(procfs, known, &mut processes);
        let roots = members
            .iter()
            .map(|one| one.pid)
            .chain([process::current()])
            .collect();
        descendants(&processes, &roots, &BTreeSet::new())
    }

    /// Without a procfs: what did not leave the main process's group dies; what did is a survivor.
    fn kill_group(&mut self, started_at: MonotonicMicros) {
        let end = after(started_at, KILL_TIMEOUT_MS);
        // The group may be empty by now.
        let _ = signal::kill(Pid(-self.main.0), SIGKILL);
        while self.reap() {
            if now() >= end {
                self.report.survivors = 1;
                return;
            }
            self.wait_for_child(end);
        }
    }

    fn wait_for_child(&self, until: MonotonicMicros) {
        let mut set = PollSet::new();
        set.add(self.child_ended.raw(), POLLIN, ());
        // An error only shortens the wait.
        let _ = set.wait(Some(until));
        drain(&self.child_ended);
    }
}

/// Empties the descriptor that says that children have ended.
pub(in crate::program) fn drain(child_ended: &Fd) {
    let mut records = [0; 512];
    while io::read(child_ended, &mut records).is_ok_and(|count| count > 0) {}
}
