//! Starting the supervisor of an execution.

use alloc::{string::ToString, vec};

use crate::runtime::{
    Descriptor, Errno, Fd, Pid, Result,
    clone::fork,
    fs::{O_CLOEXEC, O_NONBLOCK},
    io, net,
};

use super::supervisor;
use crate::{
    program::{
        descriptors::close_all_but,
        failing::{failure, refusal},
        sandbox::Sandbox,
    },
    protocol::{Builtin, ExecRequest, FailStep, Failure, Program},
};

/// What pipes of programs are enlarged to where the system allows it: fewer, larger reads.
const PIPE_CAPACITY: usize = 1024 * 1024;

/// The agent's side of a started execution.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) supervisor: Pid,
    /// Orders go out, the report comes in.
    pub(super) control: Fd,
    /// The child's number, then its failure if it has one; ends when the program runs.
    pub(super) progress: Fd,
    pub(super) stdin: Option<Fd>,
    pub(super) stdout: Fd,
    pub(super) stderr: Fd,
    /// Takes one byte when standard input is complete, for a routine that must know.
    pub(super) complete: Option<Fd>,
}

/// The other side, in the supervisor and its child.
#[derive(Debug)]
pub(super) struct ChildEnds {
    pub(super) control: Fd,
    pub(super) progress: Fd,
    pub(super) stdin: Fd,
    pub(super) stdout: Fd,
    pub(super) stderr: Fd,
    pub(super) complete: Option<Fd>,
    /// Where the request comes from, when it is not known yet.
    pub(super) waiting: Option<WaitingEnds>,
}

/// What a child needs besides that waits for its request.
#[derive(Debug)]
pub(super) struct WaitingEnds {
    /// Ends after the request, or without one when there will be none.
    pub(super) request: Fd,
    /// Standard input of a request that has none.
    pub(super) no_stdin: Fd,
}

/// Starts an execution.
///
/// # Errors
///
/// When the request cannot be run as it is, or the system has no room for it.
pub(super) fn spawn(
    sandbox: &Sandbox,
    request: &ExecRequest,
) -> core::result::Result<Spawned, Failure> {
    check(request)?;
    let (ours, theirs) = pipes(sandbox, request)
        .map_err(|errno| failure(FailStep::Spawn, errno, "pipes of the execution"))?;
    supervise(sandbox, Some(request), ours, theirs)
}

/// Forks the supervisor of a request, or of one that is still to come.
pub(super) fn supervise(
    sandbox: &Sandbox,
    request: Option<&ExecRequest>,
    ours: Spawned,
    theirs: ChildEnds,
) -> core::result::Result<Spawned, Failure> {
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
        Ok(Some(supervisor)) => Ok(Spawned { supervisor, ..ours }),
        Ok(None) => {
            // The agent's own descriptors, the stream above all, must not live on in a supervisor.
            let mut keep = vec![
                2,
                theirs.control.raw(),
                theirs.progress.raw(),
                theirs.stdin.raw(),
                theirs.stdout.raw(),
                theirs.stderr.raw(),
            ];
            keep.extend(theirs.complete.iter().map(Fd::raw));
            if let Some(waiting) = &theirs.waiting {
                keep.extend([waiting.request.raw(), waiting.no_stdin.raw()]);
            }
            keep.extend(sandbox.landlock.iter().map(Fd::raw));
            keep.extend(sandbox.files.iter().map(Descriptor::raw));
            close_all_but(&mut keep, sandbox.files.as_ref());
            // The numbers that `ours` names are closed already, and may be used again soon.
            core::mem::forget(ours);
            supervisor::run(sandbox, request, theirs)
        }
    }
}

/// Refuses what no program can be told.
pub(super) fn check(request: &ExecRequest) -> core::result::Result<(), Failure> {
    let nul = |bytes: &[u8]| bytes.contains(&0);
    let found = match &request.program {
        Program::Command { argv } if argv.iter().any(|argument| nul(argument)) => "an argument",
        Program::Builtin(
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
        "a NUL byte in ".to_string() + found,
    ))
}

fn pipes(sandbox: &Sandbox, request: &ExecRequest) -> Result<(Spawned, ChildEnds)> {
    let (stdin, their_stdin) = if request.stdin {
        let (ours, theirs) = input_pipe()?;
        (Some(ours), theirs)
    } else {
        (None, no_stdin(sandbox)?)
    };
    let (mut ours, mut theirs) = both_ends(stdin, their_stdin)?;
    if let Program::Builtin(Builtin::Put { .. }) = request.program {
        let (their_complete, complete) = io::pipe(O_CLOEXEC | O_NONBLOCK)?;
        ours.complete = Some(complete);
        theirs.complete = Some(their_complete);
    }
    Ok((ours, theirs))
}

/// Everything between an agent and an execution, around these ends of its standard input.
pub(super) fn both_ends(stdin: Option<Fd>, their_stdin: Fd) -> Result<(Spawned, ChildEnds)> {
    let (control, their_control) = net::socket_pair(net::SOCK_SEQPACKET | net::SOCK_CLOEXEC)?;
    io::set_nonblocking(&control, true)?;
    let (progress, their_progress) = io::pipe(O_CLOEXEC)?;
    io::set_nonblocking(&progress, true)?;
    let (stdout, their_stdout) = output_pipe()?;
    let (stderr, their_stderr) = output_pipe()?;
    let ours = Spawned {
        supervisor: Pid(0),
        control,
        progress,
        stdin,
        stdout,
        stderr,
        complete: None,
    };
    let theirs = ChildEnds {
        control: their_control,
        progress: their_progress,
        stdin: their_stdin,
        stdout: their_stdout,
        stderr: their_stderr,
        complete: None,
        waiting: None,
    };
    Ok((ours, theirs))
}

/// The agent's end of a program's standard input, and the program's.
pub(super) fn input_pipe() -> Result<(Fd, Fd)> {
    let (theirs, ours) = io::pipe(O_CLOEXEC)?;
    io::set_nonblocking(&ours, true)?;
    enlarge(&ours)?;
    Ok((ours, theirs))
}

/// A standard input that has ended.
pub(super) fn no_stdin(sandbox: &Sandbox) -> Result<Fd> {
    match &sandbox.null {
        Some(null) => io::duplicate(null),
        // A sandbox without /dev/null: a pipe that has ended reads the same.
        None => Ok(io::pipe(O_CLOEXEC)?.0),
    }
}

fn output_pipe() -> Result<(Fd, Fd)> {
    let (ours, theirs) = io::pipe(O_CLOEXEC)?;
    io::set_nonblocking(&ours, true)?;
    enlarge(&ours)?;
    Ok((ours, theirs))
}

fn enlarge(pipe: &Fd) -> Result<()> {
    match io::set_pipe_capacity(pipe, PIPE_CAPACITY) {
        // Above the system's limit, or the user's: the usual capacity does too.
        Ok(_) | Err(Errno::EPERM) => Ok(()),
        Err(errno) => Err(errno),
    }
}
