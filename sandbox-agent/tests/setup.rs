//! Building a place out of new namespaces. Needs root; as another user these tests say so and do nothing else.

mod common;
#[path = "setup/objects.rs"]
mod objects;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use common::{Client, command, processes::alive, refused, script, settings};
use sandbox_agent::protocol::{
    ExitKind, FailStep, Failure, Kind, Mount, Settings, Setup, UserLimit,
};

const NAMESPACES: &[&str] = &[
    "unshare",
    "-m",
    "-p",
    "-f",
    "-n",
    "-i",
    "-u",
    "-C",
    "--propagation",
    "private",
    "--",
];

fn is_root() -> bool {
    // SAFETY: the call takes nothing.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("not root: nothing is tested here");
    }
    root
}

fn bind(source: &str, target: &str, read_only: bool) -> Mount {
    Mount::Bind {
        source: source.into(),
        target: target.into(),
        read_only,
        devices: false,
        optional: false,
        object: None,
    }
}

fn tmpfs(target: &str, size: u64, exec: bool, owned: bool) -> Mount {
    Mount::Tmpfs {
        target: target.into(),
        size,
        inodes: 100,
        mode: 0o755,
        exec,
        owned,
    }
}

/// The place of a usual sandbox.
fn usual() -> Setup {
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
    mounts.push(tmpfs("/dev", 4096, false, false));
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
    mounts.push(Mount::Mqueue {
        target: b"/dev/mqueue".to_vec(),
    });
    mounts.push(tmpfs("/tmp", 1 << 20, true, true));
    mounts.push(Mount::Dir {
        target: b"/home/code".to_vec(),
        mode: 0o700,
        owned: true,
    });
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
        user_limits: Vec::new(),
        owner: (1234, 1234),
        pid_one: true,
        die_with_parent: false,
    }
}

fn split(identity: u32) -> Settings {
    let mut settings = settings();
    settings.confinement.identity = Some((identity, identity));
    settings
}

/// Sends the setup, writes the id maps if they are asked for, then the settings.
fn establish(client: &mut Client, setup: &Setup, settings: &Settings) -> Result<(), Failure> {
    client.send(0, Kind::Setup, &setup.encode());
    if setup.user_namespace {
        let message = client.wait(0);
        if message.kind == Kind::Failed {
            return Err(Failure::decode(&message.bytes).unwrap());
        }
        assert_eq!(message.kind, Kind::NeedMaps);
        let parent = client.agent.id();
        let children =
            std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        let agent: u32 = children.trim().parse().unwrap();
        for map in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{agent}/{map}"), "0 200000 65536").unwrap();
        }
        client.send(0, Kind::Mapped, &[]);
    }
    client.hello(settings).map(drop)
}

#[track_caller]
fn inside(setup: &Setup, settings: &Settings) -> Client {
    let mut client = Client::launch(NAMESPACES, &["--setup"]);
    establish(&mut client, setup, settings).unwrap();
    client
}

#[track_caller]
fn output(client: &mut Client, text: &str) -> String {
    let outcome = client.run(&script(text));
    assert_eq!(
        outcome.kind(),
        ExitKind::Exited(0),
        "{text}: {}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    outcome.text()
}

fn check_place(client: &mut Client, user: &str) {
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
    // Every user of the host may open this one for writing.
    refused(
        client,
        "echo 1 > /proc/sys/kernel/ns_last_pid",
        "Read-only file system",
    );
    output(client, "cat /proc/sys/kernel/ostype");
    assert_eq!(
        output(client, "touch /tmp/x && stat -c %u /tmp /tmp/x"),
        format!("{user}\n{user}\n")
    );
    assert_eq!(
        output(client, "stat -c %u:%a /home/code"),
        format!("{user}:700\n")
    );
    assert_eq!(
        output(client, "cp /bin/true /tmp/t && /tmp/t && echo ran"),
        "ran\n"
    );
    refused(
        client,
        "head -c 2000000 /dev/zero > /tmp/big",
        "No space left",
    );
    output(client, "rm /tmp/big; head -c 3 /dev/urandom >/dev/null");
    refused(client, "mknod /tmp/null c 1 3", "Operation not permitted");
    // Processes: the agent is the first, supervisor and shell follow.
    assert_eq!(
        output(client, "tr '\\0' ' ' </proc/1/cmdline | grep -c serve"),
        "1\n"
    );
    refused(client, "cat /proc/1/environ", "Permission denied");
    refused(client, "cat /proc/1/fd/42", "Permission denied");
    if user == "0" {
        // Of the same identity it may be sent, and does nothing: the kernel shields the first process.
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
    // Network: a loopback that is up, and nothing else.
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
    // A pipe that may be opened by its name.
    assert_eq!(
        output(
            client,
            "echo hello > /dev/fd/1 || echo hello > /proc/self/fd/1"
        ),
        "hello\n"
    );
}

#[test]
fn standard_root_is_built() {
    if !is_root() {
        return;
    }
    let mut client = inside(&usual(), &split(1234));
    check_place(&mut client, "1234");
}

#[test]
fn standard_root_is_built_in_a_user_namespace() {
    if !is_root() {
        return;
    }
    let mut setup = usual();
    setup.user_namespace = true;
    // As the namespace sees it at the time of the mounts: 1234 of the later map.
    setup.owner = (201_234, 201_234);
    setup.user_limits = vec![inotify_instances()];
    let mut client = inside(&setup, &split(1234));
    check_place(&mut client, "1234");
    assert_eq!(output(&mut client, INSTANCES), "3\n");
    // The session key ring is a new one: what the caller had in its own is no longer possessed.
    assert_eq!(
        output(&mut client, "grep -c ' _ses: empty' /proc/keys"),
        "1\n"
    );
    let map = output(&mut client, "cat /proc/self/uid_map");
    assert_eq!(
        map.split_whitespace().collect::<Vec<_>>(),
        ["0", "200000", "65536"]
    );
}

/// A limit that no host has.
fn inotify_instances() -> UserLimit {
    UserLimit {
        name: b"max_inotify_instances".to_vec(),
        most: 3,
    }
}

/// Asks for it.
const INSTANCES: &str = "cat /proc/sys/user/max_inotify_instances";

/// System calls that came with Linux 5.2 or later.
const SINCE_5_2: &[i64] = &[
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_pidfd_open,
    libc::SYS_clone3,
    libc::SYS_close_range,
    libc::SYS_openat2,
    libc::SYS_faccessat2,
    libc::SYS_mount_setattr,
];

#[test]
fn standard_root_is_built_without_new_mount_calls() {
    if !is_root() {
        return;
    }
    for missing in [SINCE_5_2, &[libc::SYS_mount_setattr]] {
        let mut client = Client::launch_without(NAMESPACES, &["--setup"], missing);
        establish(&mut client, &usual(), &split(1234)).unwrap();
        check_place(&mut client, "1234");
        let mut client = Client::launch_without(NAMESPACES, &["--setup"], missing);
        let mut setup = usual();
        setup.user_namespace = true;
        setup.owner = (201_234, 201_234);
        setup.user_limits = vec![inotify_instances()];
        establish(&mut client, &setup, &split(1234)).unwrap();
        assert_eq!(output(&mut client, INSTANCES), "3\n");
    }
}

#[test]
fn submounts_are_restricted_too() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap();
    for folder in ["a", "b c"] {
        std::fs::create_dir(place.path().join(folder)).unwrap();
    }
    // The agent's mount namespace gets two more mounts, one below the other, before the agent starts.
    let mounting =
        format!("mount -t tmpfs x '{path}/b c' && touch '{path}/b c/file' && exec \"$@\"");
    let mut wrapper = NAMESPACES.to_vec();
    wrapper.extend(["sh", "-c", &mounting, "sh"]);
    let mut setup = usual();
    let at = setup.mounts.len() - 1;
    setup.mounts.insert(at, bind(path, "/data", true));
    setup.mounts.insert(at, bind(path, "/writable", false));
    for missing in [&[][..], SINCE_5_2, &[libc::SYS_mount_setattr]] {
        let mut client = Client::launch_without(&wrapper, &["--setup"], missing);
        // As root, so that nothing but the mounts refuses anything.
        establish(&mut client, &setup, &split(0)).unwrap();
        assert_eq!(output(&mut client, "ls '/data/b c'"), "file\n");
        refused(&mut client, "touch /data/x", "Read-only file system");
        refused(&mut client, "touch '/data/b c/x'", "Read-only file system");
        output(&mut client, "touch '/writable/b c/x'; rm '/writable/b c/x'");
        let options = output(
            &mut client,
            "grep -E ' /(data|writable)' /proc/self/mountinfo",
        );
        assert_eq!(options.lines().count(), 4, "{options}");
        assert!(
            options.lines().all(|line| line.contains("nosuid,nodev")),
            "{options}"
        );
    }
}

#[test]
fn standard_root_is_built_without_privileges() {
    if !is_root() {
        return;
    }
    // As another user, who is root of a user namespace and nothing else.
    let mut wrapper = vec![
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
        "unshare",
        "-Ur",
    ];
    wrapper.extend(&NAMESPACES[1..]);
    let mut setup = usual();
    // Nobody else to own anything.
    setup.owner = (0, 0);
    let mut client = Client::launch(&wrapper, &["--setup"]);
    establish(&mut client, &setup, &settings()).unwrap();
    check_place(&mut client, "0");
}

#[test]
fn owner_disconnect_ends_the_pid_namespace() {
    if !is_root() {
        return;
    }
    let mut client = inside(&usual(), &split(1234));
    let mark = format!("{}", 700_000 + std::process::id());
    let stream = client.exec(&script(&format!("setsid sleep {mark} & sleep {mark}")));
    assert_eq!(client.wait(stream).kind, Kind::Started);
    let start = Instant::now();
    while alive(&mark) < 2 {
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    drop(client);
    let start = Instant::now();
    while alive(&mark) > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "processes are left"
        );
    }
}

#[test]
fn failed_setup_names_the_step() {
    if !is_root() {
        return;
    }
    let fail = |change: &dyn Fn(&mut Setup)| {
        let mut setup = usual();
        change(&mut setup);
        let mut client = Client::launch(NAMESPACES, &["--setup"]);
        client.send(0, Kind::Setup, &setup.encode());
        let message = client.wait(0);
        assert_eq!(message.kind, Kind::Failed);
        let failure = Failure::decode(&message.bytes).unwrap();
        assert_eq!(failure.step, FailStep::Setup);
        assert_eq!(client.agent_end().code(), Some(71));
        failure
    };
    let failure = fail(&|setup| setup.mounts.insert(0, bind("/no/such", "/x", true)));
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::ENOENT, "/x: bind of /no/such")
    );
    let failure = fail(&|setup| setup.mounts.push(tmpfs("/late", 4096, false, false)));
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EROFS, "/late: tmpfs")
    );
    let failure = fail(&|setup| setup.mounts.insert(0, tmpfs("/a", 0, false, false)));
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EINVAL, "/a: tmpfs")
    );
    let failure = fail(&|setup| setup.mounts.insert(0, tmpfs("/a/../b", 1, false, false)));
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EINVAL, "/a/../b: tmpfs")
    );
    let failure = fail(&|setup| setup.hostname = vec![b'x'; 65]);
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EINVAL, "sethostname")
    );
}

#[test]
fn contradictory_setup_is_refused() {
    // Neither in a process namespace of its own, nor with a root.
    let mut client = Client::launch(&[], &["--setup"]);
    client.send(
        0,
        Kind::Setup,
        &Setup {
            pid_one: true,
            ..Setup::default()
        }
        .encode(),
    );
    let failure = Failure::decode(&client.wait(0).bytes).unwrap();
    assert_eq!(failure.step, FailStep::Setup);
    assert_eq!(client.agent_end().code(), Some(71));
    let mut client = Client::launch(&[], &["--setup"]);
    let mounts = vec![Mount::Proc {
        target: b"/proc".to_vec(),
    }];
    client.send(
        0,
        Kind::Setup,
        &Setup {
            mounts,
            ..Setup::default()
        }
        .encode(),
    );
    let failure = Failure::decode(&client.wait(0).bytes).unwrap();
    assert_eq!(failure.step, FailStep::Setup);
    assert_eq!(client.agent_end().code(), Some(71));
}

#[test]
fn empty_setup_changes_nothing() {
    let mut client = Client::launch(&[], &["--setup"]);
    establish(
        &mut client,
        &Setup {
            die_with_parent: true,
            ..Setup::default()
        },
        &settings(),
    )
    .unwrap();
    assert_eq!(client.run(&command(&["echo", "here"])).text(), "here\n");
}

#[test]
fn setup_without_the_option_is_refused() {
    let mut client = Client::launch(&[], &[]);
    client.send(0, Kind::Setup, &Setup::default().encode());
    let failure = Failure::decode(&client.wait(0).bytes).unwrap();
    assert_eq!(failure.step, FailStep::Protocol);
    assert_eq!(client.agent_end().code(), Some(70));
}
