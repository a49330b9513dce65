//! The root of a typical sandbox, and what code sees in it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox_agent::protocol::{Mount, Setup};

use super::output;
use crate::common::{FirstClient, refused};

pub fn bind(source: &str, target: &str, read_only: bool) -> Mount {
    Mount::Bind {
        source: source.into(),
        target: target.into(),
        read_only,
        devices: false,
        optional: false,
        object: None,
    }
}

pub fn folder(target: &str) -> Mount {
    Mount::Dir {
        target: target.into(),
    }
}

/// The setup of a typical sandbox.
pub fn standard_root() -> Setup {
    let mut mounts = Vec::new();
    for folder in ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"] {
        match std::fs::read_link(folder) {
            Ok(points_to) => mounts.push(Mount::Symlink {
                points_to: points_to.to_str().unwrap().into(),
                target: folder.into(),
            }),
            Err(_) if Path::new(folder).is_dir() => mounts.push(bind(folder, folder, true)),
            Err(_) => {}
        }
    }
    mounts.push(Mount::Proc {
        target: b"/proc".to_vec(),
    });
    mounts.push(folder("/dev"));
    for device in ["/dev/null", "/dev/zero", "/dev/urandom"] {
        mounts.push(Mount::Bind {
            source: device.into(),
            target: device.into(),
            read_only: false,
            devices: true,
            optional: false,
            object: None,
        });
    }
    mounts.push(folder("/tmp"));
    mounts.push(folder("/home/code"));
    mounts.push(Mount::File {
        target: b"/etc/hostname".to_vec(),
        content: b"inside\n".to_vec(),
        mode: 0o444,
    });
    mounts.push(bind("/etc/passwd", "/etc/passwd", true));
    mounts.push(Mount::Mask {
        target: b"/etc/passwd".to_vec(),
        object: None,
    });
    mounts.push(Mount::Mask {
        target: b"/usr/include".to_vec(),
        object: None,
    });
    mounts.push(Mount::Mask {
        target: b"/proc/kcore".to_vec(),
        object: None,
    });
    mounts.push(Mount::Mask {
        target: b"/proc/cmdline".to_vec(),
        object: None,
    });
    mounts.push(Mount::Mask {
        target: b"/not/there".to_vec(),
        object: None,
    });
    mounts.push(Mount::ReadOnlyPart {
        target: b"/proc/sys".to_vec(),
    });
    mounts.push(Mount::ReadOnlyPart {
        target: b"/proc/not-there".to_vec(),
    });
    mounts.push(Mount::ReadOnly {
        target: b"/".to_vec(),
    });
    Setup {
        new_root: true,
        mounts,
        hostname: b"inside".to_vec(),
        loopback: true,
        user_namespace: false,
        egress: None,
        user_limits: Vec::new(),
        pid_one: true,
        die_with_parent: false,
    }
}

/// The setup of a typical sandbox in which everybody may write to `/tmp`, a folder of the host.
pub fn writable_root(tmp: &Path) -> Setup {
    std::fs::set_permissions(tmp, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let mut setup = standard_root();
    let at = setup.mounts.len() - 1;
    let bound = bind(tmp.to_str().unwrap(), "/tmp", false);
    setup.mounts.insert(at, bound);
    setup
}

pub fn check_standard_root(client: &mut FirstClient, user: &str) {
    assert_eq!(
        output(client, "id -u; id -g; id -G"),
        format!("{user}\n{user}\n{user}\n")
    );
    assert_eq!(
        output(client, "cat /etc/hostname; uname -n"),
        "inside\ninside\n"
    );
    assert_eq!(output(client, "ls / | tr '\\n' ' '"), {
        let mut names = vec!["dev", "etc", "home", "proc", "tmp", "usr"];
        names.extend(
            ["bin", "sbin", "lib", "lib64"]
                .iter()
                .filter(|name| Path::new("/").join(name).symlink_metadata().is_ok()),
        );
        if Path::new("/opt").is_dir() {
            names.push("opt");
        }
        names.sort_unstable();
        names.join(" ") + " "
    });
    // Files.
    refused(client, "touch /x", "Read-only file system");
    refused(client, "touch /usr/x", "Read-only file system");
    refused(client, "cat /etc/passwd", "Permission denied");
    refused(client, "ls /usr/include", "Permission denied");
    refused(client, "cat /proc/cmdline", "Permission denied");
    // Every user of the host can open this one for writing.
    refused(
        client,
        "echo 1 > /proc/sys/kernel/ns_last_pid",
        "Read-only file system",
    );
    output(client, "cat /proc/sys/kernel/ostype");
    assert_eq!(
        output(client, "touch /tmp/x && stat -c %u /tmp/x && rm /tmp/x"),
        format!("{user}\n")
    );
    assert_eq!(output(client, "stat -c %a /home/code"), "555\n");
    assert_eq!(
        output(
            client,
            "cp /bin/true /tmp/t && /tmp/t && rm /tmp/t && echo ran"
        ),
        "ran\n"
    );
    output(client, "head -c 3 /dev/urandom >/dev/null");
    refused(client, "mknod /tmp/null c 1 3", "Operation not permitted");
    // Processes: the agent is PID 1, supervisor and shell follow.
    assert_eq!(
        output(client, "tr '\\0' ' ' </proc/1/cmdline | grep -c serve"),
        "1\n"
    );
    refused(client, "cat /proc/1/environ", "Permission denied");
    refused(client, "cat /proc/1/fd/42", "Permission denied");
    if user == "0" {
        // With the same identity the signal is sent and has no effect: the kernel protects PID 1.
        output(client, "kill -9 1; kill -STOP 1; kill -TERM 1");
        client.ping();
    } else {
        refused(client, "kill -9 1", "not permitted");
    }
    // Privileges.
    let status = output(
        client,
        "grep -E 'Cap|NoNewPrivs' /proc/self/status | tr -d '\\n'",
    );
    assert_eq!(
        status.replace('\t', ""),
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
            .map(|set| format!("{set}:0000000000000000"))
            .concat()
            + "NoNewPrivs:1"
    );
    assert_eq!(output(client, "cat /proc/self/oom_score_adj"), "1000\n");
    // Network: only a loopback that is up.
    assert_eq!(
        output(client, "tail -n +3 /proc/net/dev | cut -d: -f1"),
        "    lo\n"
    );
    assert_eq!(
        output(client, "grep -c 127.0.0.1 /proc/net/fib_trie"),
        "2\n"
    );
    // Descriptors.
    assert_eq!(
        output(client, "ls /proc/self/fd | tr '\\n' ' '"),
        "0 1 2 3 "
    );
    // A pipe that can be opened by its name.
    assert_eq!(
        output(
            client,
            "echo hello > /dev/fd/1 || echo hello > /proc/self/fd/1"
        ),
        "hello\n"
    );
}
