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
use sandbox_agent::runtime::fs::{
    AT_FDCWD, AT_REMOVEDIR, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR, change_directory,
    make_directory, open, set_umask, unlink,
};
use sandbox_agent::runtime::io::{close_range, duplicate_above, duplicate_onto, flock};
use sandbox_agent::runtime::net::{UnixAddress, bind, listen};
use sandbox_agent::runtime::process::{
    PR_SET_CHILD_SUBREAPER, execute_descriptor, exit, new_session, set_attribute,
};
use sandbox_agent::runtime::{Errno, Fd, Pid};

use super::Launch;
use super::child::{self, LaunchStep};
use super::clone::{self, ChildFailure, Stack};
use super::launch::{SpawnTools, failed};
use super::scope_helper::run_with;
use crate::cgroup::Group;

/// What a supervisor gets besides the agent.
#[derive(Debug)]
pub(crate) struct SupervisorSetup {
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
pub(crate) struct DetachedProcesses {
    pub(crate) supervisor: Pid,
    pub(crate) agent: Pid,
}

/// Why the supervisor could not be started.
#[derive(Debug)]
pub(crate) enum SupervisorError {
    /// A sandbox of this name exists.
    NameIsTaken,
    /// A step failed.
    Failed(io::Error),
}

impl From<io::Error> for SupervisorError {
    fn from(cause: io::Error) -> Self {
        Self::Failed(cause)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SupervisorStep {
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

impl SupervisorStep {
    fn describe(self) -> &'static str {
        match self {
            Self::None | Self::Agent => "nothing",
            Self::Clone => "clone the supervisor",
            Self::Session => "start the supervisor's session",
            Self::Folder => "make the sandbox's folder",
            Self::EnterFolder => "enter the sandbox's folder",
            Self::Lock => "lock the sandbox's folder",
            Self::Private => "make the sandbox's private folder",
            Self::Socket => "make the agent's socket",
            Self::CloneAgent => "clone",
            Self::Descriptors => "arrange the supervisor's descriptors",
            Self::Execute => "execute the supervisor",
        }
    }
}

struct SupervisorArguments<'a, 'b> {
    setup: &'a SupervisorSetup,
    listen: RawFd,
    program: BorrowedFd<'a>,
    null: BorrowedFd<'a>,
    supervisor_stack: &'a Stack,
    agent_stack: &'a Stack,
    agent: &'a mut child::ChildArguments<'b>,
    agent_namespaces: u64,
    agent_group: Option<BorrowedFd<'a>>,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    supervisor_pid: Pid,
    agent_pid: Pid,
    made: FolderState,
    failure: ChildFailure<SupervisorStep>,
}

/// How much of the sandbox's folder exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderState {
    Nothing,
    Folder,
    /// It is the working directory.
    Entered,
}

impl Launch {
    /// Starts a supervisor and, as its child, the agent in the groups, which must exist. Returns
    /// once both have executed. On failure nothing of either stays behind.
    pub(crate) fn run_detached(
        &self,
        group: Option<&Group>,
        setup: &SupervisorSetup,
    ) -> Result<DetachedProcesses, SupervisorError> {
        let mut tools = None;
        let tools = SpawnTools::of(&mut tools)?;
        let stack = || Stack::new().map_err(|errno| failed("allocate a stack", errno.0));
        let (first_stack, supervisor_stack) = (stack()?, stack()?);
        let Some(listen) = &self.listen else {
            return Err(failed("make the agent's socket", Errno::EBADF.0).into());
        };
        let listen = listen.as_raw_fd();
        let name = setup.name.as_ptr();
        let arguments = [
            c"sandbox-agent".as_ptr(),
            c"keep".as_ptr(),
            name,
            std::ptr::null(),
        ];
        let environment = [std::ptr::null()];
        let mut taken = false;
        let launched =
            self.with_child_arguments(tools, group, |agent, agent_namespaces, agent_group| {
                let mut args = SupervisorArguments {
                    setup,
                    listen,
                    program: tools.program,
                    null: std::os::fd::AsFd::as_fd(&tools.null),
                    supervisor_stack: &supervisor_stack,
                    agent_stack: &tools.stack,
                    agent,
                    agent_namespaces,
                    agent_group,
                    arguments: arguments.as_ptr(),
                    environment: environment.as_ptr(),
                    supervisor_pid: Pid(0),
                    agent_pid: Pid(0),
                    made: FolderState::Nothing,
                    failure: ChildFailure::default(),
                };
                // SAFETY: `exit_after_clone` and its descendants make system calls and write to their
                // argument only. It outlives them: each process waits for the next.
                let first = unsafe {
                    run_with(
                        group.and_then(Group::helper),
                        0,
                        None,
                        &first_stack,
                        exit_after_clone,
                        (&raw mut args).cast(),
                    )
                };
                let first = first.map_err(|errno| failed("clone", errno.0))?;
                // Another thread may have reaped it; the child is gone either way.
                let _ = sandbox_agent::runtime::process::wait_for(first.pid);
                let ChildFailure { step, errno } = args.failure;
                match step {
                    SupervisorStep::None => Ok(DetachedProcesses {
                        supervisor: args.supervisor_pid,
                        agent: args.agent_pid,
                    }),
                    SupervisorStep::Agent => Err(self.failure(args.agent.failure)),
                    step => {
                        taken = step == SupervisorStep::Folder && errno == Errno::EEXIST.0;
                        Err(failed(step.describe(), errno))
                    }
                }
            });
        match launched {
            Err(_) if taken => Err(SupervisorError::NameIsTaken),
            launched => Ok(launched?),
        }
    }
}

/// Starts the supervisor and exits.
unsafe extern "C" fn exit_after_clone(argument: *mut c_void) -> ! {
    let args = argument.cast::<SupervisorArguments<'_, '_>>();
    // SAFETY: our parent waits, and no other process uses the arguments until the next one is
    // cloned.
    let stack = unsafe { (*args).supervisor_stack };
    // SAFETY: as for this process: the arguments stay valid, and we wait.
    match unsafe { clone::run(0, None, stack, become_supervisor, argument) } {
        Ok(supervisor) => {
            // SAFETY: the supervisor has executed or ended.
            unsafe { (*args).supervisor_pid = supervisor.pid };
            // Closed by the exit.
            let _ = supervisor.pidfd.into_raw_fd();
            exit(0)
        }
        // SAFETY: there is no supervisor.
        Err(errno) => unsafe { (*args).failure.end(SupervisorStep::Clone, errno) },
    }
}

unsafe extern "C" fn become_supervisor(argument: *mut c_void) -> ! {
    // SAFETY: the parents wait, and read this only after we have executed or ended.
    let args = unsafe { &mut *argument.cast::<SupervisorArguments<'_, '_>>() };
    let (step, errno) = match prepare(args) {
        Ok(()) => {
            // SAFETY: both lists end with a null pointer, and the parents keep their strings alive.
            let errno = unsafe { execute_descriptor(PROGRAM, args.arguments, args.environment) };
            (SupervisorStep::Execute, errno)
        }
        Err(failed) => failed,
    };
    remove_partial(args);
    // Our end ends the agent too: through its death signal or its stream.
    args.failure.end(step, errno)
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
const FIRST_HELD: RawFd = 7;

/// The accept backlog of the agent's socket.
const BACKLOG: i32 = 64;

type StepResult<T> = Result<T, (SupervisorStep, Errno)>;

trait AtStep<T> {
    fn at(self, step: SupervisorStep) -> StepResult<T>;
}

impl<T> AtStep<T> for Result<T, Errno> {
    fn at(self, step: SupervisorStep) -> StepResult<T> {
        self.map_err(|errno| (step, errno))
    }
}

fn prepare(args: &mut SupervisorArguments<'_, '_>) -> StepResult<()> {
    let setup = args.setup;
    new_session().at(SupervisorStep::Session)?;
    set_attribute(PR_SET_CHILD_SUBREAPER, 1, 0).at(SupervisorStep::Session)?;
    set_umask(0o077);
    make_directory(AT_FDCWD, &setup.folder, 0o700).at(SupervisorStep::Folder)?;
    args.made = FolderState::Folder;
    change_directory(&setup.folder).at(SupervisorStep::EnterFolder)?;
    args.made = FolderState::Entered;
    let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    let lock = open(files::LOCK, flags, 0o600).at(SupervisorStep::Lock)?;
    flock(&lock, LOCK_EX | LOCK_NB).at(SupervisorStep::Lock)?;
    if setup.private {
        make_directory(AT_FDCWD, files::PRIVATE, 0o700).at(SupervisorStep::Private)?;
    }
    // Relative to the folder: an absolute path may exceed the length of a socket address.
    let (address, length) =
        UnixAddress::new(files::SOCKET.to_bytes()).at(SupervisorStep::Socket)?;
    bind(args.listen, address.bytes(length)).at(SupervisorStep::Socket)?;
    listen(args.listen, BACKLOG).at(SupervisorStep::Socket)?;
    let agent_argument = std::ptr::from_mut(args.agent).cast();
    // SAFETY: the agent's arguments stay valid and unused until it has executed or ended; this call
    // waits for that.
    let agent = unsafe {
        clone::run(
            args.agent_namespaces,
            args.agent_group,
            args.agent_stack,
            child::body,
            agent_argument,
        )
    };
    let agent = agent.at(SupervisorStep::CloneAgent)?;
    args.agent_pid = agent.pid;
    let pidfd = agent.pidfd.into_raw_fd();
    if args.agent.failure.step != LaunchStep::None {
        return Err((SupervisorStep::Agent, Errno(args.agent.failure.errno)));
    }
    arrange(args, pidfd, lock.into_raw()).at(SupervisorStep::Descriptors)
}

/// Moves each descriptor to its number and closes all others.
fn arrange(args: &SupervisorArguments<'_, '_>, agent: RawFd, lock: RawFd) -> Result<(), Errno> {
    let setup = args.setup;
    let null = args.null.as_raw_fd();
    let users = setup.users.as_ref().map_or(null, AsRawFd::as_raw_fd);
    let wanted = [
        (null, 0),
        (null, 1),
        (null, 2),
        (setup.control.as_raw_fd(), CONTROL),
        (args.program.as_raw_fd(), PROGRAM),
        (setup.creator.as_raw_fd(), CREATOR),
        (agent, AGENT),
        (lock, FIRST_HELD),
        (setup.owner.as_raw_fd(), FIRST_HELD + 1),
        (users, FIRST_HELD + 2),
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
    close_range(FIRST_HELD as u32 + 3, u32::MAX, 0)
}

/// Removes what [`prepare`] has created. Missing files are fine.
fn remove_partial(args: &SupervisorArguments<'_, '_>) {
    if args.made == FolderState::Entered {
        for name in [files::SOCKET, files::LOCK] {
            let _ = unlink(AT_FDCWD, name, 0);
        }
        let _ = unlink(AT_FDCWD, files::PRIVATE, AT_REMOVEDIR);
    }
    if args.made != FolderState::Nothing {
        let _ = unlink(AT_FDCWD, &args.setup.folder, AT_REMOVEDIR);
    }
}

const LOCK_EX: i32 = 2;
const LOCK_NB: i32 = 4;
