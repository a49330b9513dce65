//! Starts the supervisor of a detached sandbox and hands the sandbox over to it.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid as KernelPid, PidfdFlags, pidfd_open};
use sandbox_agent::protocol::keep::{Charge, GO, Keep, SupervisorAnswer, next_message};
use sandbox_agent::runtime::Pid;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::egress::EgressConfig;
use sandbox_host::process::{Era, ProcessId};
use sandbox_host::state::{HandOver, lifetime};
use sandbox_host::{AgentInstance, ClientKey, Sandbox, failure_error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::folder::SandboxesFolder;
use super::isolator::{DetachedIsolator, own_process};
use super::record::{DetachedResources, LocalRecord};
use crate::cgroup::Group;
use crate::error;
use crate::spawn::{DetachedProcesses, Launch, SupervisorError, SupervisorSetup};

/// Time limit for the supervisor to write two small files.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// What a supervisor is started for.
pub(super) struct DetachedStart<'a> {
    pub(super) sandboxes: &'a SandboxesFolder,
    pub(super) plan: &'a Plan,
    pub(super) group: Option<Arc<Group>>,
    pub(super) traits: DetachedTraits,
}

/// What the sandbox has besides its agent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DetachedTraits {
    /// Its own PID namespace, whose first process is the agent.
    pub(super) own_processes: bool,
    /// Its own network namespace.
    pub(super) own_network: bool,
    /// A folder of the host for the code's files.
    pub(super) private: bool,
    /// The memory limit in bytes that the supervisor enforces by sampling.
    pub(super) sampled_memory: Option<u64>,
}

/// A started supervisor that waits for the confirmation that the sandbox works.
pub(super) struct DetachedLaunch<'a> {
    start: DetachedStart<'a>,
    processes: DetachedProcesses,
    isolator: DetachedIsolator,
}

impl<'a> DetachedStart<'a> {
    /// Creates the groups, then starts the supervisor and the agent in them.
    pub(super) async fn launch_with_supervisor(
        self,
        launch: Launch,
        stream: &StdUnixStream,
        users: Option<BorrowedFd<'_>>,
    ) -> Result<DetachedLaunch<'a>> {
        let tier = self.sandboxes.tier.as_str();
        let name = self.plan.name.as_str();
        let group = &self.group;
        let failed = |cause| error::setup(tier, "start of the supervisor", cause);
        let (control, supervisor_end) = StdUnixStream::pair().map_err(failed)?;
        let groups = group
            .as_ref()
            .map(|group| group.folders())
            .unwrap_or_default();
        let charge = Charge {
            folder: self
                .sandboxes
                .folder_of(name)
                .as_os_str()
                .as_bytes()
                .to_vec(),
            groups: groups
                .iter()
                .map(|folder| folder.as_os_str().as_bytes().to_vec())
                .collect(),
            own_processes: self.traits.own_processes,
        };
        // The message waits in the stream, so the supervisor finds it even if this process is
        // killed.
        (&control).write_all(&charge.encode()).map_err(failed)?;
        let setup = SupervisorSetup {
            folder: CString::new(charge.folder).map_err(|cause| failed(cause.into()))?,
            name: CString::new(name).map_err(|cause| failed(cause.into()))?,
            private: self.traits.private,
            control: supervisor_end.into(),
            creator: own_process().map_err(failed)?,
            owner: stream.as_fd().try_clone_to_owned().map_err(failed)?,
            users: users
                .map(|users| users.try_clone_to_owned())
                .transpose()
                .map_err(failed)?,
        };
        if let Some(group) = group {
            group
                .create()
                .map_err(|cause| error::setup(tier, "control groups", cause))?;
        }
        let launched = {
            let group = group.clone();
            let launch = move || {
                launch.wait_for_network();
                launch.groups_ready.opener().open();
                launch.run_detached(group.as_deref(), &setup)
            };
            tokio::task::spawn_blocking(launch).await
        };
        let processes = match launched {
            Ok(Ok(processes)) => processes,
            Ok(Err(SupervisorError::NameIsTaken)) => {
                return Err(self.sandboxes.name_is_taken(name));
            }
            Ok(Err(SupervisorError::Failed(cause))) => {
                return Err(error::setup(tier, "start of the agent", cause));
            }
            Err(panicked) => return Err(error::setup(tier, "start of the agent", panicked)),
        };
        // It waits for us, so its process id cannot be reused.
        let supervisor = KernelPid::from_raw(processes.supervisor.0)
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|supervisor| pidfd_open(supervisor, PidfdFlags::empty()))
            .map_err(|errno| failed(errno.into()))?;
        let isolator = DetachedIsolator::for_new(self.sandboxes.clone(), name, supervisor, control);
        Ok(DetachedLaunch {
            start: self,
            processes,
            isolator,
        })
    }
}

impl DetachedLaunch<'_> {
    /// The agent's process id on the host.
    pub(super) fn agent(&self) -> Pid {
        self.processes.agent
    }

    /// The isolator, which ends the sandbox.
    pub(super) fn isolator(&self) -> DetachedIsolator {
        self.isolator.clone()
    }

    /// Greets the agent, hands the sandbox over to the supervisor, and attaches as a client.
    pub(super) async fn hand_over(
        self,
        stream: UnixStream,
        sandbox: Sandbox,
        egress: EgressConfig<'_>,
    ) -> Result<AgentInstance> {
        let DetachedStart {
            sandboxes,
            plan,
            group,
            traits,
        } = &self.start;
        let tier = sandboxes.tier.as_str();
        let mut sandbox = sandbox.detached();
        // The supervisor owns it and also holds our end of the stream, so the agent ends with the
        // supervisor.
        sandbox.settings.owned = true;
        let hand_over = HandOver::new(tier, plan, &sandbox);
        let isolator = self.isolator.clone();
        let first = AgentInstance::connect(stream, sandbox, Box::new(isolator)).await?;

        let process = |what: &str, pid: i32| {
            ProcessId::of(pid).ok_or_else(|| {
                let ended = std::io::Error::other("it has ended");
                error::setup(tier, what, ended)
            })
        };
        let resources = DetachedResources {
            era: Era::current(),
            supervisor: process("the supervisor", self.processes.supervisor.0)?,
            agent: process("the agent", self.processes.agent.0)?,
            own_processes: traits.own_processes,
            own_network: traits.own_network,
            groups: group
                .as_ref()
                .map(|group| group.folders())
                .unwrap_or_default(),
            counter: group.as_ref().and_then(|group| group.counter()),
            process_limit: group.as_ref().and_then(|group| group.process_limit()),
            sampled: traits.sampled_memory.is_some(),
        };
        let lifetime_ms = u64::try_from(lifetime(plan).as_millis()).unwrap_or(u64::MAX);
        let mut confirmed = None;
        let write_record = async |record: &LocalRecord, key: &ClientKey| {
            let keep = Keep {
                lifetime_ms: lifetime_ms.max(1),
                sampled_memory: traits.sampled_memory.unwrap_or(0),
                key: key.clone(),
                record: record.encode()?,
            };
            let control = self.isolator.take_control();
            let control = control.ok_or_else(|| refused(tier, "it was ended".into()))?;
            let ready = tokio::time::timeout(HANDOVER_TIMEOUT, confirm(tier, control, &keep)).await;
            let ready =
                ready.map_err(|_| refused(tier, format!("no answer within {HANDOVER_TIMEOUT:?}")));
            confirmed = Some(ready??);
            self.isolator.set_record(record.clone());
            Ok(())
        };
        let attach = async |record: &LocalRecord, _: &ClientKey| {
            super::attach(sandboxes, record, self.isolator.clone(), egress).await
        };
        let instance = hand_over
            .finish(first, resources, write_record, attach)
            .await?;
        if let Some(control) = confirmed {
            (&control)
                .write_all(&GO)
                .map_err(|cause| refused(tier, cause.to_string()))?;
        }
        if let Some(group) = group {
            group.release();
        }
        Ok(instance)
    }
}

fn refused(tier: &str, why: String) -> Error {
    let context = format!("the supervisor of the sandbox: {why}");
    Error::new(ErrorKind::SetupFailed, "create sandbox", context).on(tier)
}

/// Sends the record and waits for the answer. Returns the stream: until the handover is complete,
/// closing it ends the sandbox.
async fn confirm(tier: &str, control: StdUnixStream, keep: &Keep) -> Result<StdUnixStream> {
    let broken = |cause: std::io::Error| refused(tier, cause.to_string());
    control.set_nonblocking(true).map_err(broken)?;
    let mut control = UnixStream::from_std(control).map_err(broken)?;
    control.write_all(&keep.encode()).await.map_err(broken)?;
    let mut bytes = Vec::new();
    loop {
        let next = next_message(&bytes).map_err(|error| refused(tier, error.to_string()))?;
        if let Some((message, _)) = next {
            return match SupervisorAnswer::decode(message) {
                Ok(SupervisorAnswer::Ready) => control.into_std().map_err(broken),
                Ok(SupervisorAnswer::Refused(failure)) => Err(failure_error(tier, &failure)),
                Err(error) => Err(refused(tier, error.to_string())),
            };
        }
        if control.read_buf(&mut bytes).await.map_err(broken)? == 0 {
            return Err(refused(tier, "it has ended".into()));
        }
    }
}
