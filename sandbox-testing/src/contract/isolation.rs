//! What code cannot see or change.

use sandbox_core::{Capability, CapabilityPolicy, SandboxHandle, Workspace};

use super::{ContractTest, TestBackend, TestResult, output, run, shell};

pub const TESTS: &[ContractTest] = &[
    ("isolation::code_sees_and_changes_its_own_only", confined),
    (
        "isolation::roots_and_workspace_are_mounted_as_specified",
        roots,
    ),
];

fn confined(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let client = backend.client(CapabilityPolicy::new());
        let sandbox = client.create(&backend.spec()).await?;
        environment(&sandbox).await?;
        network(backend, &sandbox).await?;
        privileges(backend, &sandbox).await?;
        files(&sandbox).await?;
        engines(&sandbox).await?;
        sandbox.kill().await
    })
}

async fn environment(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let control = output(sandbox, "grep -q PATH= /proc/self/environ && echo read").await?;
    assert_eq!(control, "read\n");
    let agents = shell(sandbox, "cat /proc/1/environ").await?;
    assert!(
        !agents.success() && agents.stdout.bytes.is_empty(),
        "{agents:?}"
    );
    Ok(())
}

async fn network(backend: &dyn TestBackend, sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let devices = output(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1").await?;
    let others = devices.lines().map(str::trim).filter(|name| *name != "lo");
    let may_have_others = backend.expectations().has_down_interfaces;
    for name in others {
        assert!(may_have_others, "{devices}");
        let flags = output(sandbox, &format!("cat /sys/class/net/{name}/flags")).await?;
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16);
        assert_eq!(flags.expect("flags") & 1, 0, "{name} is up");
    }
    assert_eq!(output(sandbox, "tail -n +2 /proc/net/route").await?, "");
    Ok(())
}

async fn privileges(
    backend: &dyn TestBackend,
    sandbox: &SandboxHandle,
) -> sandbox_core::Result<()> {
    let ids = output(sandbox, "id -u; id -g; id -G").await?;
    let user = ids.lines().next().unwrap_or_default();
    assert!(backend.is_sandbox_user(user), "{ids}");
    assert_eq!(ids, format!("{user}\n{user}\n{user}\n"));
    let status = output(sandbox, "cat /proc/self/status").await?;
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
        assert!(!shell(sandbox, script).await?.success(), "{script}");
    }
    let alive = output(sandbox, "ls /.sandbox-agent").await?;
    assert_eq!(alive, backend.expectations().agent_folder);
    Ok(())
}

async fn files(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    for script in [
        "echo x > /x",
        "echo x > /etc/passwd",
        "echo x > /.sandbox-agent/x",
        "echo x > /.sandbox-agent/agent",
        "echo x > /dev/x",
        "echo x > /sys/kernel/x",
        "echo x > /proc/sys/kernel/core_pattern",
    ] {
        assert!(!shell(sandbox, script).await?.success(), "{script}");
    }
    for folder in ["/tmp", "/workspace", "/dev/shm"] {
        assert_eq!(
            output(sandbox, &format!("echo x > {folder}/x; cat {folder}/x")).await?,
            "x\n"
        );
    }
    let script = "cp /bin/busybox /tmp/echo && /tmp/echo ran";
    assert_eq!(
        output(sandbox, script).await?,
        "ran\n",
        "/tmp can be executed from"
    );
    Ok(())
}

fn roots(backend: &'static dyn TestBackend) -> TestResult {
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
        let sandbox = backend
            .client(policy)
            .create(&backend.spec().workspace(workspace))
            .await?;
        let (read, write) = (read.display(), write.display());
        assert_eq!(
            output(&sandbox, &format!("cat {read}/file {write}/file file")).await?,
            "readwritework"
        );
        assert!(
            !shell(&sandbox, &format!("echo x > {read}/new"))
                .await?
                .success()
        );
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

async fn engines(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let script = "for s in /run/docker.sock /var/run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock; \
                  do [ -e $s ] && echo $s; done; true";
    assert_eq!(output(sandbox, script).await?, "");
    Ok(())
}
