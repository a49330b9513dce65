//! An execution limited to one program and one process: the kernel notifies the supervisor of every
//! `execve` and every new process. The first `execve` is allowed; all others are refused and
//! counted. Threads are exempt. A filter cannot see the flags of `clone3`: the sandbox's own filter
//! refuses it with `ENOSYS`, so programs use `clone`.

use crate::runtime::{
    Descriptor, Errno, Fd, RawFd, net,
    seccomp::{
        BPF_JUMP_EQUAL, BPF_LOAD, BPF_RETURN, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
        SECCOMP_RET_USER_NOTIF, SockFilter, answer, install_with_listener, receive,
    },
    syscall::{AUDIT_ARCH, nr},
};

use super::poll_set::{POLLIN, poll_events};

/// BPF operation: jump if the word is `k` or more.
const BPF_JUMP_GREATER_EQUAL: u16 = 0x35;

/// The first number of the x32 system calls on x86_64. Elsewhere no number is that large.
const X32: u32 = 0x4000_0000;

/// BPF operation: jump if the word and `k` have a bit in common.
const BPF_JUMP_SET: u16 = 0x45;

/// `clone` flag: a thread.
const CLONE_THREAD: u32 = 0x0001_0000;

/// Offset of the first argument's low word in `struct seccomp_data`, on little-endian machines.
const FIRST_ARGUMENT: u32 = 16;

#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of system calls are small"
)]
const EXECUTIONS: [u32; 2] = [nr::EXECVE as u32, nr::EXECVEAT as u32];

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of system calls are small"
)]
const FORKS: [u32; 2] = [nr::FORK as u32, nr::VFORK as u32];
/// Other architectures lack the calls; repeating `EXECUTIONS` has no effect.
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [u32; 2] = EXECUTIONS;

#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of system calls are small"
)]
const PROGRAM: [SockFilter; 14] = [
    // System calls of another architecture have other numbers and are refused.
    instruction(BPF_LOAD, 4, 0, 0),
    instruction(BPF_JUMP_EQUAL, AUDIT_ARCH, 0, 11),
    instruction(BPF_LOAD, 0, 0, 0),
    instruction(BPF_JUMP_GREATER_EQUAL, X32, 9, 0),
    instruction(BPF_JUMP_EQUAL, EXECUTIONS[0], 7, 0),
    instruction(BPF_JUMP_EQUAL, EXECUTIONS[1], 6, 0),
    instruction(BPF_JUMP_EQUAL, FORKS[0], 5, 0),
    instruction(BPF_JUMP_EQUAL, FORKS[1], 4, 0),
    instruction(BPF_JUMP_EQUAL, nr::CLONE as u32, 0, 2),
    instruction(BPF_LOAD, FIRST_ARGUMENT, 0, 0),
    instruction(BPF_JUMP_SET, CLONE_THREAD, 0, 1),
    instruction(BPF_RETURN, SECCOMP_RET_ALLOW, 0, 0),
    instruction(BPF_RETURN, SECCOMP_RET_USER_NOTIF, 0, 0),
    instruction(
        BPF_RETURN,
        SECCOMP_RET_ERRNO | Errno::EPERM.0.cast_unsigned(),
        0,
        0,
    ),
];

const fn instruction(code: u16, k: u32, jump_true: u8, jump_false: u8) -> SockFilter {
    SockFilter {
        code,
        jump_true,
        jump_false,
        k,
    }
}

/// Installs the filter for the calling process, and sends its listener over `notify`.
///
/// # Errors
///
/// What `seccomp` and `sendmsg` report; `EINVAL` before Linux 5.0.
pub(super) fn install(notify: &Fd) -> Result<(), Errno> {
    let listener = install_with_listener(&PROGRAM)?;
    net::send_descriptor(notify, &listener)
}

/// How often an execution was refused another program or process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RefusedCounts {
    /// Refused programs.
    pub(super) programs: u32,
    /// Refused processes.
    pub(super) processes: u32,
}

/// Answers the kernel's notifications.
#[derive(Debug)]
pub(super) struct ExecOnceGate {
    socket: Fd,
    listener: Option<Fd>,
    used: bool,
}

impl ExecOnceGate {
    /// Waits for the listener on `socket`.
    pub(super) fn new(socket: Fd) -> Self {
        Self {
            socket,
            listener: None,
            used: false,
        }
    }

    /// Answers one notification, or receives the listener. Returns false if no notification can
    /// follow. Counts refusals in `refused`.
    pub(super) fn serve(&mut self, refused: &mut RefusedCounts) -> bool {
        let Some(listener) = &self.listener else {
            return match net::receive_descriptor(&self.socket) {
                Ok(Some(listener)) => {
                    self.listener = Some(listener);
                    true
                }
                // The process ended before it installed the filter.
                Ok(None) | Err(_) => false,
            };
        };
        if poll_events(listener.as_raw(), POLLIN, Some(0)) & POLLIN == 0 {
            return false;
        }
        let Ok(question) = receive(listener) else {
            // The process was killed meanwhile.
            return true;
        };
        let is_program = EXECUTIONS.contains(&question.number.cast_unsigned());
        let may_go_on = is_program && !core::mem::replace(&mut self.used, true);
        // A call interrupted by a signal is repeated, and counted again.
        let count = match is_program {
            _ if may_go_on => &mut 0,
            true => &mut refused.programs,
            false => &mut refused.processes,
        };
        *count = count.saturating_add(1);
        let refusal = (!may_go_on).then_some(Errno::EPERM);
        // An error means that the process has ended. Before Linux 5.5, the kernel cannot let a call
        // continue; the call then fails when the listener closes.
        let answered = answer(listener, question.id, refusal);
        !matches!(answered, Err(Errno::EINVAL))
    }
}

impl Descriptor for ExecOnceGate {
    fn raw(&self) -> RawFd {
        self.listener.as_ref().unwrap_or(&self.socket).as_raw()
    }
}
