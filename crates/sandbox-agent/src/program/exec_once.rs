//! One program an execution: the kernel asks about every `execve`, the first may go on, every later one is refused.

use sandbox_freestanding::{
    Descriptor, Errno, Fd, RawFd, Result, net,
    seccomp::{
        BPF_JUMP_EQUAL, BPF_LOAD, BPF_RETURN, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO,
        SECCOMP_RET_USER_NOTIF, SockFilter, answer, install_with_listener, receive,
    },
    syscall::{AUDIT_ARCH, nr},
};

use super::polling::{POLLIN, state_of};

/// Operation: jump when the word is `k` or more.
const BPF_JUMP_GREATER_EQUAL: u16 = 0x35;

/// Where x86_64 has its second table of calls, with an `execve` of its own. Elsewhere no number is that large.
const X32: u32 = 0x4000_0000;

#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers of system calls are small"
)]
const PROGRAM: [SockFilter; 9] = [
    // The architecture: calls of another one have other numbers, and are refused altogether.
    instruction(BPF_LOAD, 4, 0, 0),
    instruction(BPF_JUMP_EQUAL, AUDIT_ARCH, 0, 6),
    instruction(BPF_LOAD, 0, 0, 0),
    instruction(BPF_JUMP_GREATER_EQUAL, X32, 4, 0),
    instruction(BPF_JUMP_EQUAL, nr::EXECVE as u32, 2, 0),
    instruction(BPF_JUMP_EQUAL, nr::EXECVEAT as u32, 1, 0),
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

/// Installs the program for the calling process, and hands its listener to the gate at the other end of `notify`.
///
/// # Errors
///
/// What `seccomp` and `sendmsg` report; `EINVAL` before Linux 5.0.
pub(super) fn install(notify: &Fd) -> Result<()> {
    let listener = install_with_listener(&PROGRAM)?;
    net::send_descriptor(notify, &listener)
}

/// The side that answers.
#[derive(Debug)]
pub(super) struct Gate {
    socket: Fd,
    listener: Option<Fd>,
    used: bool,
}

impl Gate {
    /// Waits for the listener on `socket`.
    pub(super) fn new(socket: Fd) -> Self {
        Self {
            socket,
            listener: None,
            used: false,
        }
    }

    /// Answers one question, or takes the listener; false when no question can come any more.
    pub(super) fn serve(&mut self) -> bool {
        let Some(listener) = &self.listener else {
            return match net::receive_descriptor(&self.socket) {
                Ok(Some(listener)) => {
                    self.listener = Some(listener);
                    true
                }
                // The process ended before it got this far.
                Ok(None) | Err(_) => false,
            };
        };
        if state_of(listener.as_raw(), POLLIN, Some(0)) & POLLIN == 0 {
            return false;
        }
        let Ok(question) = receive(listener) else {
            // The process that asked was killed.
            return true;
        };
        let refusal = self.used.then_some(Errno::EPERM);
        self.used = true;
        // An answer that finds nobody is no loss. Should the kernel not know how to let a call go on (before 5.5), the
        // call fails when the listener closes.
        let answered = answer(listener, question.id, refusal);
        !matches!(answered, Err(Errno::EINVAL))
    }
}

impl Descriptor for Gate {
    fn raw(&self) -> RawFd {
        self.listener.as_ref().unwrap_or(&self.socket).as_raw()
    }
}
