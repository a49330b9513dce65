//! What code can see and reach from inside a sandbox.

use std::net::TcpListener;
use std::time::Duration;

use sandbox_core::ExecRequest;
use sandbox_core::policy::NetworkPolicy;
use sandbox_testing::processes;
use sandbox_testing::users::{is_root, open_folder};
use sandbox_testing::wait::wait_until_async;

use crate::harness::{Need, Test, test};

use crate::support::{client, create, namespaces, policy, run, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async files_outside_of_roots_are_unreadable),
    test!(async files_outside_of_roots_are_not_writable),
    test!(async own_folders_are_writable),
    test!(async environment_is_not_inherited),
    test!(async host_processes_are_unreachable),
    test!(async host_listener_is_unreachable),
    test!(async open_descriptors_are_not_inherited),
    test!(async code_has_no_capability_and_is_not_root),
    test!(async sandboxes_do_not_share_writable_folders),
    test!(async concurrent_sandboxes_have_networks_of_their_own, Need::Namespaces),
    test!(async devices_are_neither_made_nor_changed, Need::Namespaces),
];

async fn files_outside_of_roots_are_unreadable() {
    let folder = open_folder();
    let canary = folder.path().join("canary");
    std::fs::write(&canary, "canary-content").expect("written");
    let mut paths = vec![canary.display().to_string()];
    paths.extend(["/etc/shadow", "/root/.bashrc", "/var/lib/dpkg/status"].map(String::from));
    let home = std::env::var("HOME").unwrap_or("/root".into());
    paths.push(format!("{home}/.profile"));
    let sandbox = create(policy()).await;
    for path in paths {
        let result = sandbox
            .exec(&sh(&format!("cat {path}")))
            .await
            .expect("it runs");
        assert!(!result.success(), "{path} was read");
        assert_eq!(result.stdout_text(), "", "{path}");
    }
}

async fn files_outside_of_roots_are_not_writable() {
    let folder = open_folder();
    let target = folder.path().join("target");
    std::fs::write(&target, "before").expect("written");
    let script = format!(
        "echo after > {0}; rm -f {0}; touch /usr/sandbox-test /etc/sandbox-test /sandbox-test; true",
        target.display()
    );
    run(policy(), &script).await;
    assert_eq!(std::fs::read_to_string(&target).expect("there"), "before");
    for path in ["/usr/sandbox-test", "/etc/sandbox-test", "/sandbox-test"] {
        assert!(
            !std::path::Path::new(path).exists(),
            "{path} was made on the host"
        );
    }
}

async fn own_folders_are_writable() {
    let script = if namespaces() {
        "set -e; pwd; for f in . /tmp /dev/shm; do echo x > $f/x; cat $f/x; done; ! touch /x; ! touch /etc/x"
    } else {
        "set -e; for f in . $TMPDIR $HOME; do echo x > $f/x; cat $f/x; done; ! touch /tmp/sandbox-test"
    };
    let result = run(policy(), script).await;
    assert!(
        result.success(),
        "{} {}",
        result.stdout_text(),
        result.stderr_text()
    );
    if namespaces() {
        assert_eq!(result.stdout_text(), "/workspace\nx\nx\nx\n");
    }
}

async fn environment_is_not_inherited() {
    // Cargo sets many variables. The run as another user sets this one.
    assert!(
        std::env::vars_os().count() > 2,
        "the control: this process has variables"
    );
    let result = run(policy(), "/usr/bin/env").await;
    let text = result.stdout_text();
    let mut names = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect::<Vec<_>>();
    names.retain(|name| !["HOME", "PATH", "PWD", "SHLVL", "_", "OLDPWD", "TMPDIR"].contains(name));
    assert_eq!(names, [] as [&str; 0], "{text}");
}

async fn host_processes_are_unreachable() {
    let own = std::process::id();
    let sandbox = create(policy()).await;
    let control = std::fs::read(format!("/proc/{own}/environ"));
    assert!(control.is_ok(), "the control: the host can read it");
    for script in [
        format!("cat /proc/{own}/environ"),
        format!("kill -0 {own}"),
        format!("ls /proc/{own}/cwd/"),
    ] {
        let result = sandbox.exec(&sh(&script)).await.expect("it runs");
        assert!(!result.success(), "{script}: {}", result.stdout_text());
    }
}

async fn host_listener_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}",
        listener.local_addr().expect("a port").port()
    );
    let control = std::process::Command::new("bash")
        .args(["-c", &script])
        .status();
    assert!(
        control.expect("bash").success(),
        "the control: the host reaches it"
    );
    assert!(listener.accept().is_ok());

    let sandbox = create(policy()).await;
    let bash = ExecRequest::new("bash").arg("-c").arg(script.clone());
    assert!(!sandbox.exec(&bash).await.expect("it runs").success());
    assert!(listener.accept().is_err(), "a connection came");

    if namespaces() {
        let mut open = policy();
        open.network = Some(NetworkPolicy::Full);
        let sandbox = create(open).await;
        let result = sandbox.exec(&bash).await.expect("it runs");
        assert!(result.success(), "{}", result.stderr_text());
        assert!(
            listener.accept().is_ok(),
            "the control: with the network it is reached"
        );
    }
}

async fn open_descriptors_are_not_inherited() {
    let folder = open_folder();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "secret-content").expect("written");
    let file = std::fs::File::open(&secret).expect("there");
    // Every other child of this process inherits it.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("set");
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    let script = format!("cat <&{number}");
    let control = std::process::Command::new("bash")
        .args(["-c", &script])
        .output()
        .expect("bash");
    assert_eq!(
        control.stdout, b"secret-content",
        "the control: it is inherited"
    );
    let sandbox = create(policy()).await;
    let bash = ExecRequest::new("bash").arg("-c").arg(script);
    let result = sandbox.exec(&bash).await.expect("it runs");
    assert!(!result.stdout_text().contains("secret-content"));
    assert!(!result.success());
}

async fn code_has_no_capability_and_is_not_root() {
    let sandbox = create(policy()).await;
    let identity = sandbox
        .exec(&sh("id -u"))
        .await
        .expect("it runs")
        .stdout_text();
    // Read on the host: with only Landlock, code cannot read its own status.
    let marker = format!("30.{}", std::process::id());
    let sleep = ExecRequest::new("sleep").arg(marker.clone());
    let sleeping = sandbox.exec(&sleep);
    let look = async {
        let found = async || processes::containing(&marker).len() == 1;
        wait_until_async("sleep runs", Duration::from_secs(10), found).await;
        let pid = processes::containing(&marker)[0];
        std::fs::read_to_string(format!("/proc/{pid}/status")).expect("readable")
    };
    let text = tokio::select! {
        ended = sleeping => panic!("{ended:?}"),
        text = look => text,
    };
    let user = if !namespaces() {
        rustix::process::geteuid().as_raw().to_string()
    } else if is_root() {
        "1000".into()
    } else {
        "65534".into()
    };
    assert_eq!(identity.trim(), user);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        // Without new privileges, the bounding set has no effect. Emptying it needs a capability.
        if set == "CapBnd" && !namespaces() {
            continue;
        }
        assert!(
            text.contains(&format!("{set}:\t0000000000000000")),
            "{text}"
        );
    }
    assert!(
        text.contains("NoNewPrivs:\t1") && text.contains("Seccomp:\t2"),
        "{text}"
    );
}

async fn sandboxes_do_not_share_writable_folders() {
    let (one, other) = (create(policy()).await, create(policy()).await);
    let write = "echo one > ${TMPDIR:-/tmp}/shared; echo one > shared";
    assert!(one.exec(&sh(write)).await.expect("it runs").success());
    let read = "cat ${TMPDIR:-/tmp}/shared shared /dev/shm/*";
    let result = other.exec(&sh(read)).await.expect("it runs");
    assert_eq!(result.stdout_text(), "");
}

async fn concurrent_sandboxes_have_networks_of_their_own() {
    let client = client(policy());
    let specs = [spec(), spec(), spec()];
    let (one, two, three) = tokio::join!(
        client.create(&specs[0]),
        client.create(&specs[1]),
        client.create(&specs[2]),
    );
    let host = std::fs::read_link("/proc/self/ns/net").expect("procfs");
    let mut seen = vec![format!("{}\n", host.display())];
    let all = [one, two, three].map(|sandbox| sandbox.expect("a sandbox"));
    for sandbox in &all {
        let network = sandbox.exec(&sh("readlink /proc/self/ns/net")).await;
        let network = network.expect("it runs").stdout_text();
        assert!(network.starts_with("net:["), "{network}");
        assert!(!seen.contains(&network), "{network} in {seen:?}");
        seen.push(network);
    }
}

async fn devices_are_neither_made_nor_changed() {
    let control = "mknod /tmp/pipe p && chmod 600 /tmp/pipe && echo control";
    let attack =
        "mknod /tmp/null c 1 3 && echo made; chmod 600 /dev/null && echo changed; cat /dev/null";
    let result = run(policy(), &format!("{control}; {attack}")).await;
    assert_eq!(result.stdout_text(), "control\n");
    assert!(result.success(), "{}", result.stderr_text());
}
