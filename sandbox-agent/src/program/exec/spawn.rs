//! Starting an execution's supervisor.

use alloc::{string::ToString, vec};

use crate::runtime::{
    Descriptor, Errno, Fd, Pid,
    clone::fork,
    fs::{O_CLOEXEC, O_NONBLOCK},
    io, net,
};

use super::{
    supervisor,
    terminal::{self, Pty},
};
use crate::{
    program::{
        descriptors::close_all_but,
        failures::{failure, refusal},
        prepared_sandbox::{PreparedSandbox, ROOT},
        privilege::set_file_identity,
    },
    protocol::{Builtin, ExecProgram, ExecRequest, FailStep, Failure},
};

/// Capacity of programs' pipes, if the system allows it: it makes reads fewer and larger.
const PIPE_CAPACITY: usize = 1024 * 1024;

/// The agent's descriptors of a started execution.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) supervisor: Pid,
    /// Commands to the supervisor, and its report.
    pub(super) control: Fd,
    /// The child's PID, then its failure, if any. Closed when the program runs.
    pub(super) progress: Fd,
    pub(super) stdin: Option<Fd>,
    pub(super) stdout: Fd,
    /// `None` with a terminal, which has one output.
    pub(super) stderr: Option<Fd>,
    /// Gets one byte when standard input is complete, for a builtin that must know.
    pub(super) complete: Option<Fd>,
}

/// The descriptors of the supervisor and its child.
#[derive(Debug)]
pub(super) struct ChildEnds {
    pub(super) control: Fd,
    pub(super) progress: Fd,
    pub(super) stdin: Fd,
    pub(super) stdout: Fd,
    pub(super) stderr: Fd,
    pub(super) complete: Option<Fd>,
    /// Set if the request is not known yet.
    pub(super) waiting: Option<WaitingEnds>,
}

/// Further descriptors of a child that waits for its request.
#[derive(Debug)]
pub(super) struct WaitingEnds {
    /// A pipe with the request; empty if there will be none.
    pub(super) request: Fd,
    /// Standard input of a request without one.
    pub(super) no_stdin: Fd,
}

/// Starts an execution.
///
/// # Errors
///
/// When the request is invalid, or processes, descriptors or memory run out.
pub(super) fn spawn(sandbox: &PreparedSandbox, request: &ExecRequest) -> Result<Spawned, Failure> {
    check(request)?;
    if !request.root {
        return spawn_checked(sandbox, request);
    }
    let Some((user, group)) = sandbox.identity.filter(|_| sandbox.allows_root) else {
        return Err(refusal(FailStep::Identity, "no root in this sandbox"));
    };
    // The program's pipes and terminal belong to its user, who may open them again.
    set_file_identity(ROOT.0, ROOT.1);
    let spawned = spawn_checked(sandbox, request);
    set_file_identity(user, group);
    spawned
}

fn spawn_checked(sandbox: &PreparedSandbox, request: &ExecRequest) -> Result<Spawned, Failure> {
    let failed = |errno| failure(FailStep::Spawn, errno, "pipes of the execution");
    let (agent_ends, child_ends) = match request.terminal {
        Some(size) => terminal_ends(terminal::open(size)?).map_err(failed)?,
        None => pipes(sandbox, request).map_err(failed)?,
    };
    supervise(sandbox, Some(request), agent_ends, child_ends)
}

/// Forks the supervisor of a request, or of one that is still to come.
pub(super) fn supervise(
    sandbox: &PreparedSandbox,
    request: Option<&ExecRequest>,
    agent_ends: Spawned,
    child_ends: ChildEnds,
) -> Result<Spawned, Failure> {
    let make = || {
        // SAFETY: the agent has one thread.
        unsafe { fork() }
    };
    let forked = match &sandbox.oom {
        Some(oom) => oom.fork_raised(make),
        None => make(),
    };
    match forked {
        Err(errno) => Err(failure(FailStep::Spawn, errno, "clone")),
        Ok(Some(supervisor)) => Ok(Spawned {
            supervisor,
            ..agent_ends
        }),
        Ok(None) => {
            // A supervisor must not keep the agent's descriptors open, most of all the stream.
            let mut keep = vec![
                2,
                child_ends.control.raw(),
                child_ends.progress.raw(),
                child_ends.stdin.raw(),
                child_ends.stdout.raw(),
                child_ends.stderr.raw(),
            ];
            keep.extend(child_ends.complete.iter().map(Fd::raw));
            if let Some(waiting) = &child_ends.waiting {
                keep.extend([waiting.request.raw(), waiting.no_stdin.raw()]);
            }
            keep.extend(sandbox.landlock.iter().map(Fd::raw));
            keep.extend(sandbox.procfs.iter().map(Descriptor::raw));
            close_all_but(&mut keep, sandbox.procfs.as_ref());
            // These descriptors are closed already, and their numbers may be in use again soon.
            core::mem::forget(agent_ends);
            supervisor::run(sandbox, request, child_ends)
        }
    }
}

/// Refuses NUL bytes in strings.
pub(super) fn check(request: &ExecRequest) -> Result<(), Failure> {
    let nul = |bytes: &[u8]| bytes.contains(&0);
    let field = match &request.program {
        ExecProgram::Command { argv } if argv.iter().any(|argument| nul(argument)) => "an argument",
        ExecProgram::Builtin(
            Builtin::Put { path, .. }
            | Builtin::Get { path }
            | Builtin::List { path, .. }
            | Builtin::MakeDir { path, .. }
            | Builtin::Remove { path },
        ) if nul(path) => "the path",
        _ if request.env.iter().any(|entry| nul(entry)) => "the environment",
        _ if nul(&request.workdir) => "the working folder",
        _ => return Ok(()),
    };
    Err(refusal(
        FailStep::Request,
        "a NUL byte in ".to_string() + field,
    ))
}

fn pipes(sandbox: &PreparedSandbox, request: &ExecRequest) -> Result<(Spawned, ChildEnds), Errno> {
    let (stdin, child_stdin) = if request.stdin {
        let (agent_end, child_end) = input_pipe()?;
        (Some(agent_end), child_end)
    } else {
        (None, no_stdin(sandbox)?)
    };
    let (mut agent_ends, mut child_ends) = exec_channels(stdin, child_stdin)?;
    if let ExecProgram::Builtin(Builtin::Put { .. }) = request.program {
        let (child_complete, complete) = io::pipe(O_CLOEXEC | O_NONBLOCK)?;
        agent_ends.complete = Some(complete);
        child_ends.complete = Some(child_complete);
    }
    Ok((agent_ends, child_ends))
}

/// All channels between the agent and an execution with a terminal.
fn terminal_ends(pty: Pty) -> Result<(Spawned, ChildEnds), Errno> {
    let Pty { master, slave } = pty;
    let input = io::duplicate(&master)?;
    let outputs = (io::duplicate(&slave)?, io::duplicate(&slave)?);
    channels((Some(input), slave), (master, outputs.0), (None, outputs.1))
}

/// All channels between the agent and an execution, with these two ends of standard input.
pub(super) fn exec_channels(
    stdin: Option<Fd>,
    child_stdin: Fd,
) -> Result<(Spawned, ChildEnds), Errno> {
    let (stderr, child_stderr) = output_pipe()?;
    let stderr = (Some(stderr), child_stderr);
    channels((stdin, child_stdin), output_pipe()?, stderr)
}

/// All channels between the agent and an execution, with these ends of its standard streams.
fn channels(
    (stdin, child_stdin): (Option<Fd>, Fd),
    (stdout, child_stdout): (Fd, Fd),
    (stderr, child_stderr): (Option<Fd>, Fd),
) -> Result<(Spawned, ChildEnds), Errno> {
    let (control, child_control) = net::socket_pair(net::SOCK_SEQPACKET | net::SOCK_CLOEXEC)?;
    io::set_nonblocking(&control, true)?;
    let (progress, child_progress) = io::pipe(O_CLOEXEC)?;
    io::set_nonblocking(&progress, true)?;
    let agent_ends = Spawned {
        supervisor: Pid(0),
        control,
        progress,
        stdin,
        stdout,
        stderr,
        complete: None,
    };
    let child_ends = ChildEnds {
        control: child_control,
        progress: child_progress,
        stdin: child_stdin,
        stdout: child_stdout,
        stderr: child_stderr,
        complete: None,
        waiting: None,
    };
    Ok((agent_ends, child_ends))
}

/// The agent's and the program's end of standard input.
pub(super) fn input_pipe() -> Result<(Fd, Fd), Errno> {
    let (child_end, agent_end) = io::pipe(O_CLOEXEC)?;
    io::set_nonblocking(&agent_end, true)?;
    Ok((agent_end, child_end))
}

/// An empty standard input.
pub(super) fn no_stdin(sandbox: &PreparedSandbox) -> Result<Fd, Errno> {
    match &sandbox.null {
        Some(null) => io::duplicate(null),
        // Without /dev/null, the read end of a closed pipe behaves the same.
        None => Ok(io::pipe(O_CLOEXEC)?.0),
    }
}

fn output_pipe() -> Result<(Fd, Fd), Errno> {
    let (agent_end, child_end) = io::pipe(O_CLOEXEC)?;
    io::set_nonblocking(&agent_end, true)?;
    Ok((agent_end, child_end))
}

impl Spawned {
    /// Enlarges the pipes of the standard streams. Only a running execution needs it: all pipes of
    /// an ordinary user have 64 MiB together, and smaller ones are made beyond that.
    ///
    /// # Errors
    ///
    /// `EBADF` if a stream is not a pipe.
    pub(super) fn enlarge_pipes(&self) -> Result<(), Errno> {
        let pipes = [
            self.stdin.as_ref(),
            Some(&self.stdout),
            self.stderr.as_ref(),
        ];
        for pipe in pipes.into_iter().flatten() {
            match io::set_pipe_capacity(pipe, PIPE_CAPACITY) {
                // Above the system's or the user's limit, the default capacity works too.
                Ok(_) | Err(Errno::EPERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
