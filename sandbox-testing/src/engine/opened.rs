//! Foreign containers with weakened isolation: the report names the option and claims nothing that
//! does not hold.

use bollard::models::{DeviceMapping, HostConfig};
use sandbox_core::{Capability, ErrorKind};

use super::adopt::{ContainerFixture, accepting, no_network};
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestResult, output, run};
use crate::users::is_root;

pub const TESTS: &[EngineTest] = &[
    (
        "adopt::the_report_names_options_that_weaken_the_container",
        named,
    ),
    (
        "adopt::host_root_with_unmasked_kernel_files_is_refused",
        roots,
    ),
];

/// An option, the capability that it weakens, and how the report names it.
type Opened = (HostConfig, Capability, &'static str);

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn option(value: &str) -> HostConfig {
    HostConfig {
        security_opt: Some(vec![value.to_owned()]),
        ..no_network()
    }
}

/// The engine's option that masks no paths.
fn unmasked(engine: &'static TestEngine) -> HostConfig {
    match is_docker(engine) {
        true => HostConfig {
            masked_paths: Some(Vec::new()),
            readonly_paths: Some(Vec::new()),
            ..no_network()
        },
        false => option("unmask=ALL"),
    }
}

fn is_docker(engine: &'static TestEngine) -> bool {
    engine.family.command == "docker"
}

fn opened(engine: &'static TestEngine) -> Vec<Opened> {
    let device = DeviceMapping {
        path_on_host: text("/dev/null"),
        path_in_container: text("/dev/void"),
        cgroup_permissions: text("rwm"),
    };
    let mut all = vec![
        (
            HostConfig {
                pid_mode: text("host"),
                ..no_network()
            },
            Capability::Processes,
            "host's pid namespace",
        ),
        (
            HostConfig {
                uts_mode: text("host"),
                ..no_network()
            },
            Capability::Processes,
            "host's uts namespace",
        ),
        (
            HostConfig {
                cap_add: Some(vec!["SYS_PTRACE".into()]),
                ..no_network()
            },
            Capability::Privileges,
            "SYS_PTRACE",
        ),
        (
            HostConfig {
                binds: Some(vec![format!("{}:/engine.sock:ro", engine.socket())]),
                ..no_network()
            },
            Capability::NetworkAccess,
            "is mounted",
        ),
        (
            option("seccomp=unconfined"),
            Capability::Privileges,
            "seccomp=unconfined",
        ),
        (
            option("apparmor=unconfined"),
            Capability::Privileges,
            "apparmor=unconfined",
        ),
        (option("label=disable"), Capability::Privileges, "label"),
        (
            unmasked(engine),
            Capability::FilesystemWriteRoots,
            "unmasked files of the kernel",
        ),
    ];
    // Podman without root cannot share what the host has not mounted.
    if is_root() || std::path::Path::new("/dev/mqueue").exists() {
        all.push((
            HostConfig {
                ipc_mode: text("host"),
                ..no_network()
            },
            Capability::Processes,
            "host's ipc namespace",
        ));
    }
    // Podman without root mounts the device's file and names no device, over neither of its APIs.
    if is_root() {
        all.push((
            HostConfig {
                devices: Some(vec![device]),
                ..no_network()
            },
            Capability::FilesystemWriteRoots,
            "device /dev/null",
        ));
    }
    // Podman accepts the first only over its own API, and the second is its default.
    if is_docker(engine) {
        all.push((
            HostConfig {
                device_cgroup_rules: Some(vec!["c 1:3 r".into()]),
                ..no_network()
            },
            Capability::FilesystemReadRoots,
            "c 1:3 r",
        ));
        all.push((
            HostConfig {
                userns_mode: text("host"),
                ..no_network()
            },
            Capability::Privileges,
            "host's user namespace",
        ));
    }
    all
}

fn named(engine: &'static TestEngine) -> TestResult {
    run(async {
        for (host, capability, name) in opened(engine) {
            let foreign =
                ContainerFixture::start(engine, BUSYBOX, &["/bin/sleep", "300"], host).await;
            // Some of these refuse user 0, which another test covers.
            let spec = engine.spec().user("1000:1000");
            let adopted = accepting(engine, &[]).adopt(&foreign.name, &spec).await;
            let error = adopted.err();
            foreign.remove().await;
            let error = error.unwrap_or_else(|| panic!("{name}: adopted"));
            assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{name}: {error}");
            let mut unmet = error.unmet().iter();
            assert!(
                unmet.any(|unmet| unmet.demand.capability == capability),
                "{name}: {error}"
            );
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
        Ok(())
    })
}

fn roots(engine: &'static TestEngine) -> TestResult {
    run(async {
        let foreign =
            ContainerFixture::start(engine, BUSYBOX, &["/bin/sleep", "300"], unmasked(engine))
                .await;
        let all = [
            Capability::FilesystemReadRoots,
            Capability::FilesystemWriteRoots,
            Capability::Privileges,
        ];
        let client = accepting(engine, &all);
        let adopted = client.adopt(&foreign.name, &engine.spec()).await;
        let ordinary = engine.spec().user("1000:1000");
        let ordinary = match client.adopt(&foreign.name, &ordinary).await {
            Ok(sandbox) => output(&sandbox, "id -u").await,
            Err(error) => Err(error),
        };
        foreign.remove().await;
        // A rootless engine has no user 0 of the host.
        if is_root() {
            let error = adopted.expect_err("user 0");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("user 0 of the host"), "{error}");
            assert!(error.fix().is_some(), "{error}");
        }
        assert_eq!(ordinary?, "1000\n");
        Ok(())
    })
}
