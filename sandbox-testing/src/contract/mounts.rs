//! Host folders and files at targets.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use sandbox_core::{Capability, ExecRequest, HostMount, SandboxClient, SandboxSpec, Workspace};

use super::output;

/// Asserts that a read-only folder, a writable folder and a file appear at their targets alone,
/// with the access and the flags of a workspace.
///
/// # Errors
///
/// What the backend reports.
pub async fn assert_mounts_appear_at_their_targets(
    client: &SandboxClient,
    spec: SandboxSpec,
) -> sandbox_core::Result<()> {
    let place = tempfile::tempdir().expect("a folder");
    let base = place.path().canonicalize().expect("a path");
    set_mode(&base, 0o755);
    let [input, results, work] = ["input", "results", "work"].map(|name| {
        let folder = base.join(name);
        std::fs::create_dir_all(folder.join("deep")).expect("made");
        std::fs::write(folder.join("deep/file"), name).expect("written");
        let mode = if name == "input" { 0o755 } else { 0o777 };
        set_mode(&folder, mode);
        set_mode(&folder.join("deep"), mode);
        folder
    });
    let settings = base.join("settings");
    std::fs::write(&settings, "value").expect("written");
    let spec = spec
        .workspace(Workspace::read_write(&work))
        .mount(HostMount::read_only(&input, "/data/in put"))
        .mount(HostMount::read_write(&results, "/results"))
        .mount(HostMount::read_only(&settings, "/settings.conf"));
    let sandbox = client.create(&spec).await?;
    let report = sandbox.enforcement().get(Capability::Disk).cloned();
    assert!(
        report.as_ref().is_some_and(|disk| !disk.is_enforced()),
        "nothing bounds a writable mount: {report:?}"
    );

    let read = "cat '/data/in put/deep/file' /settings.conf; cat /results/deep/file";
    assert_eq!(output(&sandbox, read).await?, "inputvalueresults");
    output(&sandbox, "echo new > /results/new; rm -r /results/deep").await?;
    let content = std::fs::read_to_string(results.join("new")).expect("it arrived");
    assert_eq!(content, "new\n");
    assert!(!results.join("deep").exists());

    for script in [
        "echo x > '/data/in put/new'",
        "echo x > '/data/in put/deep/file'",
        "echo x > /settings.conf",
    ] {
        let result = sandbox.exec(&ExecRequest::shell(script)).await?;
        let said = result.stderr_text();
        assert!(
            !result.success() && said.contains("Read-only file system"),
            "{script}: {said}"
        );
    }
    // The control: the same writes succeed where they may.
    output(&sandbox, "echo x > /results/x").await?;

    let elsewhere = format!("ls -d {} 2>/dev/null | wc -l", base.display());
    assert_eq!(output(&sandbox, &elsewhere).await?.trim(), "0");
    let mounts = output(&sandbox, "cat /proc/self/mountinfo").await?;
    let flags_of = |target: &str| {
        let mut lines = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let line = lines.find(|fields| fields[4] == target);
        let flags = line.unwrap_or_else(|| panic!("{target} in {mounts}"))[5];
        // Where users are mapped depends on the folder.
        flags.replace(",idmapped", "")
    };
    assert_eq!(flags_of("/results"), flags_of("/workspace"));
    let read_only = flags_of("/workspace").replacen("rw", "ro", 1);
    assert_eq!(flags_of("/data/in\\040put"), read_only);
    sandbox.kill().await
}

/// Asserts that code reaches no socket of the host in a mounted folder, whatever its access.
///
/// # Errors
///
/// What the backend reports.
///
/// # Panics
///
/// If code reaches one, or if the controls fail: the host itself reaches it, and code may have
/// sockets where no folder is mounted.
pub async fn assert_no_socket_in_a_mount_is_reached(
    client: &SandboxClient,
    spec: impl Fn() -> SandboxSpec,
) -> sandbox_core::Result<()> {
    let place = tempfile::tempdir().expect("a folder");
    set_mode(place.path(), 0o777);
    let path = place.path().join("daemon");
    let listener = UnixListener::bind(&path).expect("a socket");
    set_mode(&path, 0o777);
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            // The client may be gone.
            let _ = peer.and_then(|mut peer| peer.write_all(b"reached"));
        }
    });
    let mut text = String::new();
    let peer = UnixStream::connect(&path).and_then(|mut peer| peer.read_to_string(&mut text));
    assert!(peer.is_ok() && text == "reached", "{peer:?} {text}");

    let connect = "python3 -c '
import socket, sys
for place in sys.argv[1:]:
    try:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(place)
        print(peer.recv(10))
    except OSError as error:
        print(type(error).__name__)
'";
    let sandbox = client.create(&spec()).await?;
    let own = output(&sandbox, &format!("{connect} /tmp/none")).await?;
    assert_eq!(own, "FileNotFoundError\n", "a socket can be made");
    sandbox.kill().await?;
    let mounted = spec()
        .mount(HostMount::read_only(place.path(), "/mnt/read"))
        .mount(HostMount::read_write(place.path(), "/mnt/write"));
    let sandbox = client.create(&mounted).await?;
    let script = format!(
        "ls /mnt/read/daemon /mnt/write/daemon; {connect} /mnt/read/daemon /mnt/write/daemon"
    );
    let printed = output(&sandbox, &script).await?;
    let seen = "/mnt/read/daemon\n/mnt/write/daemon\n";
    assert_eq!(printed, format!("{seen}OSError\nOSError\n"));
    sandbox.kill().await
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode");
}
