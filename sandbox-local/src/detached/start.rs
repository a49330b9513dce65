//! Creates a detached sandbox: like [`crate::start`], but with a supervisor that takes it over in
//! the end.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use sandbox_agent::protocol::keep::files;
use sandbox_core::{Plan, Result};
use sandbox_freestanding::namespace::CLONE_NEWNET;
use sandbox_host::{AgentInstance, Sandbox};
use tokio::net::UnixStream;

use super::hand_over::{Start, Traits};
use super::sandboxes::{Sandboxes, name_of};
use crate::cgroup::Group;
use crate::error;
use crate::host::Isolation;
use crate::setup::{send_early, set_up};
use crate::spawn::Launch;
use crate::start::{Order, explain, in_host_namespaces, stream};
use crate::subordinate::Range;

/// Creates the sandbox. On failure, or if the future is dropped or this process is killed, the
/// supervisor removes everything.
pub(crate) async fn start(order: &Order<'_>) -> Result<AgentInstance> {
    let Order {
        tier,
        plan,
        host,
        state,
        lowered,
    } = *order;
    let sandboxes = prepare(tier, state, plan)?;
    let network = order.prepare_host()?;
    let own_root = lowered.isolation != Isolation::Landlock;
    let range = match lowered.isolation {
        Isolation::Privileged => Some(Range::take(tier)?),
        _ => None,
    };
    let (stream, theirs) = stream(tier)?;
    let sending = match own_root {
        true => Some(send_early(tier, &stream, &lowered.setup)?),
        false => None,
    };
    // The agent's parent is the supervisor.
    let launch = Launch {
        listen: Some(listening_socket(tier)?),
        ..order.launch(theirs, network, range.as_ref())?
    };
    let start = Start {
        sandboxes: &sandboxes,
        plan,
        group: Group::plan(&host.cgroups, &lowered.groups).map(Arc::new),
        traits: Traits {
            own_processes: own_root,
            own_network: lowered.network || lowered.namespaces & CLONE_NEWNET != 0,
            private: !own_root,
            sampled_memory: lowered.sampled_memory,
        },
    };
    let users = range.as_ref().map(Range::lock);
    let started = start
        .with_keeper(launch, &stream, users)
        .await
        .map_err(|error| explain(error, &lowered.mapped))?;
    let isolator = started.isolator();
    let finished = async {
        let mut stream = of_runtime(tier, stream)?;
        let agent = started.agent();
        if let Some(sending) = sending {
            let map = range.as_ref().map(Range::map);
            set_up(tier, &mut stream, sending, agent, map.as_deref()).await?;
        }
        let sandbox = if own_root {
            Sandbox::new(plan, lowered.confinement.clone(), lowered.report.clone())?
        } else {
            let folder = sandboxes.folder_of(&plan.name);
            in_host_namespaces(order, &folder.join(name_of(files::PRIVATE)), agent)?
        };
        started.hand_over(stream, sandbox).await
    };
    match finished.await {
        Err(failed) => Err(isolator.after(failed).await),
        kept => kept,
    }
}

/// A sandbox without isolation: only an agent.
pub(crate) struct Uninsulated<'a> {
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
}

/// Like [`start`].
pub(crate) async fn start_uninsulated(sandbox: Uninsulated<'_>) -> Result<AgentInstance> {
    let Uninsulated {
        tier,
        plan,
        state,
        mut launch,
        stream,
        group,
        sandbox,
    } = sandbox;
    let sandboxes = prepare(tier, state, plan)?;
    launch.listen = Some(listening_socket(tier)?);
    let start = Start {
        sandboxes: &sandboxes,
        plan,
        group,
        traits: Traits::default(),
    };
    let started = start.with_keeper(launch, &stream, None).await?;
    let isolator = started.isolator();
    let finished = async { started.hand_over(of_runtime(tier, stream)?, sandbox).await };
    match finished.await {
        Err(failed) => Err(isolator.after(failed).await),
        kept => kept,
    }
}

fn prepare(tier: &str, state: &Path, plan: &Plan) -> Result<Sandboxes> {
    let sandboxes = Sandboxes::new(tier, state);
    sandboxes.prepare()?;
    // A quick check for the usual case; the supervisor claims the name atomically.
    if sandboxes.folder_of(&plan.name).exists() {
        return Err(sandboxes.name_is_taken(&plan.name));
    }
    Ok(sandboxes)
}

fn of_runtime(tier: &str, stream: StdUnixStream) -> Result<UnixStream> {
    UnixStream::from_std(stream).map_err(|cause| error::setup(tier, "the agent's stream", cause))
}

/// Creates an unbound socket; the supervisor binds it.
fn listening_socket(tier: &str) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| error::setup(tier, "the agent's socket", std::io::Error::from(errno)))
}
