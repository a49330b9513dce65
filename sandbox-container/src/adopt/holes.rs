//! Finds options of a foreign container that disable isolation which containers have by default.

use std::os::unix::fs::FileTypeExt;

use bollard::models::HostConfig;
use sandbox_core::Capability;
use sandbox_core::spi::escape;

use super::ForeignContainer;

/// An option of a foreign container that disables some of its isolation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hole {
    /// The option as named in the report.
    pub name: String,
    /// The capabilities that it makes unenforced.
    pub of: &'static [Capability],
}

/// Access to the host's files, through a device, kernel files or the engine.
const FILES: &[Capability] = &[
    Capability::FilesystemReadRoots,
    Capability::FilesystemWriteRoots,
    Capability::Privileges,
];

/// Everything that namespaces and dropped capabilities enforce.
const ISOLATION: &[Capability] = &[
    Capability::FilesystemReadRoots,
    Capability::FilesystemWriteRoots,
    Capability::NetworkAccess,
    Capability::Egress,
    Capability::Processes,
    Capability::Privileges,
];

const THE_HOSTS: &str = "the host's";

const NETWORK: &[Capability] = &[Capability::NetworkAccess, Capability::Egress];

const PRIVILEGES: &[Capability] = &[Capability::Privileges];

const PROCESSES: &[Capability] = &[Capability::Processes];

/// Finds all holes of a container.
pub(super) fn holes(container: &ForeignContainer) -> Vec<Hole> {
    let host = &container.host;
    let mut holes = Vec::new();
    let mut add = |name: String, of| holes.push(Hole { name, of });
    if host.privileged == Some(true) {
        add("the container is privileged".into(), ISOLATION);
    }
    for device in devices(host) {
        add(device, FILES);
    }
    if let Some(unmasked) = &container.unmasked {
        add(unmasked.clone(), FILES);
    }
    for (mode, namespace, of) in [
        (&host.ipc_mode, "ipc", PROCESSES),
        (&host.pid_mode, "pid", PROCESSES),
        (&host.uts_mode, "uts", PROCESSES),
        (&host.network_mode, "net", NETWORK),
        (&host.userns_mode, "user", PRIVILEGES),
        (&None, "mnt", FILES),
    ] {
        // Podman does not report the host's IPC namespace over Docker's API; the kernel shows it.
        let process = container.process.as_ref();
        let is_shared =
            process.is_some_and(|process| process.shared_namespaces.contains(&namespace));
        let owner = mode.as_deref().and_then(namespace_owner);
        if let Some(owner) = owner.or_else(|| is_shared.then(|| THE_HOSTS.to_owned())) {
            add(
                format!("the container has {owner} {namespace} namespace"),
                of,
            );
        }
    }
    for option in host.security_opt.iter().flatten() {
        if is_unconfined(option) {
            add(format!("security option {}", escape(option)), PRIVILEGES);
        }
    }
    let added = host.cap_add.iter().flatten();
    let added = added.map(|name| escape(name)).collect::<Vec<_>>();
    if !added.is_empty() {
        add(
            format!("added capabilities {}", added.join(", ")),
            PRIVILEGES,
        );
    }
    for socket in sockets(container) {
        add(format!("the host's socket {socket} is mounted"), ISOLATION);
    }
    holes
}

/// The owner of a shared namespace; `None` if the container has its own.
fn namespace_owner(mode: &str) -> Option<String> {
    match mode.split_once(':') {
        Some(("container", name)) => Some(format!("container {}'s", escape(name))),
        Some(("ns", path)) => Some(format!("{}'s", escape(path))),
        _ if mode == "host" => Some(THE_HOSTS.into()),
        _ => None,
    }
}

fn devices(host: &HostConfig) -> impl Iterator<Item = String> {
    let named = host.devices.iter().flatten().map(|device| {
        let path = device.path_on_host.as_deref().unwrap_or("without a name");
        format!("device {}", escape(path))
    });
    let requested = host.device_requests.iter().flatten().map(|request| {
        let driver = request.driver.as_deref().unwrap_or_default();
        format!("a request for devices {}", escape(driver))
    });
    let rules = host.device_cgroup_rules.iter().flatten();
    let rules = rules.map(|rule| format!("rule for devices {}", escape(rule)));
    named.chain(requested).chain(rules)
}

/// Whether a security option disables a layer, in either engine's notation.
fn is_unconfined(option: &str) -> bool {
    let (name, value) = option.split_once(['=', ':']).unwrap_or((option, ""));
    match name {
        "seccomp" | "apparmor" | "systempaths" => value == "unconfined",
        "label" => value == "disable",
        "unmask" => true,
        _ => false,
    }
}

/// The host's sockets that are mounted. A read-only mount does not prevent connections.
fn sockets(container: &ForeignContainer) -> impl Iterator<Item = String> {
    const ENGINE_SOCKETS: [&str; 4] =
        ["docker.sock", "podman.sock", "containerd.sock", "crio.sock"];
    let is_socket = |source: &&str| {
        let is_engines = ENGINE_SOCKETS.iter().any(|name| source.ends_with(name));
        // Known engine sockets count even if they cannot be inspected from here.
        is_engines || std::fs::metadata(source).is_ok_and(|file| file.file_type().is_socket())
    };
    let sources = container
        .mounts
        .iter()
        .filter_map(|it| it.source.as_deref());
    sources.filter(is_socket).map(escape)
}

#[cfg(test)]
mod tests {
    use bollard::models::{DeviceMapping, DeviceRequest, MountPoint};

    use super::*;
    use crate::verify::ObservedProcess;

    fn of(host: HostConfig) -> Vec<Hole> {
        holes(&ForeignContainer {
            host,
            ..ForeignContainer::default()
        })
    }

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn default_container_has_no_holes() {
        let host = HostConfig {
            ipc_mode: text("shareable"),
            pid_mode: text("private"),
            uts_mode: text(""),
            userns_mode: text(""),
            security_opt: Some(vec!["no-new-privileges".into(), "seccomp={}".into()]),
            devices: Some(Vec::new()),
            cap_add: Some(Vec::new()),
            ..HostConfig::default()
        };
        assert_eq!(of(host), []);
    }

    #[test]
    fn each_hole_is_named_with_its_capabilities() {
        let options = |option: &str| HostConfig {
            security_opt: Some(vec![option.to_owned()]),
            ..HostConfig::default()
        };
        let device = DeviceMapping {
            path_on_host: text("/dev/sda"),
            ..DeviceMapping::default()
        };
        for (host, name, capability) in [
            (
                HostConfig {
                    privileged: Some(true),
                    ..HostConfig::default()
                },
                "privileged",
                Capability::Processes,
            ),
            (
                HostConfig {
                    devices: Some(vec![device]),
                    ..HostConfig::default()
                },
                "/dev/sda",
                Capability::FilesystemReadRoots,
            ),
            (
                HostConfig {
                    device_requests: Some(vec![DeviceRequest {
                        driver: text("nvidia"),
                        ..DeviceRequest::default()
                    }]),
                    ..HostConfig::default()
                },
                "nvidia",
                Capability::FilesystemWriteRoots,
            ),
            (
                HostConfig {
                    device_cgroup_rules: Some(vec!["b 8:* rwm".into()]),
                    ..HostConfig::default()
                },
                "b 8:* rwm",
                Capability::Privileges,
            ),
            (
                HostConfig {
                    ipc_mode: text("host"),
                    ..HostConfig::default()
                },
                "host's ipc",
                Capability::Processes,
            ),
            (
                HostConfig {
                    pid_mode: text("container:other"),
                    ..HostConfig::default()
                },
                "container other's pid",
                Capability::Processes,
            ),
            (
                HostConfig {
                    uts_mode: text("host"),
                    ..HostConfig::default()
                },
                "host's uts",
                Capability::Processes,
            ),
            (
                HostConfig {
                    userns_mode: text("host"),
                    ..HostConfig::default()
                },
                "user namespace",
                Capability::Privileges,
            ),
            (
                HostConfig {
                    cap_add: Some(vec!["SYS_ADMIN".into()]),
                    ..HostConfig::default()
                },
                "SYS_ADMIN",
                Capability::Privileges,
            ),
            (
                options("seccomp=unconfined"),
                "seccomp",
                Capability::Privileges,
            ),
            (
                options("apparmor=unconfined"),
                "apparmor",
                Capability::Privileges,
            ),
            (options("label:disable"), "label", Capability::Privileges),
            (options("label=disable"), "label", Capability::Privileges),
        ] {
            let found = of(host);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert!(found[0].name.contains(name), "{found:?}");
            assert!(found[0].of.contains(&capability), "{found:?}");
        }
    }

    #[test]
    fn shared_namespace_is_found_through_the_kernel() {
        let process = ObservedProcess {
            shared_namespaces: vec!["ipc"],
            ..ObservedProcess::default()
        };
        let found = holes(&ForeignContainer {
            process: Some(process),
            ..ForeignContainer::default()
        });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].name.contains("host's ipc"), "{found:?}");
        assert_eq!(found[0].of, PROCESSES);
    }

    #[test]
    fn mounted_engine_socket_voids_all_isolation() {
        let mount = MountPoint {
            source: text("/nowhere/docker.sock"),
            rw: Some(false),
            ..MountPoint::default()
        };
        let found = holes(&ForeignContainer {
            mounts: vec![mount],
            unmasked: text("/proc/sys is not read-only"),
            ..ForeignContainer::default()
        });
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].of, FILES);
        assert_eq!(found[1].of, ISOLATION);
    }
}
