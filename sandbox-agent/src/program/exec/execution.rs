//! What the agent knows of one execution, from its request to its last frame.

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Fd, Pid, io,
    process::Wait,
    signal::{self, SIGKILL},
};

use super::{
    control::{MAX_PACKET, SupervisorCommand, SupervisorReport},
    output::Output,
    preforked::PreforkedExec,
    spawn::spawn,
    stdin::Stdin,
    sweep::SweepResult,
};
use crate::{
    program::{
        builtin::ABANDONED,
        memory_kills::{KillCount, KillsSince},
        outgoing_frames::OutgoingFrames,
        output_log::OutputLog,
        poll_set::{MonotonicMicros, POLLIN, POLLOUT, PollSet, after, now},
        prepared_sandbox::PreparedSandbox,
    },
    protocol::{Channel, ExecRequest, ExitKind, ExitReport, Failure, Kind, Program, ProtocolError},
};

/// How long pipes are read for that somebody outside of the tree holds open, milliseconds.
const DRAIN_TIMEOUT_MS: u64 = 250;

/// How long a supervisor may take to kill its tree (2 s by its own bound) before it is given up, milliseconds.
const SUPERVISOR_TIMEOUT_MS: u64 = 3000;

/// How long a routine of the agent may take to clean up after itself before it is killed, milliseconds.
const BUILTIN_GRACE_MS: u64 = 200;

/// When a program that has neither written nor ended is looked at for whether it has started, milliseconds: most programs that
/// end at once have done so by then, and the agent is not woken in between.
const START_CHECK_DELAY_MS: u64 = 1;

/// Which descriptor of an execution something happened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) enum ExecutionDescriptor {
    Control,
    Progress,
    Stdin,
    Stdout,
    Stderr,
}

#[derive(Debug)]
enum ExecutionEnd {
    /// It runs.
    Running,
    /// The supervisor vanished; what it left behind is being killed.
    Lost,
    /// It ended, and this is what is known.
    Known(SupervisorReport),
    /// As lost, with everything killed.
    Swept(SweepResult),
}

/// An execution.
#[derive(Debug)]
pub(in crate::program) struct Execution {
    stream: u32,
    supervisor: Pid,
    control: Fd,
    /// The supervisor has closed its end, and ends.
    control_ended: bool,
    progress: Option<Fd>,
    progress_bytes: Vec<u8>,
    builtin: bool,
    /// Until when it is not waited for the start, which something else may show before.
    check_start_at: Option<MonotonicMicros>,
    started: bool,
    stdin: Stdin,
    stdout: Output,
    stderr: Output,
    logged: bool,
    started_at: MonotonicMicros,
    /// When the time limit is over.
    deadline: Option<MonotonicMicros>,
    /// Why it is being killed.
    killing: Option<ExitKind>,
    /// When the order to kill goes out that waits for a routine's own end.
    kill_at: Option<MonotonicMicros>,
    /// When a supervisor is given up that was told to kill.
    give_up_at: Option<MonotonicMicros>,
    end: ExecutionEnd,
    drain_until: Option<MonotonicMicros>,
    drain_cut: bool,
    /// What the kernel had killed for memory before.
    kills: Option<KillsSince>,
    /// How many it has killed since, once the tree is gone.
    memory_kills: Option<u64>,
}

impl Execution {
    /// Starts a request, in `spare` where there is one that suits it; `message` are its bytes.
    ///
    /// # Errors
    ///
    /// The failure to report.
    pub(in crate::program) fn start(
        stream: u32,
        sandbox: &PreparedSandbox,
        request: &ExecRequest,
        message: &[u8],
        preforked: Option<PreforkedExec>,
    ) -> Result<Self, Failure> {
        let started_at = now();
        let kills = sandbox.kill_count.as_ref().and_then(KillCount::begin);
        let spawned = match preforked.and_then(|preforked| preforked.send_request(request, message))
        {
            Some(spawned) => spawned,
            None => spawn(sandbox, request)?,
        };
        let builtin = matches!(request.program, Program::Builtin(_));
        let deadline = (request.timeout_ms > 0).then(|| after(started_at, request.timeout_ms));
        Ok(Self {
            stream,
            supervisor: spawned.supervisor,
            control: spawned.control,
            control_ended: false,
            progress: Some(spawned.progress),
            progress_bytes: Vec::new(),
            builtin,
            check_start_at: (!builtin).then(|| after(started_at, START_CHECK_DELAY_MS)),
            started: false,
            stdin: Stdin::new(spawned.stdin, spawned.complete),
            stdout: Output::new(Kind::Stdout, spawned.stdout),
            stderr: Output::new(Kind::Stderr, spawned.stderr),
            logged: request.log,
            started_at,
            deadline,
            killing: None,
            kill_at: None,
            give_up_at: None,
            end: ExecutionEnd::Running,
            drain_until: None,
            drain_cut: false,
            kills,
            memory_kills: None,
        })
    }

    /// Whether it is a routine of the agent, not code.
    pub(in crate::program) fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// The supervisor's process.
    pub(in crate::program) fn supervisor(&self) -> Pid {
        self.supervisor
    }

    /// Adds what is to be waited for. `room` says whether outputs may be read.
    pub(in crate::program) fn register<T: Copy>(
        &self,
        may_read_outputs: bool,
        set: &mut PollSet<T>,
        token: impl Fn(u32, ExecutionDescriptor) -> T,
    ) {
        let token = |part| token(self.stream, part);
        if matches!(self.end, ExecutionEnd::Running) && !self.control_ended {
            set.add(
                self.control.as_raw(),
                POLLIN,
                token(ExecutionDescriptor::Control),
            );
        }
        let running = matches!(self.end, ExecutionEnd::Running);
        if let Some(progress) = &self.progress
            && (self.check_start_at.is_none() || !running)
        {
            // A program's number is of no use before it runs, and then the pipe hangs up: one wake-up less. A routine's
            // pipe stays open.
            let events = if self.builtin && !self.started {
                POLLIN
            } else {
                0
            };
            set.add(
                progress.as_raw(),
                events,
                token(ExecutionDescriptor::Progress),
            );
        }
        if let Some(pipe) = self.stdin.poll_descriptor() {
            set.add(pipe, POLLOUT, token(ExecutionDescriptor::Stdin));
        }
        // The host hears of the start before anything else.
        if may_read_outputs && (self.started || self.check_start_at.is_some() || !running) {
            for (output, part) in [
                (&self.stdout, ExecutionDescriptor::Stdout),
                (&self.stderr, ExecutionDescriptor::Stderr),
            ] {
                if let Some(pipe) = output.poll_descriptor() {
                    set.add(pipe, POLLIN, token(part));
                }
            }
        }
    }

    /// Something happened to a descriptor.
    pub(in crate::program) fn descriptor_ready(
        &mut self,
        part: ExecutionDescriptor,
        outgoing: &mut OutgoingFrames,
        log: &mut OutputLog,
    ) {
        match part {
            // The agent may have read the report already, when it heard of the supervisor's end first.
            ExecutionDescriptor::Control if !matches!(self.end, ExecutionEnd::Running) => {}
            ExecutionDescriptor::Control => {
                self.read_report();
                if !matches!(self.end, ExecutionEnd::Running) {
                    self.read_progress(outgoing);
                    // Most often that is all there is of them.
                    for output in [&mut self.stdout, &mut self.stderr] {
                        output.read(self.stream, outgoing, self.logged.then_some(&mut *log));
                    }
                }
            }
            ExecutionDescriptor::Progress => self.read_progress(outgoing),
            ExecutionDescriptor::Stdin => self.stdin.write_waiting(self.stream, outgoing),
            ExecutionDescriptor::Stdout | ExecutionDescriptor::Stderr
                if !self.has_started(outgoing) => {}
            ExecutionDescriptor::Stdout => {
                self.stdout
                    .read(self.stream, outgoing, self.logged.then_some(log))
            }
            ExecutionDescriptor::Stderr => {
                self.stderr
                    .read(self.stream, outgoing, self.logged.then_some(log))
            }
        }
    }

    /// Whether the host has heard of the start, or need not. What the program has written shows that it has started.
    fn has_started(&mut self, outgoing: &mut OutgoingFrames) -> bool {
        if !self.started {
            self.read_progress(outgoing);
            // The supervisor may still hold the other end of the pipe: then its end is waited for first.
            self.check_start_at = None;
        }
        self.started || !matches!(self.end, ExecutionEnd::Running)
    }

    /// A frame of the host for this stream.
    ///
    /// # Errors
    ///
    /// When the frame breaks the protocol.
    pub(in crate::program) fn frame(
        &mut self,
        kind: Kind,
        message: &[u8],
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        match kind {
            Kind::Stdin => self.stdin.receive(self.stream, message, outgoing)?,
            Kind::StdinEnd if message.is_empty() => self.stdin.end(),
            Kind::Signal => {
                let number = u32::from_le_bytes(
                    message
                        .try_into()
                        .map_err(|_| ProtocolError::BadValue("signal"))?,
                );
                match u8::try_from(number) {
                    Ok(number @ 1..=64) => self.send_command(SupervisorCommand::Signal(number)),
                    _ => return Err(ProtocolError::BadValue("signal")),
                }
            }
            Kind::Kill if message.is_empty() => self.kill(ExitKind::Killed),
            Kind::Credit => match Channel::read_credit(message)? {
                (Channel::Stdout, bytes) => self.stdout.grant(bytes),
                (Channel::Stderr, bytes) => self.stderr.grant(bytes),
                (Channel::Stdin, _) => return Err(ProtocolError::Unexpected("credit")),
            },
            Kind::StdinEnd | Kind::Kill => return Err(ProtocolError::TrailingBytes),
            _ => return Err(ProtocolError::Unexpected("frame of an execution")),
        }
        Ok(())
    }

    /// Kills the tree, for this reason.
    pub(in crate::program) fn kill(&mut self, reason: ExitKind) {
        if self.killing.is_some() || !matches!(self.end, ExecutionEnd::Running) {
            return;
        }
        self.killing = Some(reason);
        self.deadline = None;
        let now = now();
        if self.builtin {
            // It sees the end of its input and takes back what it has half done.
            self.stdin.abandon();
            self.kill_at = Some(after(now, BUILTIN_GRACE_MS));
        } else {
            self.send_command(SupervisorCommand::Kill);
        }
        self.give_up_at = Some(after(now, SUPERVISOR_TIMEOUT_MS));
    }

    /// Asks the main process, and its group, to end.
    pub(in crate::program) fn terminate(&mut self) {
        if self.builtin {
            // A routine that a signal ends would leave a half-written file.
            return self.kill(ExitKind::Killed);
        }
        self.send_command(SupervisorCommand::Terminate);
    }

    /// Nobody is there any more whom its output could go to.
    pub(in crate::program) fn abandon(&mut self) {
        self.stdin.abandon();
        self.stdout.close();
        self.stderr.close();
    }

    fn send_command(&mut self, command: SupervisorCommand) {
        if !matches!(self.end, ExecutionEnd::Running) {
            return;
        }
        match io::write(&self.control, &command.encode()) {
            Ok(_) => {}
            Err(Errno::EAGAIN) if command == SupervisorCommand::Kill => {
                self.give_up_at = Some(now())
            }
            // Hundreds of signals that nobody took yet: the kernel too keeps only one of each kind.
            Err(Errno::EAGAIN) => {}
            // The supervisor has ended; its report, or its absence, is read when its end is seen.
            Err(_) => {}
        }
    }

    /// The supervisor's process has ended. Its report may still wait in the socket.
    pub(in crate::program) fn supervisor_ended(&mut self) {
        if matches!(self.end, ExecutionEnd::Running) {
            self.read_report();
        }
        if matches!(self.end, ExecutionEnd::Running) {
            self.end = ExecutionEnd::Lost;
        }
    }

    /// Whether its processes may still be there without a supervisor.
    pub(in crate::program) fn is_lost(&self) -> bool {
        matches!(self.end, ExecutionEnd::Lost)
    }

    /// What a lost execution left behind has been killed.
    pub(in crate::program) fn swept(&mut self, swept: SweepResult) {
        if self.is_lost() {
            self.end = ExecutionEnd::Swept(swept);
            self.progress = None;
            self.begin_drain();
        }
    }

    fn read_report(&mut self) {
        let mut packet = [0; MAX_PACKET];
        match io::read(&self.control, &mut packet) {
            Ok(count) if count > 0 => {
                if let Ok(report) = SupervisorReport::decode(&packet[..count]) {
                    self.end = ExecutionEnd::Known(report);
                    self.begin_drain();
                }
            }
            Err(Errno::EAGAIN) => {}
            // The end without a report. What the supervisor leaves behind can be found only once it has ended itself.
            Ok(_) | Err(_) => self.control_ended = true,
        }
    }

    fn begin_drain(&mut self) {
        // Now, since what is left to be read may take its time.
        self.memory_kills = self.kills.as_ref().and_then(KillsSince::until_now);
        self.drain_until = Some(after(now(), DRAIN_TIMEOUT_MS));
        self.deadline = None;
        self.stdin.abandon();
    }

    fn read_progress(&mut self, outgoing: &mut OutgoingFrames) {
        let Some(progress) = &self.progress else {
            return;
        };
        let mut chunk = [0; 512];
        loop {
            match io::read(progress, &mut chunk) {
                Err(Errno::EAGAIN) => break,
                Ok(count) if count > 0 => self.progress_bytes.extend_from_slice(&chunk[..count]),
                // A pipe of our own has no error.
                Ok(_) | Err(_) => {
                    self.progress = None;
                    break;
                }
            }
        }
        let known = self.progress_bytes.len() >= 4;
        let failed = self.progress_bytes.len() > 4;
        let running = self.builtin || self.progress.is_none();
        if known && !failed && running && !self.started {
            self.started = true;
            self.check_start_at = None;
            let pid = &self.progress_bytes[..4];
            outgoing.message(self.stream, Kind::Started, pid);
        }
    }

    /// The next moment at which [`Execution::tick`] has something to do.
    pub(in crate::program) fn next_moment(&self) -> Option<MonotonicMicros> {
        [
            self.deadline,
            self.check_start_at,
            self.kill_at,
            self.give_up_at,
            self.drain_until,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what time asks for.
    pub(in crate::program) fn tick(&mut self, now: MonotonicMicros) {
        let due = |moment: &mut Option<MonotonicMicros>| {
            moment.take_if(|moment| *moment <= now).is_some()
        };
        if due(&mut self.deadline) {
            self.kill(ExitKind::TimedOut);
        }
        // From now on it is waited for.
        due(&mut self.check_start_at);
        let running = matches!(self.end, ExecutionEnd::Running);
        if due(&mut self.kill_at) && running {
            self.send_command(SupervisorCommand::Kill);
        }
        if due(&mut self.give_up_at) && running {
            // It does not answer: stopped by code of its own identity, or without memory.
            // Gone already is what is wanted.
            let _ = signal::kill(self.supervisor, SIGKILL);
        }
        if due(&mut self.drain_until) {
            self.drain_cut |= self.stdout.cut();
            self.drain_cut |= self.stderr.cut();
        }
    }

    /// Writes the last frame if everything before it is out; then the execution is over.
    pub(in crate::program) fn finish(&mut self, outgoing: &mut OutgoingFrames) -> bool {
        if matches!(self.end, ExecutionEnd::Running | ExecutionEnd::Lost) || self.progress.is_some()
        {
            return false;
        }
        // A routine's output comes before its failure.
        if !self.outputs_done() {
            return false;
        }
        if let Some(failure) = self
            .progress_bytes
            .get(4..)
            .filter(|bytes| !bytes.is_empty())
        {
            outgoing.message(self.stream, Kind::Failed, failure);
            return true;
        }
        let report = self.exit_report();
        outgoing.message(self.stream, Kind::Exited, &report.encode());
        true
    }

    fn outputs_done(&mut self) -> bool {
        self.stdout.close_if_ended();
        self.stderr.close_if_ended();
        !self.stdout.is_open() && !self.stderr.is_open()
    }

    fn exit_report(&self) -> ExitReport {
        let mut exit = ExitReport {
            stdout_total: self.stdout.total(),
            stderr_total: self.stderr.total(),
            drain_cut: self.drain_cut,
            memory_kills: self.memory_kills,
            wall_us: now().saturating_sub(self.started_at),
            ..ExitReport::of(ExitKind::Lost)
        };
        match &self.end {
            ExecutionEnd::Known(report) => {
                exit.kind = match (self.killing, report.killed, report.end) {
                    (Some(reason), true, _) => reason,
                    (Some(reason), false, Some(Wait::Exited(ABANDONED))) if self.builtin => reason,
                    (_, _, Some(Wait::Exited(code))) => ExitKind::Exited(code),
                    (_, _, Some(Wait::Signaled(signal))) => ExitKind::Signaled(signal),
                    (_, _, None) => ExitKind::Lost,
                };
                exit.stragglers = report.stragglers;
                exit.survivors = report.survivors;
                exit.cpu_us = report.cpu_us;
                exit.max_rss_kib = report.max_rss_kib;
                exit.refused_programs = report.refused.programs;
                exit.refused_processes = report.refused.processes;
                if report.end.is_some() {
                    exit.wall_us = report.ended.saturating_sub(self.started_at);
                }
            }
            ExecutionEnd::Swept(swept) => {
                if let Some(reason) = self.killing {
                    exit.kind = reason;
                }
                exit.stragglers = swept.killed;
                exit.survivors = swept.survivors;
            }
            ExecutionEnd::Running | ExecutionEnd::Lost => {}
        }
        exit
    }
}
