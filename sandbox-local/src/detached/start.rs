//! Creates a detached sandbox: like [`crate::start`], but with a supervisor that takes it over in
//! the end.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use sandbox_agent::protocol::keep::files;
use sandbox_agent::runtime::namespace::CLONE_NEWNET;
use sandbox_core::{Plan, Result};
use sandbox_host::egress::EgressConfig;
use sandbox_host::{AgentInstance, Isolator as _, Sandbox};
use tokio::net::UnixStream;

use super::folder::{SandboxesFolder, name_of};
use super::handover::{DetachedStart, DetachedTraits};
use crate::cgroup::Group;
use crate::error;
use crate::host::Isolation;
use crate::lower::with_groups;
use crate::python_alias::with_search_path;
use crate::setup::{send_early, set_up};
use crate::spawn::Launch;
use crate::start::{CreationRequest, agent_stream, in_host_namespaces, with_file_systems};
use crate::subordinate::Range;

/// Creates the sandbox. On failure, or if the future is dropped or this process is killed, the
/// supervisor removes everything.
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
    let sandboxes = prepare(tier, state, plan)?;
    let network = request.prepare_host()?;
    let own_root = lowered.isolation != Isolation::Landlock;
    let range = match lowered.isolation {
        Isolation::Privileged => Some(Range::take(tier)?),
        _ => None,
    };
    let group = Group::plan(&host.cgroups, &lowered.groups).map(Arc::new);
    let (stream, agent_end) = agent_stream(tier)?;
    let pending_setup = match own_root {
        true => {
            let setup = with_groups(lowered.setup.clone(), group.as_deref());
            Some(send_early(tier, &stream, &setup)?)
        }
        false => None,
    };
    // The agent's parent is the supervisor.
    let launch = Launch {
        listen: Some(listening_socket(tier)?),
        ..request.launch(agent_end, network, range.as_ref())?
    };
    let start = DetachedStart {
        sandboxes: &sandboxes,
        plan,
        group,
        traits: DetachedTraits {
            own_processes: own_root,
            own_network: lowered.network || lowered.namespaces & CLONE_NEWNET != 0,
            private: !own_root,
            sampled_memory: lowered.sampled_memory,
        },
    };
    let users = range.as_ref().map(Range::lock);
    let started = start
        .launch_with_supervisor(launch, &stream, users)
        .await
        .map_err(|error| with_file_systems(error, &lowered.mapped))?;
    let isolator = started.isolator();
    let finished = async {
        let mut stream = into_tokio(tier, stream)?;
        let agent = started.agent();
        if let Some(pending_setup) = pending_setup {
            let map = range.as_ref().map(Range::map);
            set_up(tier, &mut stream, pending_setup, agent, map.as_deref()).await?;
        }
        let sandbox = if own_root {
            with_search_path(
                Sandbox::new(plan, lowered.confinement.clone(), lowered.report.clone())?,
                plan,
                request.host,
                lowered.isolation,
            )
        } else {
            let folder = sandboxes.folder_of(&plan.name);
            in_host_namespaces(request, &folder.join(name_of(files::PRIVATE)), agent)?
        };
        let sandbox = match &lowered.setup.egress {
            Some(_) => sandbox.with_egress(plan, egress)?,
            None => sandbox,
        };
        started.hand_over(stream, sandbox, egress).await
    };
    match finished.await {
        Err(failed) => Err(isolator.destroy_after(failed).await),
        created => created,
    }
}

/// A sandbox without isolation: only an agent.
pub(crate) struct UnconfinedStart<'a> {
    /// The tier, for errors.
    pub(crate) tier: &'a str,
    pub(crate) plan: &'a Plan,
    /// The state folder, which exists.
    pub(crate) state: &'a Path,
    pub(crate) launch: Launch,
    /// The host's end of the agent's stream.
    pub(crate) stream: StdUnixStream,
    pub(crate) group: Option<Arc<Group>>,
    pub(crate) sandbox: Sandbox,
    pub(crate) egress: EgressConfig<'a>,
}

/// Like [`start`].
pub(crate) async fn start_unconfined(sandbox: UnconfinedStart<'_>) -> Result<AgentInstance> {
    let UnconfinedStart {
        tier,
        plan,
        state,
        mut launch,
        stream,
        group,
        sandbox,
        egress,
    } = sandbox;
    let sandboxes = prepare(tier, state, plan)?;
    launch.listen = Some(listening_socket(tier)?);
    let start = DetachedStart {
        sandboxes: &sandboxes,
        plan,
        group,
        traits: DetachedTraits::default(),
    };
    let started = start.launch_with_supervisor(launch, &stream, None).await?;
    let isolator = started.isolator();
    let stream = into_tokio(tier, stream);
    let finished = async { started.hand_over(stream?, sandbox, egress).await };
    match finished.await {
        Err(failed) => Err(isolator.destroy_after(failed).await),
        created => created,
    }
}

fn prepare(tier: &str, state: &Path, plan: &Plan) -> Result<SandboxesFolder> {
    let sandboxes = SandboxesFolder::new(tier, state);
    sandboxes.prepare()?;
    // A quick check for the usual case; the supervisor claims the name atomically.
    if sandboxes.folder_of(&plan.name).exists() {
        return Err(sandboxes.name_is_taken(&plan.name));
    }
    Ok(sandboxes)
}

fn into_tokio(tier: &str, stream: StdUnixStream) -> Result<UnixStream> {
    UnixStream::from_std(stream).map_err(|cause| error::setup(tier, "the agent's stream", cause))
}

/// Creates an unbound socket; the supervisor binds it.
fn listening_socket(tier: &str) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| error::setup(tier, "the agent's socket", std::io::Error::from(errno)))
}
