//! Kernel objects that belong to the machine or the user rather than to a sandbox.

use rustix::fs::inotify;
use sandbox_core::{CapabilityPolicy, ExecEvent, SandboxClient, SandboxHandle, Stdin};

use crate::harness::{Need, Test, test};
use crate::support::{backend_in, create, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async machine_files_in_proc_are_hidden),
    test!(async state_folders_do_not_share_subordinate_users, Need::Root, Need::Namespaces),
    test!(async caller_keeps_inotify_instances, Need::OrdinaryUser, Need::Namespaces),
];

async fn machine_files_in_proc_are_hidden() {
    let sandbox = create(policy()).await;
    for file in [
        "/proc/cmdline",
        "/proc/interrupts",
        "/proc/key-users",
        "/proc/keys",
    ] {
        let control = std::fs::read(file);
        assert!(control.is_ok(), "the control: the host can read {file}");
        let result = sandbox.exec(&sh(&format!("cat {file}"))).await;
        let result = result.expect("it runs");
        assert!(!result.success(), "{file}: {}", result.stdout_text());
    }
}

/// The first host user of a sandbox's range.
async fn first_user(sandbox: &SandboxHandle) -> String {
    let result = sandbox.exec(&sh("cat /proc/self/uid_map")).await;
    let map = result.expect("it runs").stdout_text();
    map.split_whitespace().nth(1).expect("a map").to_owned()
}

async fn state_folders_do_not_share_subordinate_users() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let mut users = Vec::new();
    let mut sandboxes = Vec::new();
    for folder in &folders {
        let client =
            SandboxClient::with_backend(backend_in(&folder.path().join("state")), policy());
        let sandbox = client.expect("a policy").create(&spec()).await;
        let sandbox = sandbox.expect("a sandbox");
        users.push(first_user(&sandbox).await);
        sandboxes.push(sandbox);
    }
    assert_ne!(users[0], users[1]);
}

async fn caller_keeps_inotify_instances() {
    const TAKE: &str = "import os, select, sys\n\
        import ctypes\n\
        libc = ctypes.CDLL(None)\n\
        taken = 0\n\
        while taken < 1000 and libc.inotify_init1(0) >= 0: taken += 1\n\
        print(taken, flush=True)\n\
        sys.stdin.read()";
    let mut policy: CapabilityPolicy = policy();
    policy.open_files = Some(1024);
    let sandbox = create(policy).await;
    let script = format!("exec python3 -c '{TAKE}'");
    let mut execution = sandbox
        .start(&sh(&script), Stdin::Piped)
        .await
        .expect("it starts");
    let taken = loop {
        match execution.next_event().await.expect("it works") {
            Some(ExecEvent::Stdout(text)) => break String::from_utf8_lossy(&text).into_owned(),
            Some(_) => {}
            None => panic!("it ended"),
        }
    };
    assert_eq!(taken.trim(), "64");
    let own = [(); 8].map(|()| inotify::init(inotify::CreateFlags::CLOEXEC));
    assert!(own.iter().all(Result::is_ok), "{own:?}");
}
