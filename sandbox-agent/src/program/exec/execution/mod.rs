//! The agent's state of one execution, from its request to its last frame.

mod finish;

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Fd, Pid, io,
    signal::{self, SIGKILL},
    terminal,
};

use super::{
    control::{MAX_PACKET, SupervisorCommand, SupervisorReport},
    output::OutputPipe,
    preforked::PreforkedExec,
    spawn::spawn,
    stdin::Stdin,
    sweep::SweepResult,
};
use crate::{
    program::{
        failures::failure,
        memory_kills::{KillCount, KillsSince},
        outgoing_frames::OutgoingFrames,
        output_log::OutputLog,
        poll_set::{MonotonicMicros, POLLIN, POLLOUT, PollSet, after, now},
        prepared_sandbox::PreparedSandbox,
    },
    protocol::{
        Channel, ExecProgram, ExecRequest, ExitKind, FailStep, Failure, FrameKind, ProtocolError,
        TerminalSize,
    },
};

/// How long to read pipes after the tree has ended, in milliseconds: processes outside of the tree
/// may hold them open.
const DRAIN_TIMEOUT_MS: u64 = 250;

/// How long a supervisor may take to kill its tree before it is killed itself, in milliseconds. Its
/// own timeout is 2 s.
const SUPERVISOR_TIMEOUT_MS: u64 = 3000;

/// How long a builtin may take to clean up before it is killed, in milliseconds.
const BUILTIN_GRACE_MS: u64 = 200;

/// When to check whether a program without output has started, in milliseconds. Most short programs
/// have ended by then, which saves the agent a wake-up.
const START_CHECK_DELAY_MS: u64 = 1;

/// Which descriptor of an execution is ready.
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
    /// It is running.
    Running,
    /// The supervisor vanished without a report; its processes are being killed.
    Lost,
    /// The supervisor has reported the end.
    Known(SupervisorReport),
    /// The supervisor vanished, and its processes have been killed.
    Swept(SweepResult),
}

/// An execution.
#[derive(Debug)]
pub(in crate::program) struct Execution {
    stream: u32,
    supervisor: Pid,
    control: Fd,
    /// The supervisor has closed its end, and is about to exit.
    control_ended: bool,
    progress: Option<Fd>,
    progress_bytes: Vec<u8>,
    builtin: bool,
    /// Until this time, the start is not polled for; output may show it earlier.
    check_start_at: Option<MonotonicMicros>,
    started: bool,
    stdin: Stdin,
    stdout: OutputPipe,
    stderr: OutputPipe,
    /// Whether standard output is a pty.
    has_terminal: bool,
    logged: bool,
    started_at: MonotonicMicros,
    /// When the time limit expires.
    deadline: Option<MonotonicMicros>,
    /// Why it is being killed.
    killing: Option<ExitKind>,
    /// When to kill a builtin that has not ended by itself.
    kill_at: Option<MonotonicMicros>,
    /// When to kill a supervisor that does not react.
    give_up_at: Option<MonotonicMicros>,
    end: ExecutionEnd,
    drain_until: Option<MonotonicMicros>,
    drain_cut: bool,
    /// The kernel's count of out-of-memory kills at the start.
    kills: Option<KillsSince>,
    /// How many processes the kernel has killed since, once the tree has ended.
    memory_kills: Option<u64>,
}

/// Standard input of a request. A terminal whose input is not open is at its end.
fn stdin(request: &ExecRequest, pipe: Option<Fd>, complete: Option<Fd>) -> Stdin {
    if request.terminal.is_none() {
        return Stdin::new(pipe, complete);
    }
    let mut stdin = Stdin::of_terminal(pipe);
    if !request.stdin {
        stdin.end();
    }
    stdin
}

impl Execution {
    /// Starts a request in `preforked` if possible. `message` is the encoded request.
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
        if request.terminal.is_none() {
            let failed = |errno| failure(FailStep::Spawn, errno, "pipes of an execution");
            spawned.enlarge_pipes().map_err(failed)?;
        }
        let builtin = matches!(request.program, ExecProgram::Builtin(_));
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
            stdin: stdin(request, spawned.stdin, spawned.complete),
            stdout: OutputPipe::new(FrameKind::Stdout, Some(spawned.stdout)),
            stderr: OutputPipe::new(FrameKind::Stderr, spawned.stderr),
            has_terminal: request.terminal.is_some(),
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

    /// Whether it runs a builtin of the agent, not code.
    pub(in crate::program) fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// The supervisor's PID.
    pub(in crate::program) fn supervisor(&self) -> Pid {
        self.supervisor
    }

    /// Adds its descriptors to the poll set. `may_read_outputs` is false while the client's queue
    /// is full.
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
            // A program's start shows as a hang-up of this pipe. Its PID, which arrives earlier, is
            // not polled for: that saves a wake-up. A builtin's pipe stays open.
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
        // `Started` must be the first frame.
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

    /// A descriptor is ready.
    pub(in crate::program) fn descriptor_ready(
        &mut self,
        part: ExecutionDescriptor,
        outgoing: &mut OutgoingFrames,
        log: &mut OutputLog,
    ) {
        match part {
            // The report was already read when the supervisor was reaped.
            ExecutionDescriptor::Control if !matches!(self.end, ExecutionEnd::Running) => {}
            ExecutionDescriptor::Control => {
                self.read_report();
                if !matches!(self.end, ExecutionEnd::Running) {
                    self.read_progress(outgoing);
                    // This usually reads all remaining output.
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

    /// Whether `Started` has been sent, or is not needed. Output shows that the program has
    /// started.
    fn has_started(&mut self, outgoing: &mut OutgoingFrames) -> bool {
        if !self.started {
            self.read_progress(outgoing);
            // If the supervisor still holds the pipe open, its end is polled for first.
            self.check_start_at = None;
        }
        self.started || !matches!(self.end, ExecutionEnd::Running)
    }

    /// Handles a frame of the client for this stream.
    ///
    /// # Errors
    ///
    /// When the frame violates the protocol.
    pub(in crate::program) fn frame(
        &mut self,
        kind: FrameKind,
        message: &[u8],
        outgoing: &mut OutgoingFrames,
    ) -> Result<(), ProtocolError> {
        match kind {
            FrameKind::Stdin => self.stdin.receive(self.stream, message, outgoing)?,
            FrameKind::StdinEnd if message.is_empty() => self.stdin.end(),
            FrameKind::Signal => {
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
            FrameKind::Kill if message.is_empty() => self.kill(ExitKind::Killed),
            FrameKind::Resize if self.has_terminal => {
                let TerminalSize { rows, columns } = TerminalSize::decode(message)?;
                if let Some(master) = self.stdout.pipe() {
                    // Every pty takes every size.
                    let _ = terminal::set_size(master, rows, columns);
                }
            }
            FrameKind::Credit => match Channel::read_credit(message)? {
                (Channel::Stdout, bytes) => self.stdout.grant(bytes),
                (Channel::Stderr, bytes) => self.stderr.grant(bytes),
                (Channel::Stdin, _) => return Err(ProtocolError::Unexpected("credit")),
            },
            FrameKind::StdinEnd | FrameKind::Kill => return Err(ProtocolError::TrailingBytes),
            _ => return Err(ProtocolError::Unexpected("frame of an execution")),
        }
        Ok(())
    }

    /// Kills the tree for this reason.
    pub(in crate::program) fn kill(&mut self, reason: ExitKind) {
        if self.killing.is_some() || !matches!(self.end, ExecutionEnd::Running) {
            return;
        }
        self.killing = Some(reason);
        self.deadline = None;
        let now = now();
        if self.builtin {
            // It sees its input end early and removes what it has written.
            self.stdin.abandon();
            self.kill_at = Some(after(now, BUILTIN_GRACE_MS));
        } else {
            self.send_command(SupervisorCommand::Kill);
        }
        self.give_up_at = Some(after(now, SUPERVISOR_TIMEOUT_MS));
    }

    /// Sends SIGTERM to the main process and its group.
    pub(in crate::program) fn terminate(&mut self) {
        if self.builtin {
            // SIGTERM would leave a half-written file.
            return self.kill(ExitKind::Killed);
        }
        self.send_command(SupervisorCommand::Terminate);
    }

    /// The client is gone: closes the standard streams.
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
            // Hundreds of signals are queued already; the kernel too merges signals of one kind.
            Err(Errno::EAGAIN) => {}
            // The supervisor has exited. Reading its report, or its absence, follows.
            Err(_) => {}
        }
    }

    /// The supervisor has exited. Its report may still be in the socket.
    pub(in crate::program) fn supervisor_ended(&mut self) {
        if matches!(self.end, ExecutionEnd::Running) {
            self.read_report();
        }
        if matches!(self.end, ExecutionEnd::Running) {
            self.end = ExecutionEnd::Lost;
        }
    }

    /// Whether its supervisor vanished and its processes may still run.
    pub(in crate::program) fn is_lost(&self) -> bool {
        matches!(self.end, ExecutionEnd::Lost)
    }

    /// The processes of a lost execution have been killed.
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
            // Closed without a report. Leftover processes can be found only once the supervisor has
            // exited.
            Ok(_) | Err(_) => self.control_ended = true,
        }
    }

    fn begin_drain(&mut self) {
        // Now, because draining the pipes can take a while.
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
                // A pipe has no other error.
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
            outgoing.message(self.stream, FrameKind::Started, pid);
        }
    }

    /// The next time at which [`Execution::tick`] has something to do.
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

    /// Handles expired timeouts.
    pub(in crate::program) fn tick(&mut self, now: MonotonicMicros) {
        let due = |moment: &mut Option<MonotonicMicros>| {
            moment.take_if(|moment| *moment <= now).is_some()
        };
        if due(&mut self.deadline) {
            self.kill(ExitKind::TimedOut);
        }
        // From now on the start is polled for.
        due(&mut self.check_start_at);
        let running = matches!(self.end, ExecutionEnd::Running);
        if due(&mut self.kill_at) && running {
            self.send_command(SupervisorCommand::Kill);
        }
        if due(&mut self.give_up_at) && running {
            // The supervisor does not react: code with its identity has stopped it, or memory is
            // out. It may also have exited already.
            let _ = signal::kill(self.supervisor, SIGKILL);
        }
        if due(&mut self.drain_until) {
            self.drain_cut |= self.stdout.cut();
            self.drain_cut |= self.stderr.cut();
        }
    }
}
