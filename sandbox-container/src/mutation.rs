//! Mutants of this backend: each omits one option but still reports it as enforced. The conformance
//! suite proves that it detects them.

use bollard::models::{ContainerCreateBody, HostConfig, ImageInspect, MountType};
use sandbox_host::Sandbox;

use crate::lowering::LoweredContainer;

/// The omitted option. Tiers without a policy are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContainerMutation {
    /// The network namespace: the container uses the host's.
    Network,
    /// The seccomp filters: the engine's, and the agent's for each execution.
    Seccomp,
    /// Only the engine's seccomp filter: the agent's still apply.
    EngineFilter,
    /// The read-only root. Files of the image's root remain closed to the code's user.
    Root,
    /// The separate user: code runs as the agent's.
    User,
    /// The limit of memory and swap.
    Memory,
    /// Only the limit of swap; hosts without swap hide its absence.
    Swap,
    /// The limit of processes.
    Processes,
    /// Read-only binds of host folders: they are writable.
    ReadOnly,
    /// The clean environment: the image's variables are included.
    Environment,
    /// The checks of an adopted container, except for `privileged` and mounts.
    Adoption,
    /// The checks of mounted host folders: neither is the path checked before, nor the folder
    /// compared after the mount.
    Folders,
}

impl ContainerMutation {
    /// Removes the option from the container and its sandbox. The report stays unchanged.
    pub(crate) fn apply(
        self,
        mut lowered: LoweredContainer,
        sandbox: &mut Sandbox,
        image: &ImageInspect,
    ) -> LoweredContainer {
        if self == Self::Network {
            lowered.body.network_disabled = None;
        }
        let host = host_config(&mut lowered.body);
        match self {
            Self::Network => host.network_mode = Some("host".into()),
            Self::Seccomp => {
                sandbox.settings.confinement.seccomp.clear();
                disable_engine_filter(host);
            }
            Self::EngineFilter => disable_engine_filter(host),
            Self::Root => host.readonly_rootfs = Some(false),
            Self::User => sandbox.settings.confinement.identity = Some((0, 0)),
            Self::Memory => (host.memory, host.memory_swap) = (None, None),
            Self::Swap => host.memory_swap = None,
            Self::Processes => host.pids_limit = None,
            Self::ReadOnly => {
                let folders = host.mounts.iter_mut().flatten();
                for folder in folders.filter(|mount| mount.typ == Some(MountType::BIND)) {
                    folder.read_only = Some(false);
                }
            }
            // Handled by the backend.
            Self::Adoption | Self::Folders => {}
            Self::Environment => {
                let config = image.config.as_ref();
                let variables = config.and_then(|config| config.env.as_ref());
                for (name, value) in variables
                    .into_iter()
                    .flatten()
                    .filter_map(|variable| variable.split_once('='))
                {
                    let entry = sandbox.env.entry(name.to_owned());
                    entry.or_insert_with(|| value.to_owned());
                }
            }
        }
        lowered
    }
}

fn host_config(body: &mut ContainerCreateBody) -> &mut HostConfig {
    body.host_config.get_or_insert_default()
}

/// Removes the engine's default filter as well.
fn disable_engine_filter(host: &mut HostConfig) {
    let options = host.security_opt.get_or_insert_default();
    options.retain(|option| !option.starts_with("seccomp="));
    options.push("seccomp=unconfined".into());
}
