//! Lies of this backend: each leaves one option out and claims it all the same, so that a suite can show that it would notice.

use bollard::models::{ContainerCreateBody, HostConfig, ImageInspect, MountType};
use sandbox_host::Sandbox;

use crate::lower::Lowered;

/// What is left out. A tier without a policy is not changed by any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutation {
    /// The network of its own: the container is in the host's.
    Network,
    /// The filters of system calls: the engine's, and the agent's for each execution.
    Seccomp,
    /// The engine's filter of system calls alone: the agent's are behind it.
    EngineFilter,
    /// That the root may only be read: what root owns in the image is closed to the code's user all the same.
    Root,
    /// A user of its own: code is the agent's.
    User,
    /// The limit of memory and swap.
    Memory,
    /// The limit of swap alone: hosts without swap hide that.
    Swap,
    /// The limit of processes.
    Processes,
    /// Folders of the host that may only be read can be written.
    ReadOnly,
    /// The environment: what the image names comes with it.
    Environment,
    /// What a foreign container's maker has opened: only that it is privileged, and what it mounts, is looked at.
    Adoption,
    /// That what is mounted in a container is what was looked at on the host: neither the way to a folder is vouched for before, nor the
    /// folder compared after.
    Folders,
}

impl Mutation {
    /// The container and its sandbox without the option. What is reported stays.
    pub(crate) fn of(
        self,
        mut lowered: Lowered,
        sandbox: &mut Sandbox,
        image: &ImageInspect,
    ) -> Lowered {
        let host = host(&mut lowered.body);
        match self {
            Self::Network => host.network_mode = Some("host".into()),
            Self::Seccomp => {
                sandbox.settings.confinement.seccomp.clear();
                unfiltered(host);
            }
            Self::EngineFilter => unfiltered(host),
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
            // Elsewhere.
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

fn host(body: &mut ContainerCreateBody) -> &mut HostConfig {
    body.host_config.get_or_insert_default()
}

/// The engine's default filter goes as well.
fn unfiltered(host: &mut HostConfig) {
    let options = host.security_opt.get_or_insert_default();
    options.retain(|option| !option.starts_with("seccomp="));
    options.push("seccomp=unconfined".into());
}
