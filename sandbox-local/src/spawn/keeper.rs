//! Starting the agent of a detached sandbox as the child of its keeper.
//!
//! Three processes are made, each in the memory of the one before, which waits until it has executed a program or ended:
//!
//! - the first is there to end: so the second is nobody's child whom a host process would have to wait for;
//! - the second becomes the keeper. It claims the sandbox's name by making its folder, so that from the first trace on the
//!   disk there is a process to remove it, whatever becomes of the creator;
//! - the third becomes the agent.
//!
//! In a scope of systemd the first is made by its anchor, so that all of them are in there.
#![expect(unsafe_code, reason = "children in shared memory")]

use std::ffi::{CString, c_char, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use sandbox_agent::protocol::keep::files;
use sandbox_freestanding::fs::{
    AT_FDCWD, AT_REMOVEDIR, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR, change_directory,
    make_directory, open, set_umask, unlink,
};
use sandbox_freestanding::io::{close_range, duplicate_above, duplicate_onto, flock};
use sandbox_freestanding::net::{UnixAddress, bind, listen};
use sandbox_freestanding::process::{
    PR_SET_CHILD_SUBREAPER, execute_descriptor, exit, new_session, set_attribute,
};
use sandbox_freestanding::{Errno, Fd, Pid, Result};

use super::Launch;
use super::anchor::run_from;
use super::child::{self, Step};
use super::clone::{self, ChildFailure, Stack};
use super::launch::{Tools, failed};
use crate::cgroup::Group;

/// What a keeper gets besides the agent.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// The sandbox's folder, which is not there yet. Its parent is.
    pub(crate) folder: CString,
    /// The sandbox's name, for whoever looks at a list of processes.
    pub(crate) name: CString,
    /// Whether the code needs a folder of its own in there.
    pub(crate) private: bool,
    /// The keeper's end of its stream.
    pub(crate) control: OwnedFd,
    /// This process.
    pub(crate) creator: OwnedFd,
    /// Our end of the agent's stream.
    pub(crate) owner: OwnedFd,
    /// The lock of the sandbox's users.
    pub(crate) users: Option<OwnedFd>,
}

/// A keeper and its agent, both of which execute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) keeper: Pid,
    pub(crate) agent: Pid,
}

/// Why there is no keeper.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Something has the sandbox's name already.
    NameIsTaken,
    /// A step failed.
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(cause: io::Error) -> Self {
        Self::Failed(cause)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum KeeperStep {
    #[default]
    None,
    Clone,
    Session,
    Folder,
    EnterFolder,
    Lock,
    Private,
    Socket,
    CloneAgent,
    /// The agent's own failure says more.
    Agent,
    Descriptors,
    Execute,
}

impl KeeperStep {
    fn describe(self) -> &'static str {
        match self {
            Self::None | Self::Agent => "nothing",
            Self::Clone => "clone the keeper",
            Self::Session => "start the keeper's session",
            Self::Folder => "make the sandbox's folder",
            Self::EnterFolder => "enter the sandbox's folder",
            Self::Lock => "lock the sandbox's folder",
            Self::Private => "make the sandbox's private folder",
            Self::Socket => "make the agent's socket",
            Self::CloneAgent => "clone",
            Self::Descriptors => "arrange the keeper's descriptors",
            Self::Execute => "execute the keeper",
        }
    }
}

struct Order<'a, 'b> {
    keeping: &'a Keeping,
    listen: RawFd,
    program: BorrowedFd<'a>,
    null: BorrowedFd<'a>,
    keeper_stack: &'a Stack,
    agent_stack: &'a Stack,
    agent: &'a mut child::Order<'b>,
    agent_namespaces: u64,
    agent_group: Option<BorrowedFd<'a>>,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    keeper_pid: Pid,
    agent_pid: Pid,
    made: Made,
    failure: ChildFailure<KeeperStep>,
}

/// How much of the sandbox's folder is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Nothing,
    Folder,
    /// It is our working folder.
    Entered,
}

impl Launch {
    /// Starts a keeper and, as its child, the agent in the groups, which exist. Returns once both execute, or with what
    /// failed; then nothing is left of either.
    pub(crate) fn run_kept(
        &self,
        group: Option<&Group>,
        keeping: &Keeping,
    ) -> std::result::Result<Kept, Refusal> {
        let mut tools = None;
        let tools = Tools::of(&mut tools)?;
        let stack = || Stack::new().map_err(|errno| failed("make a stack", errno.0));
        let (first_stack, keeper_stack) = (stack()?, stack()?);
        let Some(listen) = &self.listen else {
            return Err(failed("make the agent's socket", Errno::EBADF.0).into());
        };
        let listen = listen.as_raw_fd();
        let name = keeping.name.as_ptr();
        let arguments = [
            c"sandbox-agent".as_ptr(),
            c"keep".as_ptr(),
            name,
            std::ptr::null(),
        ];
        let environment = [std::ptr::null()];
        let mut taken = false;
        let kept = self.with_order(tools, group, |agent, agent_namespaces, agent_group| {
            let mut order = Order {
                keeping,
                listen,
                program: tools.program,
                null: std::os::fd::AsFd::as_fd(&tools.null),
                keeper_stack: &keeper_stack,
                agent_stack: &tools.stack,
                agent,
                agent_namespaces,
                agent_group,
                arguments: arguments.as_ptr(),
                environment: environment.as_ptr(),
                keeper_pid: Pid(0),
                agent_pid: Pid(0),
                made: Made::Nothing,
                failure: ChildFailure::default(),
            };
            // SAFETY: `leave` and what it starts make system calls and write to their argument, which lives until all of
            // them have executed or ended: each waits for the next one.
            let first = unsafe {
                run_from(
                    group.and_then(Group::anchor),
                    0,
                    None,
                    &first_stack,
                    leave,
                    (&raw mut order).cast(),
                )
            };
            let first = first.map_err(|errno| failed("clone", errno.0))?;
            // Somebody else in this process may have taken the end; the child is gone either way.
            let _ = sandbox_freestanding::process::wait_for(first.pid);
            let ChildFailure { step, errno } = order.failure;
            match step {
                KeeperStep::None => Ok(Kept {
                    keeper: order.keeper_pid,
                    agent: order.agent_pid,
                }),
                KeeperStep::Agent => Err(self.failure(order.agent.failure)),
                step => {
                    taken = step == KeeperStep::Folder && errno == Errno::EEXIST.0;
                    Err(failed(step.describe(), errno))
                }
            }
        });
        match kept {
            Err(_) if taken => Err(Refusal::NameIsTaken),
            kept => Ok(kept?),
        }
    }
}

/// Starts the keeper and ends.
unsafe extern "C" fn leave(argument: *mut c_void) -> ! {
    let order = argument.cast::<Order<'_, '_>>();
    // SAFETY: our maker waits, and nobody else reads or writes the order until the next process is made.
    let stack = unsafe { (*order).keeper_stack };
    // SAFETY: as for this process: the order lives, and we wait.
    match unsafe { clone::run(0, None, stack, become_keeper, argument) } {
        Ok(keeper) => {
            // SAFETY: the keeper has executed or ended.
            unsafe { (*order).keeper_pid = keeper.pid };
            // Closed by the end.
            let _ = keeper.pidfd.into_raw_fd();
            exit(0)
        }
        // SAFETY: there is no keeper.
        Err(errno) => unsafe { (*order).failure.end(KeeperStep::Clone, errno) },
    }
}

unsafe extern "C" fn become_keeper(argument: *mut c_void) -> ! {
    // SAFETY: our makers wait, and read this only when we have executed or ended.
    let order = unsafe { &mut *argument.cast::<Order<'_, '_>>() };
    let (step, errno) = match prepare(order) {
        Ok(()) => {
            // SAFETY: both lists end with a null pointer, and their strings live as long as our makers wait.
            let errno = unsafe { execute_descriptor(PROGRAM, order.arguments, order.environment) };
            (KeeperStep::Execute, errno)
        }
        Err(failed) => failed,
    };
    leave_nothing(order);
    // Our end ends the agent: it dies with us, or with its stream.
    order.failure.end(step, errno)
}

/// The keeper's stream.
const CONTROL: RawFd = 3;
/// Its program, until it is executed.
const PROGRAM: RawFd = 4;
/// Its creator's process.
const CREATOR: RawFd = 5;
/// Its agent's process.
const AGENT: RawFd = 6;
/// From here on what it only holds.
const HELD: RawFd = 7;

/// How many clients may wait to be taken.
const BACKLOG: i32 = 64;

type Prepared<T> = std::result::Result<T, (KeeperStep, Errno)>;

trait At<T> {
    fn at(self, step: KeeperStep) -> Prepared<T>;
}

impl<T> At<T> for Result<T> {
    fn at(self, step: KeeperStep) -> Prepared<T> {
        self.map_err(|errno| (step, errno))
    }
}

fn prepare(order: &mut Order<'_, '_>) -> Prepared<()> {
    let keeping = order.keeping;
    new_session().at(KeeperStep::Session)?;
    set_attribute(PR_SET_CHILD_SUBREAPER, 1, 0).at(KeeperStep::Session)?;
    set_umask(0o077);
    make_directory(AT_FDCWD, &keeping.folder, 0o700).at(KeeperStep::Folder)?;
    order.made = Made::Folder;
    change_directory(&keeping.folder).at(KeeperStep::EnterFolder)?;
    order.made = Made::Entered;
    let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    let lock = open(files::LOCK, flags, 0o600).at(KeeperStep::Lock)?;
    flock(&lock, LOCK_EX | LOCK_NB).at(KeeperStep::Lock)?;
    if keeping.private {
        make_directory(AT_FDCWD, files::PRIVATE, 0o700).at(KeeperStep::Private)?;
    }
    // Relative to the folder: its whole path may be longer than the address of a socket can be.
    let (address, length) = UnixAddress::new(files::SOCKET.to_bytes()).at(KeeperStep::Socket)?;
    bind(order.listen, address.bytes(length)).at(KeeperStep::Socket)?;
    listen(order.listen, BACKLOG).at(KeeperStep::Socket)?;
    let agent_argument = std::ptr::from_mut(order.agent).cast();
    // SAFETY: the agent's order lives until the agent executes or has ended, for which this waits, and nobody else uses it.
    let agent = unsafe {
        clone::run(
            order.agent_namespaces,
            order.agent_group,
            order.agent_stack,
            child::body,
            agent_argument,
        )
    };
    let agent = agent.at(KeeperStep::CloneAgent)?;
    order.agent_pid = agent.pid;
    let pidfd = agent.pidfd.into_raw_fd();
    if order.agent.failure.step != Step::None {
        return Err((KeeperStep::Agent, Errno(order.agent.failure.errno)));
    }
    arrange(order, pidfd, lock.into_raw()).at(KeeperStep::Descriptors)
}

/// Each descriptor at its number, and nothing else open.
fn arrange(order: &Order<'_, '_>, agent: RawFd, lock: RawFd) -> Result<()> {
    let keeping = order.keeping;
    let null = order.null.as_raw_fd();
    let users = keeping.users.as_ref().map_or(null, AsRawFd::as_raw_fd);
    let wanted = [
        (null, 0),
        (null, 1),
        (null, 2),
        (keeping.control.as_raw_fd(), CONTROL),
        (order.program.as_raw_fd(), PROGRAM),
        (keeping.creator.as_raw_fd(), CREATOR),
        (agent, AGENT),
        (lock, HELD),
        (keeping.owner.as_raw_fd(), HELD + 1),
        (users, HELD + 2),
    ];
    // Out of the way of the numbers that are filled below.
    let mut moved = [0; 10];
    for ((from, _), moved) in wanted.iter().zip(&mut moved) {
        let duplicate: Fd = duplicate_above(*from, 20)?;
        *moved = duplicate.into_raw();
    }
    for ((_, to), moved) in wanted.iter().zip(moved) {
        let flags = if *to == PROGRAM { O_CLOEXEC } else { 0 };
        duplicate_onto(moved, *to, flags)?;
    }
    close_range(HELD as u32 + 3, u32::MAX, 0)
}

/// Removes what [`prepare`] has made. What is not there is as wanted.
fn leave_nothing(order: &Order<'_, '_>) {
    if order.made == Made::Entered {
        for name in [files::SOCKET, files::LOCK] {
            let _ = unlink(AT_FDCWD, name, 0);
        }
        let _ = unlink(AT_FDCWD, files::PRIVATE, AT_REMOVEDIR);
    }
    if order.made != Made::Nothing {
        let _ = unlink(AT_FDCWD, &order.keeping.folder, AT_REMOVEDIR);
    }
}

const LOCK_EX: i32 = 2;
const LOCK_NB: i32 = 4;
