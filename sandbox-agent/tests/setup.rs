//! Building the root in new namespaces. Most of these tests need root.

mod common;
#[path = "setup/objects.rs"]
mod objects;
#[path = "setup/standard_root.rs"]
mod standard_root;

use std::{path::Path, process::ExitCode, time::Duration};

use common::{
    FirstClient, command,
    processes::{alive, unique_seconds},
    refused, script, settings,
};
use sandbox_agent::protocol::{
    AgentSettings, ExitKind, FailStep, Failure, FrameKind, Mount, Setup, UserLimit,
};
use sandbox_testing::{named_tests, trials, users::needs_root, wait::wait_until};
use standard_root::{bind, check_standard_root, folder, standard_root, writable_root};

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

fn main() -> ExitCode {
    trials::main(&[
        (
            needs_root(),
            named_tests![
                standard_root_is_built,
                standard_root_is_built_in_a_user_namespace,
                standard_root_is_built_without_new_mount_calls,
                submounts_are_restricted_too,
                standard_root_is_built_without_privileges,
                owner_disconnect_ends_the_pid_namespace,
                failed_setup_names_the_step,
                objects::replaced_object_is_not_mounted,
                objects::pinned_folder_is_writable_and_cannot_be_renamed,
            ],
        ),
        (
            None,
            named_tests![
                contradictory_setup_is_refused,
                empty_setup_changes_nothing,
                setup_without_the_option_is_refused,
            ],
        ),
    ])
}

fn split(identity: u32) -> AgentSettings {
    let mut settings = settings();
    settings.confinement.identity = Some((identity, identity));
    settings
}

/// Sends the setup, writes the ID maps on request, then sends the settings.
fn establish(
    client: &mut FirstClient,
    setup: &Setup,
    settings: &AgentSettings,
) -> Result<(), Failure> {
    client.send(0, FrameKind::Setup, &setup.encode());
    if setup.user_namespace {
        let message = client.wait(0);
        if message.kind == FrameKind::Failed {
            return Err(Failure::decode(&message.bytes).unwrap());
        }
        assert_eq!(message.kind, FrameKind::NeedMaps);
        let parent = client.agent.id();
        let children =
            std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
        let agent: u32 = children.trim().parse().unwrap();
        for map in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{agent}/{map}"), "0 200000 65536").unwrap();
        }
        client.send(0, FrameKind::Mapped, &[]);
    }
    client.hello(settings).map(drop)
}

#[track_caller]
fn inside(setup: &Setup, settings: &AgentSettings) -> FirstClient {
    let mut client = FirstClient::launch(NAMESPACES, &["--setup"]);
    establish(&mut client, setup, settings).unwrap();
    client
}

#[track_caller]
fn output(client: &mut FirstClient, text: &str) -> String {
    let outcome = client.run(&script(text));
    assert_eq!(
        outcome.kind(),
        ExitKind::Exited(0),
        "{text}: {}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    outcome.text()
}

fn standard_root_is_built() {
    let tmp = tempfile::tempdir().unwrap();
    let mut client = inside(&writable_root(tmp.path()), &split(1234));
    check_standard_root(&mut client, "1234");
}

fn standard_root_is_built_in_a_user_namespace() {
    let tmp = tempfile::tempdir().unwrap();
    let mut setup = writable_root(tmp.path());
    setup.user_namespace = true;
    setup.user_limits = vec![inotify_instances()];
    let mut client = inside(&setup, &split(1234));
    check_standard_root(&mut client, "1234");
    assert_eq!(output(&mut client, INSTANCES), "3\n");
    // The session keyring is new: the caller's keys are not possessed any more.
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

/// A limit that no host has by default.
fn inotify_instances() -> UserLimit {
    UserLimit {
        name: b"max_inotify_instances".to_vec(),
        most: 3,
    }
}

/// Prints the limit.
const INSTANCES: &str = "cat /proc/sys/user/max_inotify_instances";

/// System calls of Linux 5.2 and later.
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

fn standard_root_is_built_without_new_mount_calls() {
    let tmp = tempfile::tempdir().unwrap();
    for missing in [SINCE_5_2, &[libc::SYS_mount_setattr]] {
        let mut client = FirstClient::launch_without(NAMESPACES, &["--setup"], missing);
        establish(&mut client, &writable_root(tmp.path()), &split(1234)).unwrap();
        check_standard_root(&mut client, "1234");
        let mut client = FirstClient::launch_without(NAMESPACES, &["--setup"], missing);
        let mut setup = standard_root();
        setup.user_namespace = true;
        setup.user_limits = vec![inotify_instances()];
        establish(&mut client, &setup, &split(1234)).unwrap();
        assert_eq!(output(&mut client, INSTANCES), "3\n");
    }
}

fn submounts_are_restricted_too() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().to_str().unwrap();
    for folder in ["a", "b c"] {
        std::fs::create_dir(temp_dir.path().join(folder)).unwrap();
    }
    // The agent's mount namespace gets two more mounts, one below the other, before the agent
    // starts.
    let mounting =
        format!("mount -t tmpfs x '{path}/b c' && touch '{path}/b c/file' && exec \"$@\"");
    let mut wrapper = NAMESPACES.to_vec();
    wrapper.extend(["sh", "-c", &mounting, "sh"]);
    let mut setup = standard_root();
    let at = setup.mounts.len() - 1;
    setup.mounts.insert(at, bind(path, "/data", true));
    setup.mounts.insert(at, bind(path, "/writable", false));
    for missing in [&[][..], SINCE_5_2, &[libc::SYS_mount_setattr]] {
        let mut client = FirstClient::launch_without(&wrapper, &["--setup"], missing);
        // As root, so that only the mount flags can refuse access.
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

fn standard_root_is_built_without_privileges() {
    // As another user, who is root of a user namespace only.
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
    let tmp = tempfile::tempdir().unwrap();
    let mut client = FirstClient::launch(&wrapper, &["--setup"]);
    establish(&mut client, &writable_root(tmp.path()), &settings()).unwrap();
    check_standard_root(&mut client, "0");
}

fn owner_disconnect_ends_the_pid_namespace() {
    let mut client = inside(&standard_root(), &split(1234));
    let mark = unique_seconds();
    let stream = client.exec(&script(&format!("setsid sleep {mark} & sleep {mark}")));
    assert_eq!(client.wait(stream).kind, FrameKind::Started);
    let limit = Duration::from_secs(20);
    wait_until("two processes", limit, || alive(&mark) == 2);
    drop(client);
    wait_until("no process is left", limit, || alive(&mark) == 0);
}

fn failed_setup_names_the_step() {
    let fail = |change: &dyn Fn(&mut Setup)| {
        let mut setup = standard_root();
        change(&mut setup);
        let mut client = FirstClient::launch(NAMESPACES, &["--setup"]);
        client.send(0, FrameKind::Setup, &setup.encode());
        let message = client.wait(0);
        assert_eq!(message.kind, FrameKind::Failed);
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
    let failure = fail(&|setup| setup.mounts.push(folder("/late")));
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EROFS, "/late: folder")
    );
    let failure = fail(&|setup| setup.mounts.insert(0, folder("/a/../b")));
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EINVAL, "/a/../b: folder")
    );
    let failure = fail(&|setup| setup.hostname = vec![b'x'; 65]);
    assert_eq!(
        (failure.errno, &*failure.detail),
        (libc::EINVAL, "sethostname")
    );
}

fn contradictory_setup_is_refused() {
    // Without a PID namespace, and without a new root.
    let mut client = FirstClient::launch(&[], &["--setup"]);
    client.send(
        0,
        FrameKind::Setup,
        &Setup {
            pid_one: true,
            ..Setup::default()
        }
        .encode(),
    );
    let failure = Failure::decode(&client.wait(0).bytes).unwrap();
    assert_eq!(failure.step, FailStep::Setup);
    assert_eq!(client.agent_end().code(), Some(71));
    let mut client = FirstClient::launch(&[], &["--setup"]);
    let mounts = vec![Mount::Proc {
        target: b"/proc".to_vec(),
    }];
    client.send(
        0,
        FrameKind::Setup,
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

fn empty_setup_changes_nothing() {
    let mut client = FirstClient::launch(&[], &["--setup"]);
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

fn setup_without_the_option_is_refused() {
    let mut client = FirstClient::launch(&[], &[]);
    client.send(0, FrameKind::Setup, &Setup::default().encode());
    let failure = Failure::decode(&client.wait(0).bytes).unwrap();
    assert_eq!(failure.step, FailStep::Protocol);
    assert_eq!(client.agent_end().code(), Some(70));
}
