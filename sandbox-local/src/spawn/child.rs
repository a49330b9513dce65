//! What the new process does before it executes the agent: system calls only (see
//! [`super::clone::ChildBody`]).
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use sandbox_agent::runtime::credentials::{CAP_LAST, Capabilities, raise_ambient};
use sandbox_agent::runtime::fs::{
    AT_EMPTY_PATH, AT_FDCWD, AT_RECURSIVE, O_CLOEXEC, O_NOFOLLOW, O_PATH, O_RDONLY, O_WRONLY,
    change_owner, make_directory, open, set_umask,
};
use sandbox_agent::runtime::io::{close_range, duplicate_above, duplicate_onto, write_all};
use sandbox_agent::runtime::mount::{
    MOUNT_ATTR_IDMAP, MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH, MS_NODEV, MS_NOSUID,
    MS_REC, MS_SLAVE, MountAttributes, OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE, mount, move_mount,
    open_tree, set_attributes,
};
use sandbox_agent::runtime::namespace::{CLONE_NEWCGROUP, CLONE_NEWNET, enter, unshare};
use sandbox_agent::runtime::process::{
    PR_SET_PDEATHSIG, execute_descriptor, new_session, set_attribute,
};
use sandbox_agent::runtime::signal::{SIGCONT, SIGKILL};
use sandbox_agent::runtime::stat::stat_of;
use sandbox_agent::runtime::{Errno, Fd};
use sandbox_host::safe_path::Identity;

use super::clone::ChildFailure;
use super::identity::IdentityMaps;
use super::latch::Latch;
use super::launch::{NewFolder, ScratchMount};
use super::network::Network;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LaunchStep {
    #[default]
    None,
    Session,
    DeathSignal,
    Identity,
    Capabilities,
    Group,
    GroupNamespace,
    Network,
    Propagation,
    OpenMapped,
    Replaced,
    MapMount,
    MoveMapped,
    Scratch,
    ScratchFolder,
    Descriptors,
    Execute,
}

impl LaunchStep {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Session => "start a session",
            Self::DeathSignal => "set the agent's death signal",
            Self::Identity => "write the id maps of the user namespace",
            Self::Capabilities => "keep capabilities for the agent",
            Self::Group => "enter the control groups",
            Self::Network => "enter the network namespace",
            Self::GroupNamespace => "make a cgroup namespace",
            Self::Propagation => "make mounts private",
            Self::OpenMapped => "open a folder to be mounted with mapped identities",
            Self::Replaced => {
                "a write root or the workspace was replaced while the sandbox was being made; nothing was run"
            }
            Self::MapMount => ID_MAPPING_UNSUPPORTED,
            Self::MoveMapped => "mount with mapped identities",
            Self::Scratch => "mount the sandbox's writable tmpfs",
            Self::ScratchFolder => "make the sandbox's writable folders",
            Self::Descriptors => "arrange descriptors",
            Self::Execute => "execute the agent",
        }
    }
}

/// The message for a folder whose file system does not support id-mapped mounts.
pub(crate) const ID_MAPPING_UNSUPPORTED: &str =
    "map the identities of a folder that code may write, which its file system does not support";

/// What the child reads, and where it reports a failure.
pub(super) struct ChildArguments<'a> {
    pub(super) stream: RawFd,
    pub(super) listen: Option<RawFd>,
    pub(super) program: BorrowedFd<'a>,
    pub(super) null: BorrowedFd<'a>,
    /// `/proc/PID/fd/` of the host process.
    pub(super) descriptors: &'a str,
    pub(super) network: Option<&'a Network>,
    pub(super) latch: &'a Latch,
    pub(super) join: &'a [CString],
    pub(super) maps: Option<&'a IdentityMaps>,
    pub(super) mapped: &'a [IdMapping<'a>],
    pub(super) scratch: Option<&'a ScratchMount>,
    pub(super) die_with_parent: bool,
    pub(super) cgroup_namespace: bool,
    pub(super) arguments: *const *const c_char,
    pub(super) environment: *const *const c_char,
    pub(super) failure: ChildFailure<LaunchStep>,
}

/// A folder to be mounted over itself with mapped ids.
pub(super) struct IdMapping<'a> {
    pub(super) path: &'a CStr,
    /// The object that the path must lead to.
    pub(super) object: Option<Identity>,
    /// The user namespace with the map.
    pub(super) namespace: OwnedFd,
}

/// The agent's stream in the agent.
const STREAM: RawFd = 3;
/// The agent's program, until it is executed.
const PROGRAM: RawFd = 4;
/// The agent's listening socket, if it has one.
const LISTEN: RawFd = 5;

/// Prepares the process and executes the agent.
///
/// # Safety
///
/// `argument` must point to [`ChildArguments`] that stay valid and unused until the process has
/// executed the agent or ended.
pub(super) unsafe extern "C" fn body(argument: *mut c_void) -> ! {
    // SAFETY: the parent waits, and reads this only after we have executed or ended.
    let args = unsafe { &mut *argument.cast::<ChildArguments<'_>>() };
    // All signals stay blocked: the agent resets each to its default before it unblocks them.
    match prepare(args) {
        Ok(()) => {
            // SAFETY: both lists end with a null pointer, and the parent keeps their strings alive.
            let errno = unsafe { execute_descriptor(PROGRAM, args.arguments, args.environment) };
            args.failure.end(LaunchStep::Execute, errno)
        }
        Err((step, errno)) => args.failure.end(step, errno),
    }
}

trait AtStep<T> {
    fn at(self, step: LaunchStep) -> Result<T, (LaunchStep, Errno)>;
}

impl<T> AtStep<T> for Result<T, Errno> {
    fn at(self, step: LaunchStep) -> Result<T, (LaunchStep, Errno)> {
        self.map_err(|errno| (step, errno))
    }
}

fn prepare(args: &ChildArguments<'_>) -> Result<(), (LaunchStep, Errno)> {
    // Leave the terminal's session: its interrupt is for the host process only.
    new_session().at(LaunchStep::Session)?;
    // Without a PID namespace the agent outlives us and ends its descendants itself. SIGCONT wakes
    // it: we may have stopped it to kill them.
    let death = if args.die_with_parent {
        SIGKILL
    } else {
        SIGCONT
    };
    set_attribute(PR_SET_PDEATHSIG, death as usize, 0).at(LaunchStep::DeathSignal)?;
    if let Some(maps) = args.maps {
        maps.write_own().at(LaunchStep::Identity)?;
        keep_capabilities().at(LaunchStep::Capabilities)?;
    }
    if !args.mapped.is_empty() || args.scratch.is_some() {
        mount(None, c"/", None, MS_REC | MS_SLAVE, None).at(LaunchStep::Propagation)?;
    }
    for id_mapping in args.mapped {
        mount_mapped(id_mapping)?;
    }
    if let Some(scratch) = args.scratch {
        mount_scratch(scratch)?;
    }
    if !args.join.is_empty() {
        // The groups are created in the meantime.
        args.latch.wait().at(LaunchStep::Group)?;
    }
    for group in args.join {
        let threads = open(group, O_WRONLY | O_CLOEXEC, 0).at(LaunchStep::Group)?;
        write_all(&threads, b"0").at(LaunchStep::Group)?;
    }
    if args.cgroup_namespace {
        // Not in the clone call: the namespace's root is the group that the process is in now.
        unshare(CLONE_NEWCGROUP).at(LaunchStep::GroupNamespace)?;
    }
    if let Some(network) = args.network {
        let descriptor = network.wait().at(LaunchStep::Network)?;
        enter_network(args.descriptors, descriptor).at(LaunchStep::Network)?;
    }
    arrange(args).at(LaunchStep::Descriptors)
}

/// Enters a network namespace that was opened after the host process' descriptors were copied to
/// us.
fn enter_network(descriptors: &str, descriptor: RawFd) -> Result<(), Errno> {
    let mut path = [0; 64];
    let mut length = 0;
    for byte in descriptors.bytes() {
        *path.get_mut(length).ok_or(Errno::ENAMETOOLONG)? = byte;
        length += 1;
    }
    let mut digits = [0; 10];
    let mut count = 0;
    let mut rest = descriptor.unsigned_abs();
    while count < digits.len() && (rest > 0 || count == 0) {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    for digit in digits.iter().take(count).rev() {
        *path.get_mut(length).ok_or(Errno::ENAMETOOLONG)? = *digit;
        length += 1;
    }
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::ENAMETOOLONG)?;
    let namespace = open(path, O_RDONLY | O_CLOEXEC, 0)?;
    enter(&namespace, CLONE_NEWNET)
}

/// Keeps all capabilities of the user namespace across `execve` by a user who is not root in it.
fn keep_capabilities() -> Result<(), Errno> {
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

/// Opens the path once: the object that is compared is also the one that is mapped and mounted
/// over.
fn mount_mapped(id_mapping: &IdMapping<'_>) -> Result<(), (LaunchStep, Errno)> {
    let IdMapping {
        path,
        object,
        namespace,
    } = id_mapping;
    let folder = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0).at(LaunchStep::OpenMapped)?;
    let found = stat_of(&folder).at(LaunchStep::OpenMapped)?;
    if object.is_some_and(|object| (found.device, found.inode) != (object.device, object.inode)) {
        return Err((LaunchStep::Replaced, Errno::ESTALE));
    }
    let empty = (AT_EMPTY_PATH | AT_RECURSIVE) as u32;
    let tree = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | empty;
    let tree = open_tree(&folder, c"", tree).at(LaunchStep::OpenMapped)?;
    let attributes = MountAttributes {
        set: MOUNT_ATTR_IDMAP,
        user_namespace: namespace.as_raw_fd() as u64,
        ..MountAttributes::default()
    };
    set_attributes(&tree, c"", empty, &attributes).at(LaunchStep::MapMount)?;
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, &folder, c"", flags).at(LaunchStep::MoveMapped)
}

fn mount_scratch(scratch: &ScratchMount) -> Result<(), (LaunchStep, Errno)> {
    let ScratchMount {
        target,
        options,
        folders,
    } = scratch;
    let flags = MS_NOSUID | MS_NODEV;
    mount(
        Some(c"sandbox"),
        target,
        Some(c"tmpfs"),
        flags,
        Some(options),
    )
    .at(LaunchStep::Scratch)?;
    set_umask(0);
    for NewFolder { path, mode, owner } in folders {
        make_directory(AT_FDCWD, path, *mode).at(LaunchStep::ScratchFolder)?;
        if let Some((user, group)) = owner {
            change_owner(AT_FDCWD, path, *user, *group, 0).at(LaunchStep::ScratchFolder)?;
        }
    }
    Ok(())
}

/// Descriptors of the agent: null at 0 to 2, the stream at 3, the program at 4 until it is
/// executed, a listening socket at 5.
fn arrange(args: &ChildArguments<'_>) -> Result<(), Errno> {
    // Above the numbers that are filled below.
    let stream: Fd = duplicate_above(args.stream, 10)?;
    let program: Fd = duplicate_above(args.program.as_raw_fd(), 10)?;
    let null: Fd = duplicate_above(args.null.as_raw_fd(), 10)?;
    let listen: Option<Fd> = match args.listen {
        Some(listen) => Some(duplicate_above(listen, 10)?),
        None => None,
    };
    for standard in 0..=2 {
        duplicate_onto(&null, standard, 0)?;
    }
    duplicate_onto(&stream, STREAM, 0)?;
    duplicate_onto(&program, PROGRAM, O_CLOEXEC)?;
    let mut last = PROGRAM;
    if let Some(listen) = listen {
        duplicate_onto(&listen, LISTEN, 0)?;
        let _ = listen.into_raw();
        last = LISTEN;
    }
    close_range(last as u32 + 1, u32::MAX, 0)?;
    // `close_range` has closed them.
    let _ = (stream.into_raw(), program.into_raw(), null.into_raw());
    Ok(())
}
