//! Converts a plan to the engine's options. Pure, so snapshot tests cover it.

mod binds;
mod storage;
mod tighten;
mod tmpfs;
mod ulimits;

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountType, MountVolumeOptions,
};
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::{ByteSize, Error, ErrorKind, Plan, Result};
use sandbox_host::confinement::Mode;
use sandbox_host::disk_split::is_below;

pub(crate) use storage::{RootFilesystem, StorageSplit};
pub(crate) use tighten::DefaultPaths;

use tmpfs::{Tmpfs, TmpfsMounts};
use ulimits::ulimits;

use crate::egress;
use crate::engine::EngineFacts;
use crate::folders::HostFolders;
use crate::identity::CodeIdentity;
use crate::image::ImageFacts;
use crate::labels;
use crate::options::EngineOptions;
use crate::quota;
use crate::volume;
use crate::{Family, Tier};

/// The engine refuses less: starting a container needs about this much.
const MIN_MEMORY: ByteSize = ByteSize::mib(6);

/// Processes of a sandbox besides the code's: the agent, and the supervisor of an execution.
const AGENT_PROCESSES: i64 = 2;

/// Host threads of a user-space kernel per sandboxed process. gVisor's `ptrace` platform was seen
/// to use 13; it ends the sandbox if it cannot create more.
const USER_KERNEL_THREADS_PER_PROCESS: i64 = 32;

/// Host threads of a user-space kernel before any sandboxed process.
const USER_KERNEL_BASE_THREADS: i64 = 256;

/// Capabilities that the agent keeps: to change to the code's user, empty the bounding set, and
/// kill.
const AGENT_CAPABILITIES: [&str; 4] = ["KILL", "SETGID", "SETPCAP", "SETUID"];

/// The name of a sandbox's container.
pub(crate) fn container_name(sandbox: &str) -> String {
    format!("sandbox-{sandbox}")
}

/// Inputs of a container besides the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpecInputs<'a> {
    pub tier: Tier,
    pub facts: &'a EngineFacts,
    pub image: &'a ImageFacts,
    /// Name of the agent's volume.
    pub volume: &'a str,
    /// The OCI runtime, if configured.
    pub runtime: Option<&'a str>,
    /// Paths to hide that mounted host folders would expose.
    pub hidden: &'a [String],
    /// The engine's network for a sandbox with network access, if configured.
    pub network: Option<&'a str>,
    /// The seccomp profile as the engine takes it: text or a file name. `None` if the engine
    /// applies none.
    pub profile: Option<&'a str>,
    /// The user's engine options.
    pub options: &'a EngineOptions,
    /// Paths that the engine hides by default; set only if an option adds paths.
    pub default_paths: &'a DefaultPaths,
    /// The opened host folders.
    pub folders: &'a HostFolders,
    /// The folder on the engine's host with the files of names of sandboxes without a network.
    pub name_files: Option<&'a str>,
    /// Mounts of the image's files of users, with an entry for the code's user.
    pub user_mounts: &'a [Mount],
}

/// A plan as the engine's options.
#[derive(Debug)]
pub(crate) struct LoweredContainer {
    pub body: ContainerCreateBody,
    /// Folders that the agent must give to the code's user.
    pub chown_dirs: Vec<String>,
}

/// Adds files, except where the plan shows something else.
fn add_files<'a>(mounts: &mut Vec<Mount>, files: impl IntoIterator<Item = &'a Mount>) {
    for mount in files {
        let target = mount.target.as_deref().unwrap_or_default();
        let holds_it = |other: &Mount| {
            let folder = other.target.as_deref().unwrap_or_default();
            is_below(target, folder)
        };
        if !mounts.iter().any(holds_it) {
            mounts.push(mount.clone());
        }
    }
}

/// The container of a sandbox with a policy.
///
/// # Errors
///
/// What a container cannot do: see [`binds::binds`]. `NotEnforceable` for values, `InvalidSpec` for
/// reserved labels.
pub(crate) fn confined(
    plan: &Plan,
    inputs: &SpecInputs<'_>,
    storage: &StorageSplit,
    identity: CodeIdentity,
) -> Result<LoweredContainer> {
    let tier = inputs.tier;
    let memory = memory(tier, plan)?;
    let (code, mode) = (identity.code, identity.mode());
    let has_rules = egress::carries_rules(plan, inputs.facts);
    let capabilities = match mode {
        Mode::Split { .. } => AGENT_CAPABILITIES.as_slice(),
        // Needed to drop the others for good.
        Mode::Shared if plan.writable_root || has_rules => &["SETPCAP"],
        Mode::Shared => &[],
    };
    let mut mounts = vec![agent_mount(inputs.volume)];
    mounts.extend(binds::binds(tier, plan, inputs.facts, inputs.folders)?);
    match inputs.name_files {
        Some(folder) if has_rules => mounts.extend(egress::name_mounts(folder)),
        Some(folder) => add_files(&mut mounts, [&egress::hosts_mount(folder)]),
        None => {}
    }
    add_files(&mut mounts, inputs.user_mounts);
    let family = inputs.tier.family;
    let mut tmpfs = storage.mounts(code);
    if !plan.writable_root {
        close_writable_folders(family, &mut tmpfs, &mounts);
    }
    add_socket_folder(plan, &mut tmpfs);
    cover_hidden_paths(inputs, &mut tmpfs);
    cover_image_volumes(inputs.image, &mut tmpfs, &mounts);
    open_root_home(&mut tmpfs, &mounts, code);
    let chown_dirs = match mode {
        Mode::Split { .. } => tmpfs.folders_to_chown(family),
        // Code runs as the container's root, which owns these folders.
        Mode::Shared => Vec::new(),
    };
    // The agent drops it before code runs.
    let changes_owner = !chown_dirs.is_empty() || (plan.writable_root && mode != Mode::Shared);
    let chown_capability = changes_owner.then_some("CHOWN");
    // Podman mounts an image's root so that not even its owner may write there.
    let override_capability = plan.writable_root.then_some("DAC_OVERRIDE");
    let network_capability = has_rules.then_some(egress::CAPABILITY);
    let host = HostConfig {
        // Files.
        readonly_rootfs: Some(!plan.writable_root),
        storage_opt: match storage.root {
            RootFilesystem::Bounded(size) => {
                let size = size.to_string();
                Some(HashMap::from([(quota::OPTION.to_owned(), size)]))
            }
            RootFilesystem::ReadOnly | RootFilesystem::Unbounded(_) => None,
        },
        tmpfs: Some(tmpfs.options(family)),
        shm_size: Some(signed(storage.shared_memory)),
        // Namespaces.
        network_mode: Some(network_mode(plan, inputs.network).to_owned()),
        ipc_mode: Some("private".into()),
        userns_mode: identity.keep_id.then(|| "keep-id".into()),
        cgroupns_mode: inputs
            .facts
            .api_at_least(1, 41)
            .then_some(HostConfigCgroupnsModeEnum::PRIVATE),
        sysctls: has_rules.then(|| {
            let (name, value) = egress::LOW_PORTS;
            HashMap::from([(name.to_owned(), value.to_owned())])
        }),
        // Privileges.
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".into()]),
        // In shared mode code keeps the agent's capabilities: none.
        cap_add: Some(
            capabilities
                .iter()
                .copied()
                .chain(chown_capability)
                .chain(override_capability)
                .chain(network_capability)
                .map(ToOwned::to_owned)
                .collect(),
        ),
        security_opt: Some(security_options(inputs.profile)),
        // Limits. `memory_swap` is memory plus swap.
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: Some(nano_cpus(plan, inputs.facts)),
        pids_limit: Some(processes(plan, inputs.facts)),
        ulimits: Some(ulimits(plan, inputs.facts.hard_limits)),
        ..base_host_config(inputs, mounts)
    };
    let user = match mode {
        Mode::Split { .. } => (0, 0),
        Mode::Shared => code,
    };
    let mut body = ContainerCreateBody {
        host_config: Some(host),
        network_disabled: skips_network(plan, inputs).then_some(true),
        ..agent_container(plan, inputs, user)?
    };
    tighten::tighten(
        tier,
        plan,
        inputs.facts,
        inputs.options,
        inputs.default_paths,
        &mut body,
    )?;
    Ok(LoweredContainer { body, chown_dirs })
}

/// The container of a sandbox without a policy: the engine's defaults, and our agent.
///
/// # Errors
///
/// As [`confined`].
pub(crate) fn unconfined(plan: &Plan, inputs: &SpecInputs<'_>) -> Result<ContainerCreateBody> {
    let mut mounts = vec![agent_mount(inputs.volume)];
    mounts.extend(binds::binds(
        inputs.tier,
        plan,
        inputs.facts,
        inputs.folders,
    )?);
    let mut tmpfs = TmpfsMounts::default();
    add_socket_folder(plan, &mut tmpfs);
    cover_hidden_paths(inputs, &mut tmpfs);
    let host = HostConfig {
        tmpfs: (!tmpfs.is_empty()).then(|| tmpfs.options(inputs.tier.family)),
        ..base_host_config(inputs, mounts)
    };
    let user = plan.user.unwrap_or_default();
    Ok(ContainerCreateBody {
        host_config: Some(host),
        ..agent_container(plan, inputs, user)?
    })
}

/// Options of every container: removed when it ends, without log and without an init process.
fn base_host_config(inputs: &SpecInputs<'_>, mounts: Vec<Mount>) -> HostConfig {
    HostConfig {
        auto_remove: Some(true),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".into()),
            config: None,
        }),
        runtime: inputs.runtime.map(ToOwned::to_owned),
        mounts: Some(mounts),
        init: Some(false),
        ..HostConfig::default()
    }
}

/// Starts the agent instead of the image's entry point, user, working folder and health check.
fn agent_container(
    plan: &Plan,
    inputs: &SpecInputs<'_>,
    user: (u32, u32),
) -> Result<ContainerCreateBody> {
    Ok(ContainerCreateBody {
        image: Some(inputs.image.id.clone()),
        entrypoint: Some(vec![volume::AGENT.to_owned()]),
        cmd: Some(agent_arguments(plan)),
        user: Some(format!("{}:{}", user.0, user.1)),
        working_dir: Some("/".into()),
        hostname: Some("sandbox".into()),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".into()]),
            ..HealthConfig::default()
        }),
        labels: Some(labels::of_sandbox(inputs.tier, plan)?),
        stop_signal: Some("SIGKILL".into()),
        tty: Some(false),
        open_stdin: Some(true),
        // When the attached client disconnects, the agent's input ends, and with it the agent.
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..ContainerCreateBody::default()
    })
}

/// The agent's arguments: for a detached sandbox it also listens for later clients.
fn agent_arguments(plan: &Plan) -> Vec<String> {
    let listen = ["--listen", volume::SOCKET];
    let listen = plan.detached.then_some(listen).into_iter().flatten();
    ["serve", "--stdio"]
        .into_iter()
        .chain(listen)
        .map(ToOwned::to_owned)
        .collect()
}

/// Adds a folder for the agent's socket, which only the agent's user may enter.
fn add_socket_folder(plan: &Plan, tmpfs: &mut TmpfsMounts) {
    if plan.detached {
        let closed = Tmpfs {
            size: 4096,
            // The folder and the socket.
            inodes: 2,
            mode: 0o700,
            ..MOUNT_POINTS_ONLY
        };
        tmpfs.cover(volume::SOCKET_FOLDER, closed);
    }
}

/// Covers host paths that no sandbox may see with empty folders that no user may enter.
fn cover_hidden_paths(inputs: &SpecInputs<'_>, tmpfs: &mut TmpfsMounts) {
    for folder in inputs.hidden {
        let closed = Tmpfs {
            writable: false,
            executable: false,
            size: 4096,
            inodes: 1,
            mode: 0o000,
            owner: None,
        };
        tmpfs.cover(folder.as_str(), closed);
    }
}

fn security_options(profile: Option<&str>) -> Vec<String> {
    let profile = profile.map(|profile| format!("seccomp={profile}"));
    ["no-new-privileges".to_owned()]
        .into_iter()
        .chain(profile)
        .collect()
}

fn agent_mount(volume: &str) -> Mount {
    Mount {
        target: Some(volume::FOLDER.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(true),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

/// Covers each image volume that no mount covers with an empty read-only folder. The engine would
/// make it writable and unlimited. A read-only volume with content would need a name, and then is
/// never removed.
fn cover_image_volumes(image: &ImageFacts, tmpfs: &mut TmpfsMounts, mounts: &[Mount]) {
    const HIDDEN: Tmpfs = Tmpfs {
        writable: false,
        executable: false,
        size: 4096,
        inodes: 1,
        mode: 0o555,
        owner: None,
    };
    for path in &image.volumes {
        let path = path.trim_end_matches('/');
        if !path.is_empty() && !is_mounted(path, mounts) {
            tmpfs.cover(path, HIDDEN);
        }
    }
}

fn is_mounted(path: &str, mounts: &[Mount]) -> bool {
    mounts
        .iter()
        .any(|mount| mount.target.as_deref() == Some(path))
}

/// Covers folders that the engine would make writable with read-only ones.
fn close_writable_folders(family: &Family, tmpfs: &mut TmpfsMounts, mounts: &[Mount]) {
    let folders = family.writable_folders.iter();
    for folder in folders.filter(|folder| !is_mounted(folder, mounts)) {
        let closed = Tmpfs {
            writable: false,
            ..MOUNT_POINTS_ONLY
        };
        tmpfs.cover(*folder, closed);
    }
}

/// A tmpfs with room for mount points only.
const MOUNT_POINTS_ONLY: Tmpfs = Tmpfs {
    writable: true,
    executable: false,
    size: 65536,
    inodes: 64,
    mode: 0o755,
    owner: None,
};

/// The root user's home in an image, which only root may enter in most images.
const ROOT_HOME: &str = "/root";

/// Makes host folders below `/root` reachable for code that is not root. The code owns the tmpfs,
/// because older runtimes copy the permission bits of the folder that it covers.
fn open_root_home(tmpfs: &mut TmpfsMounts, mounts: &[Mount], code: (u32, u32)) {
    let inside = |target: &str| target != ROOT_HOME && is_below(target, ROOT_HOME);
    if mounts
        .iter()
        .filter_map(|mount| mount.target.as_deref())
        .any(inside)
    {
        let home = Tmpfs {
            owner: Some(code),
            ..MOUNT_POINTS_ONLY
        };
        tmpfs.cover(ROOT_HOME, home);
    }
}

/// The engine's network. Rules do not need one: their connections go through the agent.
fn network_mode<'a>(plan: &Plan, chosen: Option<&'a str>) -> &'a str {
    match has_network(plan) {
        true => chosen.unwrap_or("bridge"),
        false => "none",
    }
}

/// Whether the engine sets up no network at all, which takes half of the time of a start. `runc`
/// gives the container a namespace with its loopback by itself; other runtimes may not.
fn skips_network(plan: &Plan, inputs: &SpecInputs<'_>) -> bool {
    !has_network(plan) && inputs.tier.family.skips_network && inputs.facts.runtime == "runc"
}

/// Whether code has more network than loopback.
pub(crate) fn has_network(plan: &Plan) -> bool {
    matches!(plan.network, NetworkPolicy::Full)
}

/// Limit of processes and threads on the host.
pub(crate) fn processes(plan: &Plan, facts: &EngineFacts) -> i64 {
    let processes = i64::from(plan.pids) + AGENT_PROCESSES;
    match facts.kernel_isolation.shares_kernel() {
        true => processes,
        false => user_kernel_threads(processes),
    }
}

/// The most threads of a user-space kernel with this number of processes.
fn user_kernel_threads(processes: i64) -> i64 {
    processes * USER_KERNEL_THREADS_PER_PROCESS + USER_KERNEL_BASE_THREADS
}

fn memory(tier: Tier, plan: &Plan) -> Result<i64> {
    if plan.memory < MIN_MEMORY {
        let context = format!(
            "memory: {} is less than {}'s least, {MIN_MEMORY}",
            plan.memory, tier.family.engine
        );
        return Err(
            Error::new(ErrorKind::InvalidSpec, "create sandbox", context)
                .on(tier)
                .with_fix(format!("ask for {MIN_MEMORY} or more")),
        );
    }
    Ok(signed(plan.memory.as_u64()))
}

/// The engine refuses more processors than its host has, and less than a hundredth of one.
pub(crate) fn nano_cpus(plan: &Plan, facts: &EngineFacts) -> i64 {
    let milli = i64::from(plan.cpus.as_milli()).max(10);
    let milli = if facts.cpus == 0 {
        milli
    } else {
        milli.min(i64::from(facts.cpus) * 1000)
    };
    milli * 1_000_000
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tighten_tests;
