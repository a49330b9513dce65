//! Foreign containers whose maker has opened something: the report names it, and claims nothing that does not hold there.

use bollard::models::{DeviceMapping, HostConfig};
use libtest_mimic::Failed;
use sandbox_core::{Capability, ErrorKind};

use crate::family::{self, FAMILY};
use crate::suite::Test;
use crate::suite::adopt::{Foreign, accepting, no_network};
use crate::suite::engine::{BUSYBOX, output, run, spec};

pub const TESTS: &[Test] = &[
    ("adopt::what_a_containers_maker_has_opened_is_named", named),
    (
        "adopt::the_hosts_root_with_the_kernels_files_open_is_refused",
        roots,
    ),
];

/// An option, what of the isolation does not hold with it, and how the report names it.
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

/// With nothing masked, as each engine takes it.
fn unmasked() -> HostConfig {
    match is_docker() {
        true => HostConfig {
            masked_paths: Some(Vec::new()),
            readonly_paths: Some(Vec::new()),
            ..no_network()
        },
        false => option("unmask=ALL"),
    }
}

fn is_docker() -> bool {
    FAMILY.command == "docker"
}

fn opened() -> Vec<Opened> {
    let device = DeviceMapping {
        path_on_host: text("/dev/null"),
        path_in_container: text("/dev/void"),
        cgroup_permissions: text("rwm"),
    };
    let mut all = vec![
        (
            HostConfig {
                devices: Some(vec![device]),
                ..no_network()
            },
            Capability::FilesystemWriteRoots,
            "device /dev/null",
        ),
        (
            HostConfig {
                ipc_mode: text("host"),
                ..no_network()
            },
            Capability::Processes,
            "host's ipc namespace",
        ),
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
                binds: Some(vec![format!("{}:/engine.sock:ro", family::socket())]),
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
            unmasked(),
            Capability::FilesystemWriteRoots,
            "unmasked files of the kernel",
        ),
    ];
    // Podman takes the first over another API alone, and the second is what it does anyway.
    if is_docker() {
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

fn named() -> Result<(), Failed> {
    run(async {
        for (host, capability, name) in opened() {
            let theirs = Foreign::start(BUSYBOX, &["/bin/sleep", "300"], host).await;
            // User 0 is refused with some of these: that is another test's.
            let spec = spec().user("1000:1000");
            let adopted = accepting(&[]).adopt(&theirs.name, &spec).await;
            let error = adopted.err();
            theirs.remove().await;
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

fn roots() -> Result<(), Failed> {
    run(async {
        let theirs = Foreign::start(BUSYBOX, &["/bin/sleep", "300"], unmasked()).await;
        let all = [
            Capability::FilesystemReadRoots,
            Capability::FilesystemWriteRoots,
            Capability::Privileges,
        ];
        let client = accepting(&all);
        let adopted = client.adopt(&theirs.name, &spec()).await;
        let ordinary = spec().user("1000:1000");
        let ordinary = match client.adopt(&theirs.name, &ordinary).await {
            Ok(sandbox) => output(&sandbox, "id -u").await,
            Err(error) => Err(error),
        };
        theirs.remove().await;
        // An engine without root has no user 0 of the host.
        if rustix::process::geteuid().is_root() {
            let error = adopted.expect_err("user 0");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("user 0 of the host"), "{error}");
            assert!(error.fix().is_some(), "{error}");
        }
        assert_eq!(ordinary?, "1000\n");
        Ok(())
    })
}
