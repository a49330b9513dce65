//! What code cannot see or touch.

use libtest_mimic::Failed;
use sandbox_container::ProfileForm;
use sandbox_core::{Capability, CapabilityPolicy, SandboxClient, Workspace};

use crate::family::{Backend, FAMILY};
use crate::suite::engine::{
    BUSYBOX, api, client, client_of, config, image_of, output, run, sandbox, shell, spec,
};
use crate::suite::{Test, UNSAFE_TIER};

pub const TESTS: &[Test] = &[
    (
        "isolation::the_environment_is_what_was_asked_for",
        environment,
    ),
    ("isolation::there_is_no_network_but_loopback", network),
    ("isolation::code_has_no_privileges", privileges),
    ("isolation::only_the_work_folders_can_be_written", files),
    ("isolation::roots_and_workspace_appear_as_asked", roots),
    (
        "isolation::volumes_of_the_image_cannot_be_written",
        image_volumes,
    ),
    ("isolation::nothing_of_the_stream_is_logged", no_log),
    (
        "isolation::no_subprocess_where_the_policy_says_so",
        no_subprocess,
    ),
    (
        "isolation::the_unsafe_tier_is_the_engines_default",
        unsafe_tier,
    ),
];

fn environment() -> Result<(), Failed> {
    run(async {
        let client = client(CapabilityPolicy::new());
        let sandbox = client.create(&spec().env("ASKED", "yes")).await?;
        let mut names = output(&sandbox, "env").await?;
        names = names
            .lines()
            .filter_map(|line| line.split_once('='))
            .fold(String::new(), |names, (name, _)| names + name + " ");
        // The shell itself adds PWD, SHLVL and OLDPWD.
        for name in names.split_whitespace() {
            assert!(
                ["ASKED", "HOME", "PATH", "PWD", "SHLVL", "OLDPWD"].contains(&name),
                "{names}"
            );
        }
        assert!(names.contains("ASKED") && names.contains("PATH"), "{names}");
        let agents = shell(&sandbox, "cat /proc/1/environ").await?;
        assert!(!agents.ok() && agents.stdout.bytes.is_empty(), "{agents:?}");
        sandbox.kill().await
    })
}

fn network() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let devices = output(&sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1").await?;
        assert_eq!(devices.trim(), "lo");
        assert_eq!(output(&sandbox, "tail -n +2 /proc/net/route").await?, "");
        sandbox.kill().await
    })
}

fn privileges() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        assert_eq!(
            output(&sandbox, "id -u; id -g; id -G").await?,
            "1000\n1000\n1000\n"
        );
        let status = output(&sandbox, "cat /proc/self/status").await?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {status}"))
                .trim()
                .to_owned()
        };
        for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(name), "0000000000000000", "{name}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        assert_eq!(field("Seccomp:"), "2");
        for script in [
            "kill -9 1",
            "mount -t tmpfs x /tmp",
            "unshare -U true",
            "chroot / true",
        ] {
            assert!(!shell(&sandbox, script).await?.ok(), "{script}");
        }
        let alive = output(&sandbox, "ls /.sandbox-agent").await?;
        let files = match FAMILY.profile_form {
            ProfileForm::Text => "agent\n",
            ProfileForm::File => "agent\nseccomp.json\n",
        };
        assert_eq!(alive, files);
        sandbox.kill().await
    })
}

fn files() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        for script in [
            "echo x > /x",
            "echo x > /etc/passwd",
            "echo x > /.sandbox-agent/x",
            "echo x > /.sandbox-agent/agent",
            "echo x > /dev/x",
            "echo x > /sys/kernel/x",
            "echo x > /proc/sys/kernel/core_pattern",
        ] {
            assert!(!shell(&sandbox, script).await?.ok(), "{script}");
        }
        for folder in ["/tmp", "/workspace", "/dev/shm"] {
            assert_eq!(
                output(&sandbox, &format!("echo x > {folder}/x; cat {folder}/x")).await?,
                "x\n"
            );
        }
        let script = "cp /bin/busybox /tmp/echo && /tmp/echo ran";
        assert_eq!(
            output(&sandbox, script).await?,
            "ran\n",
            "/tmp can be executed from"
        );
        sandbox.kill().await
    })
}

fn roots() -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt;
    run(async {
        let home = tempfile::tempdir().expect("temporary folder");
        let folder = |name: &str| {
            let path = home.path().join(name);
            std::fs::create_dir(&path).expect("folder");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).expect("mode");
            std::fs::write(path.join("file"), name).expect("file");
            path
        };
        let (read, write, work) = (folder("read"), folder("write"), folder("work"));
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        let mut policy = CapabilityPolicy::new();
        policy.filesystem_read_roots = Some(vec![read.clone()]);
        policy.filesystem_write_roots = Some(vec![write.clone()]);
        let workspace = Workspace::read_write(&work);
        let sandbox = client(policy).create(&spec().workspace(workspace)).await?;
        let (read, write) = (read.display(), write.display());
        assert_eq!(
            output(&sandbox, &format!("cat {read}/file {write}/file file")).await?,
            "readwritework"
        );
        assert!(!shell(&sandbox, &format!("echo x > {read}/new")).await?.ok());
        output(&sandbox, &format!("echo x > {write}/new; echo y > new")).await?;
        assert_eq!(
            std::fs::read_to_string(work.join("new")).expect("new"),
            "y\n"
        );
        let disk = sandbox
            .enforcement()
            .get(Capability::Disk)
            .expect("an entry");
        assert_eq!(disk.status(), "partial", "{disk}");
        sandbox.kill().await
    })
}

fn image_volumes() -> Result<(), Failed> {
    use bollard::query_parameters::RemoveImageOptions;

    run(async {
        let engine = api();
        let image = image_of(BUSYBOX, "true", "VOLUME /home").await;
        let client = client(CapabilityPolicy::new());
        let sandbox = client.create(&spec().image(&image)).await?;
        let id = format!("sandbox-{}", sandbox.name());
        let container = engine
            .inspect_container(&id, None)
            .await
            .expect("container");
        let result = shell(&sandbox, "ls -d /home && echo x > /home/x").await;
        sandbox.kill().await?;
        engine
            .remove_image(&image, None::<RemoveImageOptions>, None)
            .await
            .expect("image");
        let result = result?;
        assert!(
            !result.ok() && result.stderr_text().contains("Read-only"),
            "{result:?}"
        );
        let volumes = container
            .mounts
            .into_iter()
            .flatten()
            .filter_map(|mount| mount.name);
        let volumes = volumes.collect::<Vec<_>>();
        assert!(
            volumes
                .iter()
                .all(|name| name.starts_with("sandbox-agent-")),
            "{volumes:?}"
        );
        Ok(())
    })
}

fn no_log() -> Result<(), Failed> {
    run(async {
        let sandbox = sandbox().await?;
        let canary = "canary-3f9a1b7c";
        output(&sandbox, &format!("echo {canary}")).await?;
        let id = format!("sandbox-{}", sandbox.name());
        let container = api().inspect_container(&id, None).await.expect("container");
        let log = container
            .host_config
            .and_then(|host| host.log_config)
            .and_then(|log| log.typ);
        assert_eq!(log.as_deref(), Some("none"));
        assert_eq!(container.log_path.unwrap_or_default(), "");
        let info = api().info().await.expect("info");
        let folder = std::path::PathBuf::from(info.docker_root_dir.expect("root folder"))
            .join("containers")
            .join(container.id.expect("id"));
        let files = std::fs::read_dir(&folder);
        for file in files
            .into_iter()
            .flatten()
            .flatten()
            .filter(|file| file.path().is_file())
        {
            let content = std::fs::read(file.path()).expect("a file of the engine");
            let found = content
                .windows(canary.len())
                .any(|part| part == canary.as_bytes());
            assert!(
                !found,
                "{} holds what the sandbox wrote",
                file.path().display()
            );
        }
        sandbox.kill().await
    })
}

fn no_subprocess() -> Result<(), Failed> {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.subprocess_execution = Some(false);
        let sandbox = client(policy).create(&spec()).await?;
        assert_eq!(output(&sandbox, "echo built in").await?, "built in\n");
        for script in ["true & wait", "/bin/ls / | /bin/cat", "exec /bin/ls /"] {
            let result = shell(&sandbox, script).await?;
            assert!(result.stdout.bytes.is_empty(), "{script}: {result:?}");
            assert!(
                script.starts_with("true") || !result.ok(),
                "{script}: {result:?}"
            );
        }
        sandbox.kill().await
    })
}

fn unsafe_tier() -> Result<(), Failed> {
    run(async {
        let backend = Backend::without_policy(config());
        let client: SandboxClient = client_of(backend, everything_allowed());
        let sandbox = client.create(&spec()).await?;
        assert_eq!(sandbox.tier(), UNSAFE_TIER);
        assert_eq!(
            output(&sandbox, "id -u; echo x > /etc/x; cat /etc/x; pwd").await?,
            "0\nx\n/workspace\n"
        );
        assert!(sandbox.enforcement().enforced_capabilities().is_empty());
        sandbox.kill().await
    })
}

/// A client that the caller made asks for the policy; this one accepts that nothing holds.
pub fn everything_allowed() -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.allow_unenforced = Capability::ALL
        .iter()
        .copied()
        .filter(|c| !matches!(c, Capability::StdoutMaxBytes | Capability::StderrMaxBytes))
        .collect();
    policy
}
