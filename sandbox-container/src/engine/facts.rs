//! The engine's self-description, as far as it affects enforcement.

use bollard::ClientVersion;
use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum};
use sandbox_core::{CgroupController, CgroupLimit, CgroupVersion};

use super::{HardLimits, KernelIsolation};

/// The engine's self-description, as far as it affects enforcement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineFacts {
    /// Negotiated API version: major, minor.
    pub api: (usize, usize),
    /// The engine's version ("20.10.24").
    pub version: String,
    /// Architecture as the kernel names it ("`x86_64`").
    pub architecture: String,
    /// Kernel version (major, minor); (0, 0) if the engine does not report it.
    pub kernel: (u32, u32),
    /// Cgroup version, 1 or 2; 0 if the engine does not report it.
    pub cgroup: u8,
    /// The cgroup driver: "cgroupfs", "systemd" or "none".
    pub cgroup_driver: String,
    /// Whether the memory limit works.
    pub memory_limit: bool,
    /// Whether the limit of memory plus swap works.
    pub swap_limit: bool,
    /// Whether the processor quota works.
    pub cpu_quota: bool,
    /// Whether the limit of processes works.
    pub pids_limit: bool,
    /// Number of processors of the engine's host.
    pub cpus: u32,
    /// Whether containers can be bound to processors and memory nodes.
    pub cpuset: bool,
    /// Hard resource limits of the engine's process.
    pub hard_limits: HardLimits,
    /// Whether the engine can apply seccomp profiles. Its default profile is irrelevant: sandboxes
    /// bring their own.
    pub seccomp: bool,
    /// Whether the engine's kernel enforces AppArmor. Containers then get the engine's profile.
    pub apparmor: bool,
    /// Whether the engine's kernel enforces SELinux.
    pub selinux: bool,
    /// Whether the engine runs without root.
    pub rootless: bool,
    /// The host's user and group that root maps to in containers. For a rootless engine, this is
    /// the user that runs it. With `userns-remap`, it is the first remapped user. `None` if that is
    /// root, or not known.
    pub engine_user: Option<(u32, u32)>,
    /// Number of user ids in a container; all of them for an engine with root.
    pub ids: u32,
    /// Whether containers get a separate user namespace (`userns-remap`).
    pub user_namespace: bool,
    /// Storage driver ("overlay2").
    pub storage: String,
    /// The file system below the storage driver ("extfs", "xfs"); empty if not reported.
    pub backing: String,
    /// The default OCI runtime.
    pub default_runtime: String,
    /// The OCI runtime of sandboxes.
    pub runtime: String,
    /// Whether the engine has that runtime.
    pub runtime_known: bool,
    /// What the runtime puts between code and the host's kernel.
    pub kernel_isolation: KernelIsolation,
    /// Whether paths of this process are valid for the engine.
    pub local: bool,
    /// Whether containers run on this process's kernel, so device and inode numbers match. A local
    /// engine may still run its containers in a virtual machine.
    pub same_kernel: bool,
}

impl EngineFacts {
    /// A limit by the control groups of this engine, in a report.
    pub(crate) fn cgroup_limit(&self, controller: CgroupController) -> CgroupLimit {
        let version = match self.cgroup {
            1 => CgroupVersion::V1,
            2 => CgroupVersion::V2,
            _ => CgroupVersion::Unknown,
        };
        CgroupLimit::new(version, controller)
    }

    /// Reads the engine's response; missing fields count as unsupported.
    pub(crate) fn new(
        info: &SystemInfo,
        api: &ClientVersion,
        local: bool,
        runtime: Option<&str>,
    ) -> Self {
        let security = info.security_options.as_deref().unwrap_or_default();
        let has = |name: &str| {
            security
                .iter()
                .any(|option| option.split(',').any(|part| part == format!("name={name}")))
        };
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let runtime = runtime.map_or_else(|| text(&info.default_runtime), ToOwned::to_owned);
        let known = info.runtimes.as_ref().and_then(|known| known.get(&runtime));
        let program = known.and_then(|known| known.path.as_deref());
        // The default runtime exists even if it is not listed: Podman lists one configured by path
        // under that path.
        let is_default = !runtime.is_empty() && info.default_runtime.as_ref() == Some(&runtime);
        Self {
            api: (api.major_version, api.minor_version),
            version: text(&info.server_version),
            architecture: text(&info.architecture),
            kernel: kernel_version(info.kernel_version.as_deref().unwrap_or_default()),
            cgroup: match info.cgroup_version {
                Some(SystemInfoCgroupVersionEnum::_1) => 1,
                Some(SystemInfoCgroupVersionEnum::_2) => 2,
                _ => 0,
            },
            cgroup_driver: info
                .cgroup_driver
                .map(|driver| driver.to_string())
                .unwrap_or_default(),
            memory_limit: info.memory_limit == Some(true),
            swap_limit: info.swap_limit == Some(true),
            cpu_quota: info.cpu_cfs_quota == Some(true),
            pids_limit: info.pids_limit == Some(true),
            cpus: info
                .ncpu
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or_default(),
            cpuset: info.cpu_set == Some(true),
            hard_limits: HardLimits::default(),
            seccomp: has("seccomp"),
            apparmor: has("apparmor"),
            selinux: has("selinux"),
            rootless: has("rootless"),
            engine_user: info
                .docker_root_dir
                .as_deref()
                .and_then(remapped_root)
                .filter(|_| has("userns")),
            ids: if has("userns") {
                REMAPPED_IDS
            } else {
                u32::MAX
            },
            user_namespace: has("userns"),
            storage: text(&info.driver),
            backing: backing(info),
            runtime_known: known.is_some() || is_default,
            kernel_isolation: KernelIsolation::of(&runtime, program.unwrap_or_default()),
            default_runtime: text(&info.default_runtime),
            runtime,
            local,
            same_kernel: local && is_this_kernel(info),
        }
    }

    /// Whether the agent can compare mounted folders with those opened on this host.
    pub(crate) fn compares_folders(&self) -> bool {
        self.same_kernel && self.kernel_isolation.shares_kernel()
    }

    /// Major and minor version of the engine ("20.10"). The patch level does not affect
    /// enforcement.
    pub(crate) fn short_version(&self) -> String {
        self.version
            .splitn(3, '.')
            .take(2)
            .collect::<Vec<_>>()
            .join(".")
    }

    /// Whether the negotiated API version is at least this one.
    pub(crate) fn api_at_least(&self, major: usize, minor: usize) -> bool {
        self.api >= (major, minor)
    }
}

/// The file system below the storage driver.
fn backing(info: &SystemInfo) -> String {
    let mut status = info.driver_status.iter().flatten();
    status
        .find_map(|pair| match pair.as_slice() {
            [name, value] if name == "Backing Filesystem" => Some(value.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// Whether the engine reports this process's kernel release. A virtual machine would need the very
/// same build.
fn is_this_kernel(info: &SystemInfo) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let engine_release = info.kernel_version.as_deref();
    release.is_ok_and(|release| engine_release == Some(release.trim_end()))
}

/// Number of user ids under `userns-remap`. The engine does not report it; this is the
/// distributions' default.
const REMAPPED_IDS: u32 = 65_536;

/// The remapped root's user and group, from the data folder's name ("100000.100000").
fn remapped_root(folder: &str) -> Option<(u32, u32)> {
    let (user, group) = folder.rsplit('/').next()?.split_once('.')?;
    Some((user.parse().ok()?, group.parse().ok()?))
}

fn kernel_version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

#[cfg(test)]
impl EngineFacts {
    /// A rootful engine on cgroup v1 with every feature.
    pub(crate) fn sample() -> Self {
        Self {
            api: (1, 41),
            version: "20.10.24+dfsg1".into(),
            architecture: "x86_64".into(),
            kernel: (6, 18),
            cgroup: 1,
            cgroup_driver: "cgroupfs".into(),
            memory_limit: true,
            swap_limit: true,
            cpu_quota: true,
            pids_limit: true,
            cpus: 2,
            cpuset: true,
            hard_limits: HardLimits::default(),
            seccomp: true,
            apparmor: false,
            selinux: false,
            rootless: false,
            engine_user: None,
            ids: u32::MAX,
            user_namespace: false,
            storage: "overlay2".into(),
            backing: "extfs".into(),
            default_runtime: "runc".into(),
            runtime: "runc".into(),
            runtime_known: true,
            kernel_isolation: KernelIsolation::Namespaces,
            local: true,
            same_kernel: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_count_as_unsupported() {
        let api = ClientVersion {
            major_version: 1,
            minor_version: 41,
        };
        let facts = EngineFacts::new(&SystemInfo::default(), &api, true, None);
        assert!(!facts.memory_limit && !facts.seccomp && !facts.pids_limit && !facts.runtime_known);
        assert_eq!(facts.cgroup, 0);
    }

    #[test]
    fn default_runtime_configured_by_path_is_known() {
        let api = ClientVersion {
            major_version: 1,
            minor_version: 41,
        };
        let info = SystemInfo {
            default_runtime: Some("/usr/sbin/runc".into()),
            runtimes: Some([("runc".to_owned(), Default::default())].into()),
            ..SystemInfo::default()
        };
        let of = |runtime| EngineFacts::new(&info, &api, true, runtime);
        assert!(of(None).runtime_known);
        assert_eq!(of(None).runtime, "/usr/sbin/runc");
        assert!(of(Some("runc")).runtime_known);
        assert!(!of(Some("crun")).runtime_known);
    }

    #[test]
    fn kernel_versions_are_parsed() {
        for (text, version) in [
            ("6.18.44-fc-v595", (6, 18)),
            ("5.4", (5, 4)),
            ("", (0, 0)),
            ("x6.1", (0, 0)),
        ] {
            assert_eq!(kernel_version(text), version, "{text}");
        }
    }

    #[test]
    fn remapped_root_is_read_from_the_data_folder() {
        let api = ClientVersion {
            major_version: 1,
            minor_version: 47,
        };
        let facts = |option: &str, folder: &str| {
            let info = SystemInfo {
                security_options: Some(vec![option.to_owned()]),
                docker_root_dir: Some(folder.to_owned()),
                ..SystemInfo::default()
            };
            EngineFacts::new(&info, &api, true, None)
        };
        let remapped = facts("name=userns", "/var/lib/docker/100000.200000");
        assert_eq!(remapped.engine_user, Some((100_000, 200_000)));
        assert_eq!(remapped.ids, 65_536);
        assert_eq!(facts("name=userns", "/var/lib/docker").engine_user, None);
        assert_eq!(facts("name=seccomp", "/data/1.2").engine_user, None);
    }

    #[test]
    fn security_options_are_read_despite_parameters() {
        let info = SystemInfo {
            security_options: Some(vec![
                "name=seccomp,profile=default".into(),
                "name=rootless".into(),
            ]),
            server_version: Some("27.3.1".into()),
            ..SystemInfo::default()
        };
        let api = ClientVersion {
            major_version: 1,
            minor_version: 47,
        };
        let facts = EngineFacts::new(&info, &api, false, Some("runsc"));
        assert!(facts.seccomp && facts.rootless && !facts.user_namespace);
        assert_eq!(facts.short_version(), "27.3");
        assert!(facts.api_at_least(1, 44) && !facts.api_at_least(1, 48));
        assert_eq!(facts.runtime, "runsc");
    }
}
