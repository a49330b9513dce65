//! How an agent is started, on the side of the host.
#![expect(unsafe_code, reason = "a child in shared memory")]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sandbox_freestanding::namespace::CLONE_NEWCGROUP;
use sandbox_host::safe_path::Identity;

use super::anchor::run_from;
use super::child::{Mapping, Order, Step, body};
use super::clone::{Child, ChildFailure, Stack};
use super::gate::Gate;
use super::identity::IdentityMaps;
use super::network::Network;
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
    /// A network namespace to enter.
    pub(crate) network: Option<Network>,
    /// Opened when the groups are made.
    pub(crate) groups: Arc<Gate>,
    /// Whether the agent is told to expect a setup message.
    pub(crate) setup: bool,
    /// A listening socket on which the agent takes further clients.
    pub(crate) listen: Option<OwnedFd>,
}

/// A folder of the host whose files appear as another user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedMount {
    /// The folder; no part of it is a link.
    pub(crate) path: CString,
    /// What the path must lead to. Somebody holds it open.
    pub(crate) object: Option<Identity>,
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
    /// Folders in it.
    pub(crate) folders: Vec<NewFolder>,
}

/// A folder to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewFolder {
    pub(crate) path: CString,
    /// Permission bits.
    pub(crate) mode: u32,
    /// User and group, where that is not the caller.
    pub(crate) owner: Option<(u32, u32)>,
}

/// What every start needs, made once.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) program: BorrowedFd<'static>,
    pub(super) null: File,
    pub(super) stack: Stack,
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

impl Launch {
    /// Starts the agent in the groups. Returns once it executes, or with what failed.
    pub(super) fn run(&self, tools: &Tools, group: Option<&Group>) -> io::Result<Child> {
        self.with_order(tools, group, |order, namespaces, folder| {
            // SAFETY: `body` makes system calls and writes to its argument, which lives until it has executed or ended.
            let child = unsafe {
                run_from(
                    group.and_then(Group::anchor),
                    namespaces,
                    folder,
                    &tools.stack,
                    body,
                    std::ptr::from_mut(order).cast(),
                )
            };
            let child = child.map_err(|errno| failed("clone", errno.0))?;
            if order.failure.step == Step::None {
                return Ok(child);
            }
            // Somebody else in this process may have taken the end; the child is gone either way.
            let _ = sandbox_freestanding::process::wait_for(child.pid);
            Err(self.failure(order.failure))
        })
    }

    /// Waits until the network namespace is there, or cannot be made: then the start says so.
    pub(crate) fn wait_for_network(&self) {
        if let Some(network) = &self.network {
            let _ = network.wait();
        }
    }

    /// What kept the agent from being executed.
    pub(super) fn failure(&self, ChildFailure { step, errno }: ChildFailure<Step>) -> io::Error {
        match self.network.as_ref().and_then(Network::failure) {
            Some(why) if step == Step::Network => io::Error::other(why),
            _ => failed(step.describe(), errno),
        }
    }

    /// Has a process made out of what the agent's needs: its namespaces, and the version 2 control group that it starts in.
    pub(super) fn with_order<T>(
        &self,
        tools: &Tools,
        group: Option<&Group>,
        make: impl FnOnce(&mut Order<'_>, u64, Option<BorrowedFd<'_>>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut mapped = Vec::with_capacity(self.mapped.len());
        for one in &self.mapped {
            mapped.push(Mapping {
                path: one.path.as_c_str(),
                object: one.object,
                namespace: super::holder::user_namespace(one.from, one.to)?,
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
        let mut order = Order {
            stream: self.stream.as_raw_fd(),
            listen: self.listen.as_ref().map(AsRawFd::as_raw_fd),
            program: tools.program,
            null: tools.null.as_fd(),
            descriptors: &descriptors,
            network: self.network.as_ref(),
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
        make(&mut order, namespaces, folder)
    }
}

pub(super) fn failed(step: &str, errno: i32) -> io::Error {
    let cause = io::Error::from_raw_os_error(errno);
    io::Error::new(cause.kind(), format!("{step}: {cause}"))
}
