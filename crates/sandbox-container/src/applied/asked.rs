//! What an engine was asked for, as the kernel would show it.

use bollard::models::ContainerCreateBody;

/// What an engine was asked for, as the kernel would show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// Bytes; `None` where nothing was asked.
    pub memory: Option<u64>,
    /// Bytes of memory and swap together.
    pub memory_and_swap: Option<u64>,
    /// Thousandths of a processor.
    pub cpus: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Capabilities that may be in the bounding set, a bit for each.
    pub capabilities: u64,
    /// Whether a seccomp profile was given.
    pub seccomp: bool,
    /// Whether the root is read-only.
    pub read_only_root: bool,
    /// Where something is mounted on our behalf.
    pub targets: Vec<String>,
}

impl Asked {
    pub(super) fn of(body: &ContainerCreateBody) -> Self {
        let host = body.host_config.clone().unwrap_or_default();
        let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let mounts = host.mounts.into_iter().flatten();
        let targets = mounts.filter_map(|mount| mount.target);
        let tmpfs = host.tmpfs.into_iter().flatten().map(|(folder, _)| folder);
        let security = host.security_opt.unwrap_or_default();
        Self {
            memory: number(host.memory),
            memory_and_swap: number(host.memory_swap),
            cpus: number(host.nano_cpus).map(|nano| nano / 1_000_000),
            pids: number(host.pids_limit),
            capabilities: host
                .cap_add
                .iter()
                .flatten()
                .filter_map(|name| bit(name))
                .fold(0, |all, bit| all | 1 << bit),
            seccomp: security.iter().any(|option| option.starts_with("seccomp=")),
            read_only_root: host.readonly_rootfs == Some(true),
            targets: targets.chain(tmpfs).collect(),
        }
    }
}

/// The kernel's number of a capability that the lowering may add.
fn bit(name: &str) -> Option<u32> {
    Some(match name {
        "CHOWN" => 0,
        "DAC_OVERRIDE" => 1,
        "KILL" => 5,
        "SETGID" => 6,
        "SETUID" => 7,
        "SETPCAP" => 8,
        _ => return None,
    })
}
