//! Building a detached sandbox: as [`crate::start`] does it, but with a keeper, which takes it over in the end.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid as KernelPid, PidfdFlags, pidfd_open};
use sandbox_agent::protocol::keep::{Answer, Charge, GO, Keep, files, next_message};
use sandbox_core::plan::defaults;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::{AgentInstance, Sandbox, failure_error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::isolator::{KeptIsolator, own_process};
use super::record::{Parts, Record};
use super::sandboxes::{Sandboxes, name_of};
use crate::cgroup::Group;
use crate::error;
use crate::etc_folder;
use crate::host::Isolation;
use crate::process::ProcessId;
use crate::setup::{send_early, set_up};
use crate::spawn::identity::IdentityMaps;
use crate::spawn::{Keeping, Kept, Launch, Network, Refusal};
use crate::stale::sweep_once;
use crate::start::{Order, code_on_host, in_host_namespaces, mapped_mounts, scratch_mount, stream};
use crate::subordinate::Range;

/// How long the keeper may take to write two small files.
const TAKE_OVER: Duration = Duration::from_secs(10);

/// Builds it. When this fails, or its future is dropped, or this process is killed, its keeper removes everything.
pub(super) async fn start(order: &Order<'_>, sandboxes: &Sandboxes) -> Result<AgentInstance> {
    let Order {
        tier,
        plan,
        host,
        state,
        lowered,
    } = *order;
    sandboxes.prepare()?;
    let folder = sandboxes.folder_of(&plan.name);
    // Most often it is known already; the keeper finds out for certain.
    if folder.exists() {
        return Err(sandboxes.name_is_taken(&plan.name));
    }
    let network = match lowered.network {
        true => Some(Network::begin().map_err(|cause| error::setup(tier, "network", cause))?),
        false => None,
    };
    if let Some(etc) = &lowered.etc {
        etc_folder::prepare(tier, state, etc)?;
    }
    sweep_once(&host.cgroups, state);
    let own_root = lowered.isolation != Isolation::Landlock;
    let range = match lowered.isolation {
        Isolation::Privileged => Some(Range::take(tier, state)?),
        _ => None,
    };
    let group = Group::plan(&host.cgroups, &lowered.groups).map(Arc::new);
    let (stream, theirs) = stream(tier)?;
    let sending = match own_root {
        true => Some(send_early(tier, &stream, &lowered.setup)?),
        false => None,
    };
    let code = code_on_host(lowered, range.as_ref());
    let launch = Launch {
        stream: theirs,
        namespaces: lowered.namespaces,
        maps: (lowered.isolation == Isolation::UserNamespace)
            .then(|| IdentityMaps::of_caller(host.user.id, host.user.group)),
        mapped: mapped_mounts(tier, &lowered.mapped, code)?,
        scratch: match own_root {
            true => Some(scratch_mount(tier, state, &lowered.scratch, code)?),
            false => None,
        },
        // With its keeper.
        die_with_parent: own_root,
        network,
        groups: Arc::default(),
        setup: own_root,
        listen: Some(listening_socket(tier)?),
    };
    let start = Start {
        sandboxes,
        name: &plan.name,
        folder: folder.clone(),
        own_processes: own_root,
    };
    let users = range.as_ref().map(Range::lock);
    let started = start.with_keeper(launch, &stream, users, group).await?;
    let isolator = started.isolator.clone();
    let finished = async {
        let mut stream = UnixStream::from_std(stream)
            .map_err(|cause| error::setup(tier, "the agent's stream", cause))?;
        let agent = started.kept.agent;
        if let Some(sending) = sending {
            let map = range.as_ref().map(Range::map);
            set_up(tier, &mut stream, sending, agent, map.as_deref()).await?;
        }
        let sandbox = if own_root {
            Sandbox::new(plan, lowered.confinement.clone(), lowered.report.clone())?
        } else {
            in_host_namespaces(order, &folder.join(name_of(files::PRIVATE)), agent)?
        };
        let sampled = lowered.sampled_memory;
        started.hand_over(stream, sandbox, plan, sampled).await
    };
    match finished.await {
        Err(failed) => Err(isolator.after(failed).await),
        kept => kept,
    }
}

/// A socket that is not bound yet: the keeper makes its name.
fn listening_socket(tier: &str) -> Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| error::setup(tier, "the agent's socket", std::io::Error::from(errno)))
}

/// What a keeper is started for.
pub(super) struct Start<'a> {
    pub(super) sandboxes: &'a Sandboxes,
    pub(super) name: &'a str,
    pub(super) folder: PathBuf,
    pub(super) own_processes: bool,
}

/// A keeper that waits to be told that the sandbox works.
pub(super) struct Started {
    sandboxes: Sandboxes,
    kept: Kept,
    own_processes: bool,
    group: Option<Arc<Group>>,
    isolator: KeptIsolator,
}

impl Start<'_> {
    /// Starts the keeper and the agent, in groups that are made before.
    pub(super) async fn with_keeper(
        self,
        launch: Launch,
        stream: &StdUnixStream,
        users: Option<std::os::fd::BorrowedFd<'_>>,
        group: Option<Arc<Group>>,
    ) -> Result<Started> {
        let tier = self.sandboxes.tier.as_str();
        let failed = |cause| error::setup(tier, "start of the keeper", cause);
        let (control, theirs) = StdUnixStream::pair().map_err(failed)?;
        let groups = group
            .as_ref()
            .map(|group| group.folders())
            .unwrap_or_default();
        let charge = Charge {
            folder: self.folder.as_os_str().as_bytes().to_vec(),
            groups: groups
                .iter()
                .map(|folder| folder.as_os_str().as_bytes().to_vec())
                .collect(),
            own_processes: self.own_processes,
        };
        // It waits in the stream, so that the keeper finds it even if it finds nobody else.
        (&control).write_all(&charge.encode()).map_err(failed)?;
        let keeping = Keeping {
            folder: CString::new(charge.folder).map_err(|cause| failed(cause.into()))?,
            name: CString::new(self.name).map_err(|cause| failed(cause.into()))?,
            private: !self.own_processes,
            control: theirs.into(),
            creator: own_process().map_err(failed)?,
            owner: stream.as_fd().try_clone_to_owned().map_err(failed)?,
            users: users
                .map(|users| users.try_clone_to_owned())
                .transpose()
                .map_err(failed)?,
        };
        if let Some(group) = &group {
            group
                .create()
                .map_err(|cause| error::setup(tier, "control groups", cause))?;
        }
        let launched = {
            let group = group.clone();
            let launch = move || {
                launch.wait_for_network();
                launch.groups.opener().open();
                launch.run_kept(group.as_deref(), &keeping)
            };
            tokio::task::spawn_blocking(launch).await
        };
        let kept = match launched {
            Ok(Ok(kept)) => kept,
            Ok(Err(Refusal::NameIsTaken)) => return Err(self.sandboxes.name_is_taken(self.name)),
            Ok(Err(Refusal::Failed(cause))) => {
                return Err(error::setup(tier, "start of the agent", cause));
            }
            Err(panicked) => return Err(error::setup(tier, "start of the agent", panicked)),
        };
        // It waits for us, so its number is its own.
        let keeper = KernelPid::from_raw(kept.keeper.0)
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|keeper| pidfd_open(keeper, PidfdFlags::empty()))
            .map_err(|errno| failed(errno.into()))?;
        Ok(Started {
            sandboxes: self.sandboxes.clone(),
            kept,
            own_processes: self.own_processes,
            group,
            isolator: KeptIsolator::of_new(self.sandboxes.clone(), self.name, keeper, control),
        })
    }
}

impl Started {
    /// Greets the agent, gives the sandbox to its keeper, and becomes one of its clients.
    pub(super) async fn hand_over(
        self,
        stream: UnixStream,
        sandbox: Sandbox,
        plan: &Plan,
        sampled: Option<u64>,
    ) -> Result<AgentInstance> {
        let tier = self.sandboxes.tier.as_str();
        let mut sandbox = sandbox.detached();
        // Its owner is the keeper, which holds our end of the stream as well: so the agent ends with its keeper.
        sandbox.settings.owned = true;
        let key = sandbox.settings.key.clone();
        let (env, enforcement) = (sandbox.env.clone(), sandbox.enforcement.clone());
        let isolator = self.isolator.clone();
        let first = AgentInstance::connect(stream, sandbox, Box::new(isolator)).await?;

        let process = |what: &str, pid: i32| {
            ProcessId::of(pid).ok_or_else(|| {
                let ended = std::io::Error::other("it has ended");
                error::setup(tier, what, ended)
            })
        };
        let lifetime = plan.lifetime.unwrap_or(defaults::DETACHED_LIFETIME);
        let parts = Parts {
            keeper: process("the keeper", self.kept.keeper.0)?,
            agent: process("the agent", self.kept.agent.0)?,
            own_processes: self.own_processes,
            groups: self
                .group
                .as_ref()
                .map(|group| group.folders())
                .unwrap_or_default(),
            counter: self.group.as_ref().and_then(|group| group.counter()),
            sampled: sampled.is_some(),
        };
        let record = Record::new(tier, plan, env, enforcement, lifetime, parts);
        let keep = Keep {
            lifetime_ms: u64::try_from(lifetime.as_millis())
                .unwrap_or(u64::MAX)
                .max(1),
            sampled_memory: sampled.unwrap_or(0),
            key,
            record: record.encode()?,
        };
        let control = self.isolator.take_control();
        let control = control.ok_or_else(|| refused(tier, "it was ended".into()))?;
        let ready = tokio::time::timeout(TAKE_OVER, write_down(tier, control, &keep)).await;
        let control =
            ready.map_err(|_| refused(tier, format!("no answer within {TAKE_OVER:?}")))??;
        self.isolator.learn(record.clone());
        drop(first);
        let instance = super::attach(&self.sandboxes, record, self.isolator).await?;
        // Without an await after it: a creation that is given up leaves nothing, one that has returned a sandbox.
        (&control)
            .write_all(&GO)
            .map_err(|cause| refused(tier, cause.to_string()))?;
        if let Some(group) = &self.group {
            group.give_away();
        }
        Ok(instance)
    }
}

fn refused(tier: &str, why: String) -> Error {
    let context = format!("the keeper of the sandbox: {why}");
    Error::new(ErrorKind::SetupFailed, "create sandbox", context).on(tier)
}

/// Says that the sandbox works, and waits for the answer; gives the stream back, whose end is still the end of the sandbox.
async fn write_down(tier: &str, control: StdUnixStream, keep: &Keep) -> Result<StdUnixStream> {
    let broken = |cause: std::io::Error| refused(tier, cause.to_string());
    control.set_nonblocking(true).map_err(broken)?;
    let mut control = UnixStream::from_std(control).map_err(broken)?;
    control.write_all(&keep.encode()).await.map_err(broken)?;
    let mut bytes = Vec::new();
    loop {
        let next = next_message(&bytes).map_err(|error| refused(tier, error.to_string()))?;
        if let Some((message, _)) = next {
            return match Answer::decode(message) {
                Ok(Answer::Ready) => control.into_std().map_err(broken),
                Ok(Answer::Refused(failure)) => Err(failure_error(tier, &failure)),
                Err(error) => Err(refused(tier, error.to_string())),
            };
        }
        if control.read_buf(&mut bytes).await.map_err(broken)? == 0 {
            return Err(refused(tier, "it has ended".into()));
        }
    }
}
