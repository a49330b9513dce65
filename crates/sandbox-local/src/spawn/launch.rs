//! What the new process does before it executes the agent.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use sandbox_freestanding::credentials::{CAP_LAST, Capabilities, raise_ambient};
use sandbox_freestanding::fs::{
    AT_EMPTY_PATH, AT_FDCWD, AT_RECURSIVE, O_CLOEXEC, O_WRONLY, change_owner, make_directory, open, set_umask,
};
use sandbox_freestanding::io::{close_range, duplicate_above, duplicate_onto, write_all};
use sandbox_freestanding::mount::{
    MOUNT_ATTR_IDMAP, MOVE_MOUNT_F_EMPTY_PATH, MS_NODEV, MS_NOSUID, MS_REC, MS_SLAVE, MountAttributes,
    OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE, mount, move_mount, open_tree, set_attributes,
};
use sandbox_freestanding::namespace::{CLONE_NEWCGROUP, unshare};
use sandbox_freestanding::process::{
    PR_SET_PDEATHSIG, execute_descriptor, new_session, set_attribute,
};
use sandbox_freestanding::signal::SIGKILL;
use sandbox_freestanding::{Errno, Fd, Result};

use super::clone::{self, Child, ChildFailure, Stack};
use super::gate::Gate;
use super::identity::IdentityMaps;
use super::program;
use crate::cgroup::Group;

/// How an agent is started.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The agent's end of its stream.
    pub(crate) stream: OwnedFd,
    /// New namespaces, `CLONE_NEW*`; the one of control groups is made once the process is in its groups.
    pub(crate) namespaces: u64,
    /// Id maps that the process writes for itself, in a new user namespace; it keeps its capabilities there.
    pub(crate) maps: Option<IdentityMaps>,
    /// Folders that are mounted over themselves with mapped identities, in the new mount namespace.
    pub(crate) mapped: Vec<MappedMount>,
    /// A tmpfs in the new mount namespace.
    pub(crate) scratch: Option<ScratchMount>,
    /// Whether it dies with the thread that started it.
    pub(crate) die_with_parent: bool,
    /// Opened when the groups are made.
    pub(crate) groups: Arc<Gate>,
    /// Whether the agent is told to expect a setup message.
    pub(crate) setup: bool,
}

/// A folder of the host whose files appear as another user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedMount {
    /// The folder; no part of it is a link.
    pub(crate) path: CString,
    /// User and group of its files on the host.
    pub(crate) from: (u32, u32),
    /// Whose they appear to be, as numbers of the host.
    pub(crate) to: (u32, u32),
}

/// A tmpfs with folders in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScratchMount {
    /// A folder of the host that it hides in the new mount namespace.
    pub(crate) target: CString,
    /// Options of `mount`.
    pub(crate) options: CString,
    /// Folders in it: path, permission bits, and whose it is where that is not the caller.
    pub(crate) folders: Vec<(CString, u32, Option<(u32, u32)>)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    None,
    Session,
    DeathSignal,
    Identity,
    Capabilities,
    Group,
    GroupNamespace,
    Propagation,
    OpenMapped,
    MapMount,
    MoveMapped,
    Scratch,
    ScratchFolder,
    Descriptors,
    Execute,
}

impl Step {
    fn describe(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Session => "start a session",
            Self::DeathSignal => "tie the agent's life to ours",
            Self::Identity => "write the id maps of the user namespace",
            Self::Capabilities => "keep capabilities for the agent",
            Self::Group => "enter the control groups",
            Self::GroupNamespace => "make a cgroup namespace",
            Self::Propagation => "make mounts private",
            Self::OpenMapped => "open a folder to be mounted with mapped identities",
            Self::MapMount => {
                "map the identities of a folder that code may write (its file system has to support that, as ext4, xfs, btrfs \
                 and tmpfs do)"
            }
            Self::MoveMapped => "mount with mapped identities",
            Self::Scratch => "mount the sandbox's writable tmpfs",
            Self::ScratchFolder => "make the sandbox's writable folders",
            Self::Descriptors => "arrange descriptors",
            Self::Execute => "execute the agent",
        }
    }
}

/// What the child reads, and where it writes how far it came.
struct Order<'a> {
    stream: RawFd,
    program: BorrowedFd<'a>,
    null: BorrowedFd<'a>,
    gate: &'a Gate,
    join: &'a [CString],
    maps: Option<&'a IdentityMaps>,
    mapped: &'a [(&'a CStr, OwnedFd)],
    scratch: Option<&'a ScratchMount>,
    die_with_parent: bool,
    cgroup_namespace: bool,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    failure: ChildFailure<Step>,
}

/// What every start needs, made once.
#[derive(Debug)]
pub(super) struct Tools {
    program: BorrowedFd<'static>,
    null: File,
    stack: Stack,
}

impl Tools {
    /// Those that are there, or new ones.
    pub(super) fn of(tools: &mut Option<Self>) -> io::Result<&mut Self> {
        let made = match tools.take() {
            Some(made) => made,
            None => Self {
                program: program::descriptor()?,
                null: File::options().read(true).write(true).open("/dev/null")?,
                stack: Stack::new().map_err(|errno| failed("make a stack", errno.0))?,
            },
        };
        Ok(tools.insert(made))
    }
}

/// The number of the agent's stream in the agent.
const STREAM: RawFd = 3;
/// The number of its program, until it is executed.
const PROGRAM: RawFd = 4;

impl Launch {
    /// Starts the agent in the groups. Returns once it executes, or with what failed.
    pub(super) fn run(&self, tools: &Tools, group: Option<&Group>) -> io::Result<Child> {
        let mut mapped = Vec::with_capacity(self.mapped.len());
        for one in &self.mapped {
            mapped.push((one.path.as_c_str(), super::holder::user_namespace(one.from, one.to)?));
        }
        let mut arguments = vec![c"sandbox-agent", c"serve", c"--fd", c"3"];
        if self.setup {
            arguments.push(c"--setup");
        }
        let mut arguments = arguments.into_iter().map(CStr::as_ptr).collect::<Vec<_>>();
        arguments.push(std::ptr::null());
        let environment = [std::ptr::null()];
        let mut order = Order {
            stream: self.stream.as_raw_fd(),
            program: tools.program,
            null: tools.null.as_fd(),
            gate: &self.groups,
            join: group.map_or(&[], Group::join),
            maps: self.maps.as_ref(),
            mapped: &mapped,
            scratch: self.scratch.as_ref(),
            die_with_parent: self.die_with_parent,
            cgroup_namespace: self.namespaces & CLONE_NEWCGROUP != 0,
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            failure: ChildFailure::default(),
        };
        let folder = group.and_then(Group::folder);
        let namespaces = self.namespaces & !CLONE_NEWCGROUP;
        // SAFETY: `body` makes system calls and writes to its argument, which lives until it has executed or ended.
        let child = unsafe {
            clone::run(namespaces, folder, &tools.stack, body, (&raw mut order).cast())
        };
        let child = child.map_err(|errno| failed("clone", errno.0))?;
        let ChildFailure { step, errno } = order.failure;
        if step == Step::None {
            return Ok(child);
        }
        // Somebody else in this process may have taken the end; the child is gone either way.
        let _ = sandbox_freestanding::process::wait_for(child.pid);
        Err(failed(step.describe(), errno))
    }
}

fn failed(step: &str, errno: i32) -> io::Error {
    let cause = io::Error::from_raw_os_error(errno);
    io::Error::new(cause.kind(), format!("{step}: {cause}"))
}

unsafe extern "C" fn body(argument: *mut c_void) -> ! {
    // SAFETY: the parent waits, and reads this only when we have executed or ended.
    let order = unsafe { &mut *argument.cast::<Order<'_>>() };
    // Every signal stays blocked: the agent gives each its default effect before it lets one through.
    match prepare(order) {
        Ok(()) => {
            // SAFETY: both lists end with a null pointer, and their strings live as long as the parent waits.
            let errno =
                unsafe { execute_descriptor(PROGRAM, order.arguments, order.environment) };
            order.failure.end(Step::Execute, errno)
        }
        Err((step, errno)) => order.failure.end(step, errno),
    }
}

trait At<T> {
    fn at(self, step: Step) -> std::result::Result<T, (Step, Errno)>;
}

impl<T> At<T> for Result<T> {
    fn at(self, step: Step) -> std::result::Result<T, (Step, Errno)> {
        self.map_err(|errno| (step, errno))
    }
}

fn prepare(order: &Order<'_>) -> std::result::Result<(), (Step, Errno)> {
    // Away from the terminal, whose interrupt is for the host's process alone.
    new_session().at(Step::Session)?;
    if order.die_with_parent {
        set_attribute(PR_SET_PDEATHSIG, SIGKILL as usize, 0).at(Step::DeathSignal)?;
    }
    if let Some(maps) = order.maps {
        maps.write_own().at(Step::Identity)?;
        keep_capabilities().at(Step::Capabilities)?;
    }
    if !order.mapped.is_empty() || order.scratch.is_some() {
        mount(None, c"/", None, MS_REC | MS_SLAVE, None).at(Step::Propagation)?;
    }
    for (path, namespace) in order.mapped {
        mount_mapped(path, namespace)?;
    }
    if let Some(scratch) = order.scratch {
        mount_scratch(scratch)?;
    }
    if !order.join.is_empty() {
        // They are made while we did the rest.
        order.gate.wait().at(Step::Group)?;
    }
    for group in order.join {
        let threads = open(group, O_WRONLY | O_CLOEXEC, 0).at(Step::Group)?;
        write_all(&threads, b"0").at(Step::Group)?;
    }
    if order.cgroup_namespace {
        // Not with the clone: its root is the group that the process is in when it is made.
        unshare(CLONE_NEWCGROUP).at(Step::GroupNamespace)?;
    }
    arrange(order).at(Step::Descriptors)
}

/// Lets every capability of the own user namespace survive the execution of a program by a user who is not root there.
fn keep_capabilities() -> Result<()> {
    let mut capabilities = Capabilities::current()?;
    capabilities.inheritable = capabilities.permitted;
    capabilities.apply()?;
    for capability in 0..=CAP_LAST {
        if capabilities.permitted & (1 << capability) != 0 {
            raise_ambient(capability)?;
        }
    }
    Ok(())
}

fn mount_mapped(path: &CStr, namespace: &OwnedFd) -> std::result::Result<(), (Step, Errno)> {
    let tree = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
    let tree = open_tree(AT_FDCWD, path, tree | AT_RECURSIVE as u32).at(Step::OpenMapped)?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_IDMAP,
        user_namespace: namespace.as_raw_fd() as u64,
        ..MountAttributes::default()
    };
    let flags = (AT_EMPTY_PATH | AT_RECURSIVE) as u32;
    set_attributes(&tree, c"", flags, &attributes).at(Step::MapMount)?;
    move_mount(&tree, AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH).at(Step::MoveMapped)
}

fn mount_scratch(scratch: &ScratchMount) -> std::result::Result<(), (Step, Errno)> {
    let ScratchMount { target, options, folders } = scratch;
    let flags = MS_NOSUID | MS_NODEV;
    mount(Some(c"sandbox"), target, Some(c"tmpfs"), flags, Some(options)).at(Step::Scratch)?;
    set_umask(0);
    for (path, mode, owner) in folders {
        make_directory(AT_FDCWD, path, *mode).at(Step::ScratchFolder)?;
        if let Some((user, group)) = owner {
            change_owner(AT_FDCWD, path, *user, *group, 0).at(Step::ScratchFolder)?;
        }
    }
    Ok(())
}

/// Null at 0, 1 and 2, the stream at 3, the program at 4 until it is executed, and nothing else.
fn arrange(order: &Order<'_>) -> Result<()> {
    // Out of the way of the numbers that are filled below.
    let stream: Fd = duplicate_above(order.stream, 10)?;
    let program: Fd = duplicate_above(order.program.as_raw_fd(), 10)?;
    let null: Fd = duplicate_above(order.null.as_raw_fd(), 10)?;
    for standard in 0..=2 {
        duplicate_onto(&null, standard, 0)?;
    }
    duplicate_onto(&stream, STREAM, 0)?;
    duplicate_onto(&program, PROGRAM, O_CLOEXEC)?;
    close_range(PROGRAM as u32 + 1, u32::MAX, 0)?;
    // Closed with all the others.
    let _ = (stream.into_raw(), program.into_raw(), null.into_raw());
    Ok(())
}
