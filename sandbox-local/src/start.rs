//! Creates one sandbox: from the lowered plan to an agent that answers.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_agent::runtime::Pid;
use sandbox_agent::runtime::namespace::CLONE_NEWNET;
use sandbox_core::{Error, Plan, Result};
use sandbox_host::egress::EgressConfig;
use sandbox_host::{AgentInstance, Sandbox};
use sandbox_lang::packages::ProvisionNetwork;
use tokio::net::UnixStream;

use crate::attached::AttachedRecord;
use crate::cgroup::{Group, was_removed};
use crate::cleanup::Leftovers;
use crate::error;
use crate::etc_folder;
use crate::host::{Host, Isolation, OpenObject, mount_table, mounts_of, user_tasks};
use crate::isolator::LocalIsolator;
use crate::lower::{
    IdMappedFolder, LocalPlan, LoweringContext, SCRATCH, Scratch, lower, with_groups,
};
use crate::owned_folder;
use crate::python_alias::with_search_path;
use crate::sampler::MemoryWatch;
use crate::setup::{send_early, set_up};
use crate::spawn::ID_MAPPING_UNSUPPORTED;
use crate::spawn::identity::IdentityMaps;
use crate::spawn::{IdMappedMount, Launch, Network, NewFolder, PendingAgent, ScratchMount};
use crate::subordinate::Range;
use crate::sweep::sweep_once;

/// What to create.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CreationRequest<'a> {
    pub(crate) tier: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) host: &'a Host,
    /// The state folder. It exists, and no component of its path is a link.
    pub(crate) state: &'a Path,
    pub(crate) lowered: &'a LocalPlan,
    /// A network namespace whose creation has begun.
    pub(crate) network: Option<&'a Network>,
    pub(crate) egress: EgressConfig<'a>,
}

impl CreationRequest<'_> {
    /// Starts the slowest steps early and prepares what all sandboxes share.
    pub(crate) fn prepare_host(&self) -> Result<Option<Network>> {
        let network = match (self.lowered.network, self.network) {
            (true, Some(begun)) => Some(begun.clone()),
            (true, None) => {
                let begun = Network::begin();
                Some(begun.map_err(|cause| error::setup(self.tier, "network", cause))?)
            }
            (false, _) => None,
        };
        if let Some(etc) = &self.lowered.etc {
            etc_folder::prepare(self.tier, self.state, etc)?;
        }
        sweep_once(&self.host.cgroups, self.state);
        Ok(network)
    }

    /// The agent's launch parameters. With its own root, the agent dies with its parent, and
    /// with it the whole sandbox.
    pub(crate) fn launch(
        &self,
        stream: OwnedFd,
        network: Option<Network>,
        range: Option<&Range>,
    ) -> Result<Launch> {
        let Self {
            tier,
            host,
            state,
            lowered,
            ..
        } = *self;
        let own_root = lowered.isolation != Isolation::Landlock;
        let code = code_on_host(lowered, range);
        Ok(Launch {
            stream,
            namespaces: lowered.namespaces,
            maps: (lowered.isolation == Isolation::UserNamespace)
                .then(|| IdentityMaps::of_caller(host.user.id, host.user.group)),
            mapped: id_mapped_mounts(tier, &lowered.mapped, code)?,
            scratch: match own_root {
                true => Some(scratch_mount(tier, state, &lowered.scratch, code)?),
                false => None,
            },
            die_with_parent: own_root,
            network,
            groups_ready: Arc::default(),
            setup: own_root,
            listen: None,
        })
    }
}

/// Creates the sandbox. On failure, or when the future is dropped, nothing stays behind.
pub(crate) async fn start(request: &CreationRequest<'_>) -> Result<AgentInstance> {
    let CreationRequest {
        tier,
        plan,
        host,
        state,
        lowered,
        egress,
        ..
    } = *request;
    tracing::trace!("lowered");
    let network = request.prepare_host()?;
    let own_root = lowered.isolation != Isolation::Landlock;
    let mut leftovers = Leftovers::new(own_root);
    leftovers.set_record(AttachedRecord::create(tier, state, plan)?);
    if lowered.isolation == Isolation::Privileged {
        leftovers.set_range(Range::take(tier)?);
    }
    let private = if own_root {
        None
    } else {
        Some(private_folder(tier, state, &mut leftovers)?)
    };
    let group = Group::plan(&host.cgroups, &lowered.groups).map(Arc::new);
    leftovers.set_group(group.clone());

    let (stream, agent_end) = agent_stream(tier)?;
    let pending_setup = match own_root {
        true => {
            let setup = with_groups(lowered.setup.clone(), group.as_deref());
            Some(send_early(tier, &stream, &setup)?)
        }
        false => None,
    };
    let launch = request.launch(agent_end, network, leftovers.range())?;
    let leftovers = launch_agent(tier, launch, leftovers)
        .await
        .map_err(|error| with_file_systems(error, &lowered.mapped))?;
    tracing::trace!("agent executes");
    let agent = leftovers.agent().map_or(Pid(0), |agent| agent.pid);
    let mut stream = UnixStream::from_std(stream)
        .map_err(|cause| error::setup(tier, "the agent's stream", cause))?;
    if let Some(pending_setup) = pending_setup {
        let map = leftovers.range().map(Range::map);
        set_up(tier, &mut stream, pending_setup, agent, map.as_deref()).await?;
    }
    tracing::trace!("set up");
    let sandbox = match &private {
        None => with_search_path(
            Sandbox::new(plan, lowered.confinement.clone(), lowered.report.clone())?,
            plan,
            request.host,
            lowered.isolation,
        ),
        Some(private) => in_host_namespaces(request, private, agent)?,
    };
    let sandbox = match &lowered.setup.egress {
        Some(_) => sandbox.with_egress(plan, egress)?,
        None => sandbox,
    };
    let watch = match lowered.sampled_memory {
        None => None,
        Some(limit) => {
            let watch = MemoryWatch::start(agent.0, limit);
            Some(watch.map_err(|cause| error::setup(tier, "start of the memory sampler", cause))?)
        }
    };
    let own_network = lowered.network || lowered.namespaces & CLONE_NEWNET != 0;
    let isolator = LocalIsolator::new(tier, leftovers, watch, own_network, plan.lifetime);
    let instance = AgentInstance::connect(stream, sandbox, Box::new(isolator)).await;
    tracing::trace!("agent answers");
    instance
}

/// Starts the agent in the control groups of `leftovers`. Where possible, creates the groups while
/// the process starts.
pub(crate) async fn launch_agent(
    tier: &str,
    launch: Launch,
    leftovers: Leftovers,
) -> Result<Leftovers> {
    let Some(group) = leftovers.shared_group() else {
        return begin_agent(tier, launch, leftovers)?
            .wait()
            .await
            .map_err(|cause| not_started(tier, cause));
    };
    let failed = |cause| error::setup(tier, "control groups", cause);
    if group.join_files().is_empty() {
        // The process is cloned right into the group, so the group must exist first.
        group.create().map_err(failed)?;
        return begin_agent(tier, launch, leftovers)?
            .wait()
            .await
            .map_err(|cause| not_started(tier, cause));
    }
    let latch = Arc::clone(&launch.groups_ready);
    let opener = latch.opener();
    tracing::trace!("start asked for");
    let started = begin_agent(tier, launch, leftovers)?;
    // No await before the latch opens: the new process waits for it.
    if let Err(cause) = group.create() {
        drop(opener);
        // When the process fails before it enters its groups, they are removed while being created.
        // Report the process's failure then.
        return match started.wait().await {
            Err(first) if was_removed(&cause) => Err(not_started(tier, first)),
            _ => Err(failed(cause)),
        };
    }
    opener.open();
    tracing::trace!("control groups made");
    started
        .wait()
        .await
        .map_err(|cause| not_started(tier, cause))
}

fn begin_agent(tier: &str, launch: Launch, leftovers: Leftovers) -> Result<PendingAgent> {
    crate::spawn::begin_start(launch, leftovers).map_err(|cause| not_started(tier, cause))
}

/// File systems that current kernels can id-map.
const MAPPABLE: [&str; 4] = ["btrfs", "ext4", "tmpfs", "xfs"];

/// How many mounts an error names.
const MOST_NAMED: usize = 3;

/// Names the file systems that could not be id-mapped, if that may be why the agent did not start.
pub(crate) fn with_file_systems(error: Error, mapped: &[IdMappedFolder]) -> Error {
    let source = error.cause().map(ToString::to_string);
    let is_mapping = source.is_some_and(|source| source.contains(ID_MAPPING_UNSUPPORTED));
    // Without a mount table there is nothing to add.
    let (true, Ok(table)) = (is_mapping, mount_table()) else {
        return error;
    };
    let all = mapped
        .iter()
        .flat_map(|folder| mounts_of(&table, &folder.path));
    // The others are why it failed, unless an old kernel cannot map these either.
    let (mappable, others): (BTreeSet<_>, BTreeSet<_>) = all
        .map(|mount| (mount.kind.as_str(), mount.at.as_path()))
        .partition(|(kind, _)| MAPPABLE.contains(kind));
    let named = if others.is_empty() { mappable } else { others };
    let shown = named.iter().take(MOST_NAMED);
    let shown = shown.map(|(kind, at)| format!("{kind} on {}", at.display()));
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if named.len() > MOST_NAMED {
        shown += &format!(" and {} more", named.len() - MOST_NAMED);
    }
    error.with_fix(format!(
        "it has {shown}: use a folder of ext4, xfs, btrfs or tmpfs without other mounts in it, make it read-only, or run as an ordinary user",
    ))
}

fn not_started(tier: &str, cause: std::io::Error) -> Error {
    error::setup(tier, "start of the agent", cause)
}

/// A sandbox in the host's namespaces. Its private folder and the agent's process id are known only
/// now.
pub(crate) fn in_host_namespaces(
    request: &CreationRequest<'_>,
    private: &Path,
    agent: Pid,
) -> Result<Sandbox> {
    let CreationRequest {
        tier,
        plan,
        host,
        state,
        lowered,
        ..
    } = *request;
    let lowered = lower(
        plan,
        &LoweringContext {
            tier,
            host,
            isolation: lowered.isolation,
            // Reuse the paths that were opened: they are still held open.
            host_paths: &lowered.host_paths,
            state,
            private,
            agent: agent.0.unsigned_abs(),
            user_tasks: user_tasks(host.user.id),
            // Only hosts without namespaces come here.
            provision: &ProvisionNetwork::Full,
        },
    )?;
    let mut sandbox = Sandbox::new(plan, lowered.confinement, lowered.report)?;
    // Only the host may create folders of the host.
    sandbox.settings.make_dirs.clear();
    if let Some(workdir) = &lowered.workdir {
        sandbox.settings.workdir = workdir.as_os_str().as_bytes().to_vec();
    }
    let folder = private.to_string_lossy().into_owned();
    for name in ["HOME", "TMPDIR"] {
        if !plan.env.contains_key(name) {
            sandbox.env.insert(name.into(), folder.clone());
        }
    }
    Ok(sandbox)
}

/// Creates the agent's stream: the host's end and the agent's end.
pub(crate) fn agent_stream(tier: &str) -> Result<(StdUnixStream, OwnedFd)> {
    let failed = |cause| error::setup(tier, "the agent's stream", cause);
    let (host_end, agent_end) = StdUnixStream::pair().map_err(failed)?;
    host_end.set_nonblocking(true).map_err(failed)?;
    Ok((host_end, agent_end.into()))
}

/// The code's user and group ids on the host, where they differ from the caller's.
fn code_on_host(lowered: &LocalPlan, range: Option<&Range>) -> Option<(u32, u32)> {
    use sandbox_host::confinement::Mode;
    match (lowered.mode, range) {
        (Mode::Split { uid, gid }, Some(range)) => Some((range.base() + uid, range.base() + gid)),
        _ => None,
    }
}

fn id_mapped_mounts(
    tier: &str,
    mapped: &[IdMappedFolder],
    code: Option<(u32, u32)>,
) -> Result<Vec<IdMappedMount>> {
    let Some(to) = code else {
        return Ok(Vec::new());
    };
    let mount = |mapped: &IdMappedFolder| {
        Ok(IdMappedMount {
            path: c_string(tier, &mapped.path)?,
            object: mapped.object.as_ref().map(OpenObject::identity),
            from: mapped.from,
            to,
        })
    };
    mapped.iter().map(mount).collect()
}

fn scratch_mount(
    tier: &str,
    state: &Path,
    scratch: &Scratch,
    code: Option<(u32, u32)>,
) -> Result<ScratchMount> {
    let options = format!(
        "size={},nr_inodes={},mode=0755",
        scratch.size, scratch.inodes
    );
    let target = state.join(SCRATCH);
    let folders = scratch.folders.iter().map(|folder| {
        let owner = code.filter(|_| folder.owned);
        let path = c_string(tier, &target.join(&folder.name))?;
        Ok(NewFolder {
            path,
            mode: folder.mode,
            owner,
        })
    });
    Ok(ScratchMount {
        target: c_string(tier, &target)?,
        options: c_string(tier, Path::new(&options))?,
        folders: folders.collect::<Result<_>>()?,
    })
}

fn c_string(tier: &str, path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        error::invalid_spec(
            tier,
            format!("path {}: it has a NUL", path.display()),
            "remove the NUL",
        )
    })
}

/// Creates the sandbox's private folder, which is removed with it.
fn private_folder(tier: &str, state: &Path, leftovers: &mut Leftovers) -> Result<PathBuf> {
    let folder = owned_folder::make(state)
        .map_err(|cause| error::setup(tier, state.display().to_string(), cause))?;
    leftovers.set_folder(folder.clone());
    Ok(folder)
}
