//! Starts the agent of a detached sandbox as the child of its supervisor.
//!
//! Clones three processes. Each shares the memory of the one before, which waits until it has
//! executed a program or ended:
//!
//! - The first exits at once, so that the second is not a child that the host process would have to
//!   reap.
//! - The second becomes the supervisor. It claims the sandbox's name by creating its folder: from
//!   the first trace on disk, a process exists that removes it, even if the creator is killed.
//! - The third becomes the agent.
//!
//! With a systemd scope, the scope's helper clones the first, so that all of them are in the scope.
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

/// What a supervisor gets besides the agent.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// The sandbox's folder. It must not exist; its parent does.
    pub(crate) folder: CString,
    /// The sandbox's name, shown in process lists.
    pub(crate) name: CString,
    /// Whether to create a private folder for the code in it.
    pub(crate) private: bool,
    /// The supervisor's end of the control stream.
    pub(crate) control: OwnedFd,
    /// A pidfd of this process.
    pub(crate) creator: OwnedFd,
    /// Our end of the agent's stream.
    pub(crate) owner: OwnedFd,
    /// The lock of the sandbox's subordinate ids.
    pub(crate) users: Option<OwnedFd>,
}

/// The running supervisor and agent of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) keeper: Pid,
    pub(crate) agent: Pid,
}

/// Why the supervisor could not be started.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A sandbox of this name exists.
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
    /// The agent's own failure has the details.
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

/// How much of the sandbox's folder exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Nothing,
    Folder,
    /// It is the working directory.
    Entered,
}

impl Launch {
    /// Starts a supervisor and, as its child, the agent in the groups, which must exist. Returns
    /// once both have executed. On failure nothing of either stays behind.
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
            // SAFETY: `exit_after_clone` and its descendants make system calls and write to their
            // argument only. It outlives them: each process waits for the next.
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
            // Another thread may have reaped it; the child is gone either way.
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

/// Starts the supervisor and exits.
unsafe extern "C" fn leave(argument: *mut c_void) -> ! {
    let order = argument.cast::<Order<'_, '_>>();
    // SAFETY: our parent waits, and no other process uses the arguments until the next one is
    // cloned.
    let stack = unsafe { (*order).keeper_stack };
    // SAFETY: as for this process: the arguments stay valid, and we wait.
    match unsafe { clone::run(0, None, stack, become_keeper, argument) } {
        Ok(keeper) => {
            // SAFETY: the supervisor has executed or ended.
            unsafe { (*order).keeper_pid = keeper.pid };
            // Closed by the exit.
            let _ = keeper.pidfd.into_raw_fd();
            exit(0)
        }
        // SAFETY: there is no supervisor.
        Err(errno) => unsafe { (*order).failure.end(KeeperStep::Clone, errno) },
    }
}

unsafe extern "C" fn become_keeper(argument: *mut c_void) -> ! {
    // SAFETY: the parents wait, and read this only after we have executed or ended.
    let order = unsafe { &mut *argument.cast::<Order<'_, '_>>() };
    let (step, errno) = match prepare(order) {
        Ok(()) => {
            // SAFETY: both lists end with a null pointer, and the parents keep their strings alive.
            let errno = unsafe { execute_descriptor(PROGRAM, order.arguments, order.environment) };
            (KeeperStep::Execute, errno)
        }
        Err(failed) => failed,
    };
    leave_nothing(order);
    // Our end ends the agent too: through its death signal or its stream.
    order.failure.end(step, errno)
}

/// The supervisor's control stream.
const CONTROL: RawFd = 3;
/// The supervisor's program, until it is executed.
const PROGRAM: RawFd = 4;
/// A pidfd of the creator.
const CREATOR: RawFd = 5;
/// A pidfd of the agent.
const AGENT: RawFd = 6;
/// From here on, descriptors that it only holds open.
const HELD: RawFd = 7;

/// The accept backlog of the agent's socket.
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
    // Relative to the folder: an absolute path may exceed the length of a socket address.
    let (address, length) = UnixAddress::new(files::SOCKET.to_bytes()).at(KeeperStep::Socket)?;
    bind(order.listen, address.bytes(length)).at(KeeperStep::Socket)?;
    listen(order.listen, BACKLOG).at(KeeperStep::Socket)?;
    let agent_argument = std::ptr::from_mut(order.agent).cast();
    // SAFETY: the agent's arguments stay valid and unused until it has executed or ended; this call
    // waits for that.
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

/// Moves each descriptor to its number and closes all others.
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
    // Above the numbers that are filled below.
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

/// Removes what [`prepare`] has created. Missing files are fine.
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
