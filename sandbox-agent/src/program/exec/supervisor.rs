//! The supervisor: the parent of an execution's main process, and of every orphan among its
//! descendants. When the main process has ended, it kills the rest of the tree and reports to the
//! agent.

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
    protocol::{ExecProgram, ExecRequest, FailStep},
};

/// Timeout for killing a tree, in milliseconds.
const KILL_TIMEOUT_MS: u64 = 2000;

/// How long to reap killed children before the rest of the tree is searched again, in milliseconds.
const QUIET_PERIOD_MS: u64 = 10;

/// How long processes are stopped before they are killed, in milliseconds. A tree that forks faster
/// than it is found, or whose members resume each other, is killed as far as it is known then.
const STOP_TIMEOUT_MS: u64 = 500;

/// Runs an execution to its end; without a request, the main process waits for one.
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
                    disk: [0; 2],
                    ended: 0,
                    refused: RefusedCounts::default(),
                },
            };
            supervisor.watch();
            // Held until now, so that the agent wakes up once for the pipes' end and the report.
            drop(outputs);
            // A write fails only if the agent is gone.
            let _ = io::write(&supervisor.control, &supervisor.report.encode());
        }
        Err(errno) => {
            let failed = failure(FailStep::Spawn, errno, "process of the execution");
            // As above. Without a report the execution is lost, except for this failure.
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
        // On a kernel without subreapers (gVisor before 2023), the agent inherits orphans. They end
        // with the sandbox, and the backend reports it.
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    // Not the agent's signalfd: on gVisor it reports the agent's children only.
    let child_ended = signal::descriptor(SignalSet::default().with(SIGCHLD))?;
    let program =
        request.is_none_or(|request| matches!(request.program, ExecProgram::Command { .. }));
    let once = sandbox.exec_once && program;
    let (listening, notify) = if once {
        let (agent_end, child_end) = net::socket_pair(net::SOCK_SEQPACKET | net::SOCK_CLOEXEC)?;
        // Numbers 0 and 1 are free here and become the program's standard streams.
        (Some(agent_end), Some(io::duplicate_above(&child_end, 3)?))
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
    /// Waits until no process of the tree is left, or the timeout is over.
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
                // The kernel is out of memory: try again.
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

    /// Carries out a command; returns whether to kill the tree. The end of the socket means that
    /// the agent is gone.
    fn run_command(&self) -> bool {
        let mut packet = [0; MAX_PACKET];
        let command = match io::read(&self.control, &mut packet) {
            Ok(0) | Err(_) => return true,
            Ok(count) => SupervisorCommand::decode(&packet[..count]),
        };
        let (target, number) = match command {
            Some(SupervisorCommand::Signal(number)) => (self.main, i32::from(number)),
            // The main process leads a process group with its own number.
            Some(SupervisorCommand::Terminate) => (Pid(-self.main.0), SIGTERM),
            Some(SupervisorCommand::Kill) | None => return true,
        };
        if self.report.end.is_none() {
            // The process is not reaped yet, so its PID is not reused. Signals to a zombie, and
            // invalid signals, are ignored.
            let _ = signal::kill(target, number);
        }
        false
    }

    /// Reaps children; returns whether any is left.
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
            self.report.disk = usage.disk_bytes();
            self.report.ended = now();
        }
    }

    /// Kills all descendants. The first round kills those it finds: nearly always that is all,
    /// because children forked meanwhile become this process's own. Every further round stops the
    /// tree first.
    fn kill_tree(&mut self) {
        let started_at = now();
        let Some(procfs) = self.procfs else {
            return self.kill_group(started_at);
        };
        let mut dead = BTreeSet::new();
        let mut processes = self.descendants_of_tree(procfs, &[], &BTreeSet::new());
        loop {
            for process in &processes {
                // An error means that it has ended.
                let _ = signal::kill(process.pid, SIGKILL);
                // The main process, killed on command, is not a straggler.
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
            processes = self.stop_all(procfs, started_at);
        }
    }

    /// Reaps children until none is left (returns false), or none has ended for a while (returns
    /// true).
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

    /// Stops the tree until no new member is found, so that no process can fork during the kill.
    fn stop_all(&self, procfs: &Procfs, started_at: MonotonicMicros) -> Vec<ProcessInfo> {
        let mut known = BTreeSet::new();
        let mut members = Vec::new();
        loop {
            let processes = self.descendants_of_tree(procfs, &members, &known);
            if processes.is_empty() {
                return members;
            }
            for process in processes {
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

    /// The descendants of this process, or of `members`, that are not in `known`.
    fn descendants_of_tree(
        &self,
        procfs: &Procfs,
        members: &[ProcessInfo],
        known: &BTreeSet<Pid>,
    ) -> Vec<ProcessInfo> {
        let mut processes = Vec::new();
        // If procfs cannot be listed, the children survive until the timeout and are reported.
        let _ = snapshot(procfs, known, &mut processes);
        let roots = members
            .iter()
            .map(|one| one.pid)
            .chain([process::current()])
            .collect();
        descendants(&processes, &roots, &BTreeSet::new())
    }

    /// Without a procfs, kills the main process's group. Processes outside of the group survive.
    fn kill_group(&mut self, started_at: MonotonicMicros) {
        let end = after(started_at, KILL_TIMEOUT_MS);
        // An error means that the group is empty.
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

/// Empties a signalfd for SIGCHLD.
pub(in crate::program) fn drain(child_ended: &Fd) {
    let mut records = [0; 512];
    while io::read(child_ended, &mut records).is_ok_and(|count| count > 0) {}
}
