//! A process of ours in a control group where this process is not.
//!
//! In version 2 a process can be made in a group, or moved there, only by one that may write to the nearest group above both its
//! own and that one. An ordinary user's shell is in a group of root's, and its processes have none in common with the groups of
//! the user's systemd but root's. So one process is put there (by systemd, see [`crate::systemd`]) and makes the others.
//!
//! It lives in our memory and has our descriptors, so that it can do exactly what this process does in [`clone`]; and what it
//! makes are children of this process, not its own: they are waited for, and die with the thread that asked for the anchor, as
//! if that had made them. It holds nothing, waits in one system call, and dies with that thread.
//!
//! Its end sends no signal, so that a program which waits for whatever children it has does not wait for this one. What it makes
//! takes that over, until it executes a program.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandbox_freestanding::clone::{CLONE_FILES, CLONE_PARENT, CLONE_VFORK};
use sandbox_freestanding::process::{
    PR_SET_NAME, PR_SET_PDEATHSIG, WALL, exit, new_session, parent, prctl, set_attribute, wait_for,
};
use sandbox_freestanding::signal::{SIGKILL, SIGTERM, SignalSet, send, set_default, set_mask};
use sandbox_freestanding::{Errno, Pid, RawFd, Result};

use super::clone::{self, Child, ChildBody, Stack};
use super::gate::{wait_on, wake};

/// The process. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Anchor {
    process: Child,
    desk: Box<Desk>,
    /// Who asks it for something.
    turn: Mutex<()>,
}

/// Memory that both look at.
#[derive(Debug)]
struct Desk {
    state: AtomicU32,
    /// The anchor's while the state is [`ASKED`], ours otherwise.
    request: UnsafeCell<Request>,
    /// This process.
    owner: Pid,
    /// What the anchor runs on, and nobody else.
    stack: Stack,
}

const STARTING: u32 = 3;
const IDLE: u32 = 0;
const ASKED: u32 = 1;
const DONE: u32 = 2;

/// What a process is to be made of, and what came of it.
#[derive(Debug)]
struct Request {
    namespaces: u64,
    cgroup: Option<RawFd>,
    stack: *const Stack,
    body: ChildBody,
    argument: *mut c_void,
    pidfd: RawFd,
    made: Result<Pid>,
}

// SAFETY: the pointers of a request are used only while `Anchor::run`, which got what they point to, waits.
unsafe impl Send for Desk {}
// SAFETY: the request is written under the lock of `turn`, and given to and fro by the state; the stack is the anchor's.
unsafe impl Sync for Desk {}

/// How often a wait for the anchor looks whether it still lives.
const LOOK: Duration = Duration::from_millis(50);

impl Anchor {
    /// Starts it, in the group of this process. It dies with the calling thread.
    pub(crate) fn start() -> Result<Self> {
        let owner = sandbox_freestanding::process::current();
        let desk = Box::new(Desk {
            state: AtomicU32::new(STARTING),
            request: UnsafeCell::new(Request {
                namespaces: 0,
                cgroup: None,
                stack: std::ptr::null(),
                body: stand,
                argument: std::ptr::null_mut(),
                pidfd: -1,
                made: Err(Errno::ESRCH),
            }),
            owner,
            stack: Stack::new()?,
        });
        let argument = std::ptr::from_ref(&*desk).cast_mut().cast();
        let mut pidfd = -1;
        // SAFETY: `stand` makes system calls and keeps to the desk, which lives until the process has ended: see `drop`.
        let pid = unsafe {
            clone::start_and_note(CLONE_FILES, None, &desk.stack, stand, argument, &mut pidfd)
        }?;
        // SAFETY: the kernel made the descriptor for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let process = Child { pid, pidfd };
        let anchor = Self {
            process,
            desk,
            turn: Mutex::new(()),
        };
        let state = &anchor.desk.state;
        while state.load(Ordering::Acquire) == STARTING {
            // What it says is in the state.
            let _ = wait_on(state, STARTING, LOOK);
            if state.load(Ordering::Acquire) == STARTING && anchor.has_ended() {
                return Err(Errno::ESRCH);
            }
        }
        Ok(anchor)
    }

    /// Its number here.
    pub(crate) fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Whether it has ended, or belongs to the process that this one was forked from.
    pub(crate) fn has_ended(&self) -> bool {
        self.desk.owner != sandbox_freestanding::process::current()
            || has_ended(&self.process.pidfd, Duration::ZERO)
    }

    /// As [`clone::run`], in the anchor's group or the one that is given. `ESRCH` when the anchor has ended.
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
    ) -> Result<Child> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_ended() {
            return Err(Errno::ESRCH);
        }
        let Desk { state, request, .. } = &*self.desk;
        // SAFETY: the state is not ASKED, so the request is ours, and of us only the one whose turn it is.
        unsafe {
            *request.get() = Request {
                namespaces,
                cgroup: cgroup.map(|cgroup| cgroup.as_raw_fd()),
                stack,
                body,
                argument,
                pidfd: -1,
                made: Err(Errno::ESRCH),
            };
        }
        state.store(ASKED, Ordering::Release);
        wake(state);
        while state.load(Ordering::Acquire) == ASKED {
            // What it says is in the state, or looked at below.
            let _ = wait_on(state, ASKED, LOOK);
            if state.load(Ordering::Acquire) == ASKED && self.has_ended() {
                self.end_unfinished();
                break;
            }
        }
        state.store(IDLE, Ordering::Release);
        // SAFETY: the request is ours again.
        let Request { made, pidfd, .. } = unsafe { request.get().read() };
        let pid = made?;
        // SAFETY: the kernel made the descriptor, among ours, for whoever asked.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Child { pid, pidfd })
    }

    /// Ends what an anchor was about to make when it was killed: it runs in our memory, maybe.
    fn end_unfinished(&self) {
        // SAFETY: who wrote to it has ended. The kernel writes the descriptor before the new process runs.
        let pidfd = unsafe { (*self.desk.request.get()).pidfd };
        if pidfd < 0 {
            return;
        }
        // SAFETY: as in `run`; nobody else has it.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        // It may have ended by itself, and is our child to wait for.
        let _ = send(pidfd.as_raw_fd(), SIGKILL);
        while !has_ended(&pidfd, LOOK) {}
        let options = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(WALL.cast_unsigned());
        let _ = waitid(WaitId::PidFd(pidfd.as_fd()), options);
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        if self.desk.owner != sandbox_freestanding::process::current() {
            // A fork's copy of the memory: the process is not there.
            return;
        }
        // It may have ended by itself.
        let _ = send(self.process.pidfd.as_raw_fd(), SIGKILL);
        while !has_ended(&self.process.pidfd, LOOK) {}
        // Somebody else in this process may have taken the end; it is gone either way.
        let _ = wait_for(self.process.pid);
    }
}

/// Runs `body(argument)` in a new process, as [`clone::run`], made by the anchor where there is one.
///
/// # Safety
///
/// As [`clone::run`].
pub(crate) unsafe fn run_from(
    anchor: Option<&Anchor>,
    namespaces: u64,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &Stack,
    body: ChildBody,
    argument: *mut c_void,
) -> Result<Child> {
    match anchor {
        // SAFETY: passed on to the caller.
        Some(anchor) => unsafe { anchor.run(namespaces, cgroup, stack, body, argument) },
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
    // A signal only means another look.
    matches!(poll(&mut polled, Some(&timeout)), Ok(1..))
}

/// What the anchor does: system calls, and what the desk says.
unsafe extern "C" fn stand(argument: *mut c_void) -> ! {
    // SAFETY: the desk lives until this process has ended.
    let desk = unsafe { &*argument.cast::<Desk>() };
    if prepare(desk).is_err() {
        exit(1)
    }
    desk.state.store(IDLE, Ordering::Release);
    wake(&desk.state);
    loop {
        let state = desk.state.load(Ordering::Acquire);
        if state != ASKED {
            // Whatever ends the wait, the state says what is to be done.
            let _ = wait_on(&desk.state, state, Duration::from_secs(3600));
            continue;
        }
        // SAFETY: the state says that it is ours.
        let request = unsafe { &mut *desk.request.get() };
        // SAFETY: a descriptor of the one who asked, who waits; so it is open.
        let cgroup = request
            .cgroup
            .map(|cgroup| unsafe { BorrowedFd::borrow_raw(cgroup) });
        // SAFETY: who asked has promised what `clone::run` demands, and waits.
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
        desk.state.store(DONE, Ordering::Release);
        wake(&desk.state);
    }
}

fn prepare(desk: &Desk) -> Result<()> {
    set_attribute(PR_SET_PDEATHSIG, SIGKILL as usize, 0)?;
    // It may have died before it could be said.
    if parent() != desk.owner {
        return Err(Errno::ESRCH);
    }
    // Away from the terminal, whose interrupt is for the host's process alone.
    new_session()?;
    // SAFETY: the name is a string with a NUL.
    unsafe { prctl(PR_SET_NAME, c"sandbox-anchor".as_ptr() as usize, 0) }?;
    // Whoever stops the scope ends it so.
    set_default(SIGTERM)?;
    set_mask(SignalSet(!SignalSet::default().with(SIGTERM).0)).map(drop)
}

#[cfg(test)]
mod tests {
    use sandbox_freestanding::namespace::{CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER};
    use sandbox_freestanding::process::{Wait, current};

    use super::*;

    unsafe extern "C" fn write_and_end(argument: *mut c_void) -> ! {
        // SAFETY: the parent waits, and the pointer is to its numbers.
        let numbers = unsafe { &mut *argument.cast::<[i32; 2]>() };
        *numbers = [parent().0, current().0];
        exit(3)
    }

    #[test]
    fn what_it_makes_is_a_child_of_ours() {
        let anchor = Anchor::start().expect("a process");
        assert!(!anchor.has_ended());
        let stack = Stack::new().expect("memory");
        for _ in 0..3 {
            let mut numbers = [0; 2];
            let argument = (&raw mut numbers).cast();
            // SAFETY: the body writes its argument and ends.
            let child = unsafe { anchor.run(0, None, &stack, write_and_end, argument) };
            let child = child.expect("a process");
            assert_eq!(numbers, [current().0, child.pid.0]);
            assert!(has_ended(&child.pidfd, Duration::from_secs(10)));
            assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3)));
        }
    }

    #[test]
    fn it_makes_namespaces_as_we_do() {
        let anchor = Anchor::start().expect("a process");
        let stack = Stack::new().expect("memory");
        let namespaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS;
        let mut numbers = [0; 2];
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let ours = unsafe { clone::run(namespaces, None, &stack, write_and_end, argument) };
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let its = unsafe { anchor.run(namespaces, None, &stack, write_and_end, argument) };
        assert_eq!(ours.as_ref().err(), its.as_ref().err());
        for child in ours.into_iter().chain(its) {
            assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3)));
            assert_eq!(numbers, [0, 1], "the first process of its namespace");
        }
    }

    #[test]
    fn one_that_was_killed_is_noticed() {
        let anchor = Anchor::start().expect("a process");
        send(anchor.process.pidfd.as_raw_fd(), SIGKILL).expect("it is ours");
        let stack = Stack::new().expect("memory");
        let mut numbers = [0; 2];
        let argument = (&raw mut numbers).cast();
        // SAFETY: as above.
        let child = unsafe { anchor.run(0, None, &stack, write_and_end, argument) };
        // The signal may come after the child.
        match child {
            Err(errno) => assert_eq!(errno, Errno::ESRCH),
            Ok(child) => assert_eq!(wait_for(child.pid), Ok(Wait::Exited(3))),
        }
        assert!(has_ended(&anchor.process.pidfd, Duration::from_secs(10)));
        assert!(anchor.has_ended());
    }

    #[test]
    fn who_waits_for_any_child_does_not_wait_for_it() {
        let anchor = Anchor::start().expect("a process");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let id = rustix::process::Pid::from_raw(anchor.pid().0).expect("a number");
        let seen = waitid(WaitId::Pid(id), options);
        assert_eq!(seen.err(), Some(rustix::io::Errno::CHILD));
    }

    #[test]
    fn it_ends_with_its_thread() {
        let anchor = std::thread::spawn(Anchor::start).join();
        let anchor = anchor.expect("no panic").expect("a process");
        assert!(has_ended(&anchor.process.pidfd, Duration::from_secs(10)));
    }
}
