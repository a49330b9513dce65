//! Starts an agent, on the host's side.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sandbox_agent::runtime::namespace::CLONE_NEWCGROUP;
use sandbox_host::safe_path::Identity;

use super::child::{ChildArguments, IdMapping, LaunchStep, body};
use super::clone::{Child, ChildFailure, Stack};
use super::identity::IdentityMaps;
use super::latch::Latch;
use super::network::Network;
use super::program;
use super::scope_helper::run_with;
use crate::cgroup::Group;

/// How to start an agent.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The agent's end of its stream.
    pub(crate) stream: OwnedFd,
    /// New namespaces, `CLONE_NEW*`. The cgroup namespace is created once the process is in its
    /// groups.
    pub(crate) namespaces: u64,
    /// Id maps that the process writes for itself in its new user namespace. It keeps its
    /// capabilities there.
    pub(crate) maps: Option<IdentityMaps>,
    /// Folders to mount over themselves with mapped ids, in the new mount namespace.
    pub(crate) mapped: Vec<IdMappedMount>,
    /// A tmpfs to mount in the new mount namespace.
    pub(crate) scratch: Option<ScratchMount>,
    /// Whether it dies with the thread that started it.
    pub(crate) die_with_parent: bool,
    /// A network namespace to enter.
    pub(crate) network: Option<Network>,
    /// Opened when the control groups exist.
    pub(crate) groups_ready: Arc<Latch>,
    /// Whether the agent waits for a setup message.
    pub(crate) setup: bool,
    /// A listening socket on which the agent accepts further clients.
    pub(crate) listen: Option<OwnedFd>,
}

/// A folder of the host whose files appear with other ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdMappedMount {
    /// The folder; no component of the path is a link.
    pub(crate) path: CString,
    /// The object that the path must lead to. The host holds it open.
    pub(crate) object: Option<Identity>,
    /// User and group of its files on the host.
    pub(crate) from: (u32, u32),
    /// The host ids that its files appear to have.
    pub(crate) to: (u32, u32),
}

/// A tmpfs with folders in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScratchMount {
    /// The folder of the host that it covers in the new mount namespace.
    pub(crate) target: CString,
    /// Mount options.
    pub(crate) options: CString,
    /// Folders to create in it.
    pub(crate) folders: Vec<NewFolder>,
}

/// A folder to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewFolder {
    pub(crate) path: CString,
    /// Permission bits.
    pub(crate) mode: u32,
    /// User and group, if not the caller's.
    pub(crate) owner: Option<(u32, u32)>,
}

/// What every start needs. Created once.
#[derive(Debug)]
pub(super) struct SpawnTools {
    pub(super) program: BorrowedFd<'static>,
    pub(super) null: File,
    pub(super) stack: Stack,
}

impl SpawnTools {
    /// Creates the resources on the first call.
    pub(super) fn of(tools: &mut Option<Self>) -> io::Result<&mut Self> {
        let made = match tools.take() {
            Some(made) => made,
            None => Self {
                program: program::descriptor()?,
                null: File::options().read(true).write(true).open("/dev/null")?,
                stack: Stack::new().map_err(|errno| failed("allocate a stack", errno.0))?,
            },
        };
        Ok(tools.insert(made))
    }
}

impl Launch {
    /// Starts the agent in the groups. Returns once it has executed.
    pub(super) fn run(&self, tools: &SpawnTools, group: Option<&Group>) -> io::Result<Child> {
        self.with_child_arguments(tools, group, |args, namespaces, cgroup| {
            // SAFETY: `body` makes system calls and writes to its argument, which lives until it
            // has executed or ended.
            let child = unsafe {
                run_with(
                    group.and_then(Group::helper),
                    namespaces,
                    cgroup,
                    &tools.stack,
                    body,
                    std::ptr::from_mut(args).cast(),
                )
            };
            let child = child.map_err(|errno| failed("clone", errno.0))?;
            if args.failure.step == LaunchStep::None {
                return Ok(child);
            }
            // Another thread may have reaped it; the child is gone either way.
            let _ = sandbox_agent::runtime::process::wait_for(child.pid);
            Err(self.failure(args.failure))
        })
    }

    /// Waits until the network namespace exists or has failed. A failure is reported by the start.
    pub(crate) fn wait_for_network(&self) {
        if let Some(network) = &self.network {
            let _ = network.wait();
        }
    }

    /// The error for the step at which the child failed.
    pub(super) fn failure(
        &self,
        ChildFailure { step, errno }: ChildFailure<LaunchStep>,
    ) -> io::Error {
        match self.network.as_ref().and_then(Network::failure) {
            Some(why) if step == LaunchStep::Network => io::Error::other(why),
            _ => failed(step.describe(), errno),
        }
    }

    /// Calls `make` with the child's arguments, its namespaces, and the v2 control group to start
    /// it in.
    pub(super) fn with_child_arguments<T>(
        &self,
        tools: &SpawnTools,
        group: Option<&Group>,
        make: impl FnOnce(&mut ChildArguments<'_>, u64, Option<BorrowedFd<'_>>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut mapped = Vec::with_capacity(self.mapped.len());
        for one in &self.mapped {
            mapped.push(IdMapping {
                path: one.path.as_c_str(),
                object: one.object,
                namespace: super::user_ns_holder::user_namespace(one.from, one.to)?,
            });
        }
        let mut arguments = vec![c"sandbox-agent", c"serve", c"--fd", c"3"];
        if self.setup {
            arguments.push(c"--setup");
        }
        if self.listen.is_some() {
            arguments.extend([c"--listen-fd", c"5"]);
        }
        let mut arguments = arguments.into_iter().map(CStr::as_ptr).collect::<Vec<_>>();
        arguments.push(std::ptr::null());
        let environment = [std::ptr::null()];
        let descriptors = format!("/proc/{}/fd/", std::process::id());
        let mut child_args = ChildArguments {
            stream: self.stream.as_raw_fd(),
            listen: self.listen.as_ref().map(AsRawFd::as_raw_fd),
            program: tools.program,
            null: tools.null.as_fd(),
            descriptors: &descriptors,
            network: self.network.as_ref(),
            latch: &self.groups_ready,
            join: group.map_or(&[], Group::join_files),
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
        make(&mut child_args, namespaces, folder)
    }
}

pub(super) fn failed(step: &str, errno: i32) -> io::Error {
    let cause = io::Error::from_raw_os_error(errno);
    io::Error::new(cause.kind(), format!("{step}: {cause}"))
}
