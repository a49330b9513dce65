//! A helper process inside a systemd scope that clones processes into the scope's groups for us.
//!
//! On cgroup v2, a process can enter a group only through a process that may write to the nearest
//! common ancestor of its own and the target group. A user's shell and the groups of the user's
//! systemd have only root's group in common. So systemd puts one helper process into the scope (see
//! [`crate::systemd`]), and the helper clones the others.
//!
//! The helper shares our memory and descriptor table, so it can do exactly what this process does
//! in [`clone`]. It clones with `CLONE_PARENT`: the new processes are our children, we reap them,
//! and they die with the thread that started the helper. The helper has no state, waits in one
//! system call, and dies with that thread.
//!
//! Its exit sends no signal, so `wait` for any child does not return for it. Processes that it
//! clones inherit this until they execute a program.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandbox_agent::runtime::clone::{CLONE_FILES, CLONE_PARENT, CLONE_VFORK};
use sandbox_agent::runtime::process::{
    PR_SET_NAME, PR_SET_PDEATHSIG, WALL, exit, new_session, parent, prctl, set_attribute, wait_for,
};
use sandbox_agent::runtime::signal::{SIGKILL, SIGTERM, SignalSet, send, set_default, set_mask};
use sandbox_agent::runtime::{Errno, Pid, RawFd};
use sandbox_host::lock;

use super::clone::{self, Child, ChildBody, Stack};
use super::latch::{wait_on, wake};

/// The helper process. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct ScopeHelper {
    process: Child,
    mailbox: Box<Mailbox>,
    /// Held while one thread uses the mailbox.
    turn: Mutex<()>,
}

/// Memory that this process and the helper share.
#[derive(Debug)]
struct Mailbox {
    state: AtomicU32,
    /// Owned by the helper while the state is [`REQUESTED`], and by us otherwise.
    request: UnsafeCell<CloneRequest>,
    /// This process.
    owner: Pid,
    /// The stack of the helper.
    stack: Stack,
}

const STARTING: u32 = 3;
const IDLE: u32 = 0;
const REQUESTED: u32 = 1;
const DONE: u32 = 2;

/// The parameters of a clone, and its result.
#[derive(Debug)]
struct CloneRequest {
    namespaces: u64,
    cgroup: Option<RawFd>,
    stack: *const Stack,
    body: ChildBody,
    argument: *mut c_void,
    pidfd: RawFd,
    made: Result<Pid, Errno>,
}

// SAFETY: the request's pointers are used only while `ScopeHelper::run` waits, and its caller keeps
// them valid.
unsafe impl Send for Mailbox {}
// SAFETY: the request is written under `turn` and handed over by `state`; only the helper uses the
// stack.
unsafe impl Sync for Mailbox {}

/// How often a wait checks that the helper still runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl ScopeHelper {
    /// Starts the helper in the group of this process. It dies with the calling thread.
    pub(crate) fn start() -> Result<Self, Errno> {
        let owner = sandbox_agent::runtime::process::current();
        let mailbox = Box::new(Mailbox {
            state: AtomicU32::new(STARTING),
            request: UnsafeCell::new(CloneRequest {
                namespaces: 0,
                cgroup: None,
                stack: std::ptr::null(),
                body: helper_main,
                argument: std::ptr::null_mut(),
                pidfd: -1,
                made: Err(Errno::ESRCH),
            }),
            owner,
            stack: Stack::new()?,
        });
        let argument = std::ptr::from_ref(&*mailbox).cast_mut().cast();
        let mut pidfd = -1;
        // SAFETY: `helper_main` makes system calls and uses only the mailbox, which outlives the
        // process: see `drop`.
        let pid = unsafe {
            clone::start_and_note(
                CLONE_FILES,
                None,
                &mailbox.stack,
                helper_main,
                argument,
                &mut pidfd,
            )
        }?;
        // SAFETY: the kernel has created the descriptor for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let process = Child { pid, pidfd };
        let helper = Self {
            process,
            mailbox,
            turn: Mutex::new(()),
        };
        let state = &helper.mailbox.state;
        while state.load(Ordering::Acquire) == STARTING {
            // The result is in the state.
            let _ = wait_on(state, STARTING, CHECK_INTERVAL);
            if state.load(Ordering::Acquire) == STARTING && helper.has_ended() {
                return Err(Errno::ESRCH);
            }
        }
        Ok(helper)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Whether it has ended, or belongs to the process that forked us.
    pub(crate) fn has_ended(&self) -> bool {
        self.mailbox.owner != sandbox_agent::runtime::process::current()
            || has_ended(&self.process.pidfd, Duration::ZERO)
    }

    /// Like [`clone::run`], in the helper's group or the given one. Fails with `ESRCH` if the
    /// helper has ended.
    ///
    /// # Safety
    ///
    /// As [`clone::run`].
    pub(crate) unsafe fn run(
        &self,
        namespaces: u64,
        cgroup: Option<BorrowedFd<'_>>,
        stack: &Stack,
        body: ChildBody,
        argument: *mut c_void,
    ) -> Result<Child, Errno> {
        let _turn = lock(&self.turn);
        if self.has_ended() {
            return Err(Errno::ESRCH);
        }
        let Mailbox { state, request, .. } = &*self.mailbox;
        // SAFETY: the state is not REQUESTED, so the request is ours, and `turn` admits one thread.
        unsafe {
            *request.get() = CloneRequest {
                namespaces,
                cgroup: cgroup.map(|cgroup| cgroup.as_raw_fd()),
                stack,
                body,
                argument,
                pidfd: -1,
                made: Err(Errno::ESRCH),
            };
        }
        state.store(REQUESTED, Ordering::Release);
        wake(state);
        while state.load(Ordering::Acquire) == REQUESTED {
            // The result is in the state, or checked below.
            let _ = wait_on(state, REQUESTED, CHECK_INTERVAL);
            if state.load(Ordering::Acquire) == REQUESTED && self.has_ended() {
                self.end_unfinished();
                break;
            }
        }
        state.store(IDLE, Ordering::Release);
        // SAFETY: the request is ours again.
        let CloneRequest { made, pidfd, .. } = unsafe { request.get().read() };
        let pid = made?;
        // SAFETY: the kernel has created the descriptor in the descriptor table that we share.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Child { pid, pidfd })
    }

    /// Ends the process that a killed helper may have cloned: it may run in our memory.
    fn end_unfinished(&self) {
        // SAFETY: the helper has ended. The kernel writes the descriptor before the new process
        // runs.
        let pidfd = unsafe { (*self.mailbox.request.get()).pidfd };
        if pidfd < 0 {
            return;
        }
        // SAFETY: as in `run`; the descriptor has no other owner.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        // It may have ended already. It is our child to reap.
        let _ = send(pidfd.as_raw_fd(), SIGKILL);
        while !has_ended(&pidfd, CHECK_INTERVAL) {}
        let options = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(WALL.cast_unsigned());
        let _ = waitid(WaitId::PidFd(pidfd.as_fd()), options);
    }
}

impl Drop for ScopeHelper {
    fn drop(&mut self) {
        if self.mailbox.owner != sandbox_agent::runtime::process::current() {
            // A copy in a forked child: the helper is not its process.
            return;
        }
        // It may have ended already.
        let _ = send(self.process.pidfd.as_raw_fd(), SIGKILL);
        while !has_ended(&self.process.pidfd, CHECK_INTERVAL) {}
        // Another thread may have reaped it; it is gone either way.
        let _ = wait_for(self.process.pid);
    }
}

/// Runs `body(argument)` in a new process, as [`clone::run`] does; through the helper if there is
/// one.
///
/// # Safety
///
/// As [`clone::run`].
pub(crate) unsafe fn run_with(
    helper: Option<&ScopeHelper>,
    namespaces: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
) -> Result<Child, Errno> {
    match helper {
        // SAFETY: the caller upholds the contract of `clone::run`.
        Some(helper) => unsafe { helper.run(namespaces, cgroup, stack, body, argument) },
        // SAFETY: as above.
        None => unsafe { clone::run(namespaces, cgroup, stack, body, argument) },
    }
}

fn has_ended(pidfd: &OwnedFd, longest: Duration) -> bool {
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: longest.as_secs().cast_signed(),
        tv_nsec: longest.subsec_nanos().into(),
    };
    // A signal only causes another check.
    matches!(poll(&mut polled, Some(&timeout)), Ok(1..))
}

/// The helper's main loop: executes requests from the mailbox with system calls only.
unsafe extern "C" fn helper_main(argument: *mut c_void) -> ! {
    // SAFETY: the mailbox outlives this process.
    let mailbox = unsafe { &*argument.cast::<Mailbox>() };
    if prepare(mailbox).is_err() {
        exit(1)
    }
    mailbox.state.store(IDLE, Ordering::Release);
    wake(&mailbox.state);
    loop {
        let state = mailbox.state.load(Ordering::Acquire);
        if state != REQUESTED {
            // Whatever ended the wait, the state decides.
            let _ = wait_on(&mailbox.state, state, Duration::from_secs(3600));
            continue;
        }
        // SAFETY: the state gives the request to this process.
        let request = unsafe { &mut *mailbox.request.get() };
        // SAFETY: the requesting thread waits and keeps the descriptor open.
        let cgroup = request
            .cgroup
            .map(|cgroup| unsafe { BorrowedFd::borrow_raw(cgroup) });
        // SAFETY: the requesting thread upholds the contract of `clone::run` and waits.
        request.made = unsafe {
            clone::start_and_note(
                request.namespaces | CLONE_VFORK | CLONE_PARENT,
                cgroup,
                &*request.stack,
                request.body,
                request.argument,
                &mut request.pidfd,
            )
        };
        mailbox.state.store(DONE, Ordering::Release);
        wake(&mailbox.state);
    }
}

fn prepare(mailbox: &Mailbox) -> Result<(), Errno> {
    set_attribute(PR_SET_PDEATHSIG, SIGKILL as usize, 0)?;
    // The parent may have died before the signal was set.
    if parent() != mailbox.owner {
        return Err(Errno::ESRCH);
    }
    // Leave the terminal's session: its interrupt is for the host process only.
    new_session()?;
    // SAFETY: the name is a string with a NUL.
    unsafe { prctl(PR_SET_NAME, c"sandbox-scope".as_ptr() as usize, 0) }?;
    // systemd sends SIGTERM to stop the scope.
    set_default(SIGTERM)?;
    set_mask(SignalSet(!SignalSet::default().with(SIGTERM).0)).map(drop)
}

#[cfg(test)]
mod tests {
    use sandbox_agent::runtime::namespace::{CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER};
    use sandbox_agent::runtime::process::{Wait, current};

    use super::*;

    unsafe extern "C" fn write_and_end(argument: *mut c_void) -> ! {
        // SAFETY: the parent waits, and the pointer is to its array.
        let numbers = unsafe { &mut *argument.cast::<[i32; 2]>() };
        *numbers = [parent().0, current().0];
        exit(3)
    }

    #[test]
    fn cloned_processes_are_children_of_the_host_process() {
        let helper = ScopeHelper::start().expect("a process");
        assert!(!helper.has_ended());
        let stack = Stack::new().expect("memory");
        for _ in 0..3 {
            let mut numbers = [0; 2];
            let argument = (&raw mut numbers).cast();
            // SAFETY: the body writes its argument and ends.
            let child = unsafe { helper.run(0, None, &stack, write_and_end, argument) };
            let child = child.expect("a process");
            assert_eq!(numbers, [current().0, child.pid.0]);
            assert!(has_ended(&child.pidfd, Duration::from_secs(10)));
            assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3)));
        }
    }

    #[test]
    fn namespaces_are_created_as_by_a_direct_clone() {
        let helper = ScopeHelper::start().expect("a process");
        let stack = Stack::new().expect("memory");
        let namespaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS;
        let mut numbers = [0; 2];
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let ours = unsafe { clone::run(namespaces, None, &stack, write_and_end, argument) };
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let its = unsafe { helper.run(namespaces, None, &stack, write_and_end, argument) };
        assert_eq!(ours.as_ref().err(), its.as_ref().err());
        for child in ours.into_iter().chain(its) {
            assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3)));
            assert_eq!(numbers, [0, 1], "the first process of its namespace");
        }
    }

    #[test]
    fn killed_helper_is_detected() {
        let helper = ScopeHelper::start().expect("a process");
        send(helper.process.pidfd.as_raw_fd(), SIGKILL).expect("it is ours");
        let stack = Stack::new().expect("memory");
        let mut numbers = [0; 2];
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let child = unsafe { helper.run(0, None, &stack, write_and_end, argument) };
        // The child may be cloned before the signal arrives.
        match child {
            Err(errno) => assert_eq!(errno, Errno::ESRCH),
            Ok(child) => assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3))),
        }
        assert!(has_ended(&helper.process.pidfd, Duration::from_secs(10)));
        assert!(helper.has_ended());
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let child = unsafe { helper.run(0, None, &stack, write_and_end, argument) };
        assert_eq!(child.err(), Some(Errno::ESRCH));
    }

    #[test]
    fn wait_for_any_child_ignores_the_helper() {
        let helper = ScopeHelper::start().expect("a process");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let id = rustix::process::Pid::from_raw(helper.pid().0).expect("a number");
        let seen = waitid(WaitId::Pid(id), options);
        assert_eq!(seen.err(), Some(rustix::io::Errno::CHILD));
    }

    #[test]
    fn helper_ends_with_its_thread() {
        let helper = std::thread::spawn(ScopeHelper::start).join();
        let helper = helper.expect("no panic").expect("a process");
        assert!(has_ended(&helper.process.pidfd, Duration::from_secs(10)));
    }
}
