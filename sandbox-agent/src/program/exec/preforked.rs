//! An execution that is forked before its request arrives. Its supervisor runs; its main process
//! has set its limits, identity and confinement. The request needs only a change of folder and
//! `execve`.
//!
//! It exists only while no code runs, so code cannot interfere with it. The first is forked after
//! the first execution has ended, so a sandbox for one execution does not pay for it.

use crate::runtime::{Errno, Fd, Pid, fs::O_CLOEXEC, io};

use super::spawn::{Spawned, WaitingEnds, check, exec_channels, input_pipe, no_stdin, supervise};
use crate::{
    program::{
        failures::failure,
        poll_set::{POLLIN, poll_events},
        prepared_sandbox::PreparedSandbox,
    },
    protocol::{ExecProgram, ExecRequest, FailStep, Failure},
};

/// The largest request that a waiting process gets, in bytes. It fits into an empty pipe (64 KiB),
/// so the agent never blocks.
const MAX_REQUEST: usize = 60 * 1024;

/// A process that waits for its request. Dropping it ends it: its supervisor sees the socket close.
#[derive(Debug)]
pub(in crate::program) struct PreforkedExec {
    spawned: Spawned,
    request: Fd,
}

impl PreforkedExec {
    /// Forks the supervisor and the waiting process.
    ///
    /// # Errors
    ///
    /// When processes, descriptors or memory run out.
    pub(in crate::program) fn start(sandbox: &PreparedSandbox) -> Result<Self, Failure> {
        let failed = |errno| failure(FailStep::Spawn, errno, "pipes of an execution to come");
        let (agent_ends, mut child_ends, request) = (|| -> Result<_, Errno> {
            let (stdin, child_stdin) = input_pipe()?;
            let (agent_ends, child_ends) = exec_channels(Some(stdin), child_stdin)?;
            Ok((agent_ends, child_ends, io::pipe(O_CLOEXEC)?))
        })()
        .map_err(failed)?;
        let (request_reader, request) = request;
        io::set_nonblocking(&request, true).map_err(failed)?;
        child_ends.waiting = Some(WaitingEnds {
            request: request_reader,
            no_stdin: no_stdin(sandbox).map_err(failed)?,
        });
        let spawned = supervise(sandbox, None, agent_ends, child_ends)?;
        Ok(Self { spawned, request })
    }

    /// The supervisor's PID.
    pub(in crate::program) fn supervisor(&self) -> Pid {
        self.spawned.supervisor
    }

    /// Whether it can run this request, encoded as `message`.
    pub(in crate::program) fn can_run(request: &ExecRequest, message: &[u8]) -> bool {
        // Its streams are pipes, its session has no terminal, and it is the code's user.
        matches!(request.program, ExecProgram::Command { .. })
            && request.terminal.is_none()
            && !request.root
            && message.len() <= MAX_REQUEST
            && check(request).is_ok()
    }

    /// Sends it a request that it can run; `None` if it has ended.
    pub(super) fn send_request(mut self, request: &ExecRequest, message: &[u8]) -> Option<Spawned> {
        if poll_events(self.spawned.control.as_raw(), POLLIN, Some(0)) != 0 {
            return None;
        }
        if !matches!(io::write(&self.request, message), Ok(count) if count == message.len()) {
            return None;
        }
        if !request.stdin {
            self.spawned.stdin = None;
        }
        Some(self.spawned)
    }
}
