//! Host folders and files at targets.

use std::os::unix::fs::PermissionsExt as _;

use sandbox_core::{ErrorKind, HostMount};
use sandbox_testing::contract::{
    assert_mounts_appear_at_their_targets, assert_no_socket_in_a_mount_is_reached,
};

use crate::harness::{Need, Test, test};
use crate::support::{client, namespaces, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async mounts_appear_at_their_targets, Need::Namespaces),
    test!(async mounts_lead_to_no_socket_of_the_host, Need::Namespaces),
    test!(async private_source_is_readable_for_code, Need::Namespaces),
    test!(async mount_in_a_folder_of_exported_files_stays_visible, Need::Namespaces),
    test!(async targets_in_the_platform_and_odd_sources_are_refused),
];

async fn mounts_appear_at_their_targets() {
    assert_mounts_appear_at_their_targets(&client(policy()), spec())
        .await
        .expect("a sandbox");
}

async fn mounts_lead_to_no_socket_of_the_host() {
    assert_no_socket_in_a_mount_is_reached(&client(policy()), spec)
        .await
        .expect("a sandbox");
}

async fn private_source_is_readable_for_code() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("private"), "p").expect("written");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(folder.path().join("private"), mode(0o600)).expect("set");
    std::fs::set_permissions(folder.path(), mode(0o700)).expect("set");
    let mount = HostMount::read_only(folder.path(), "/mnt/private");
    let sandbox = client(policy()).create(&spec().mount(mount)).await;
    let sandbox = sandbox.expect("a sandbox");
    let result = sandbox.exec(&sh("cat /mnt/private/private")).await;
    let result = result.expect("it runs");
    assert_eq!(result.stdout_text(), "p", "{}", result.stderr_text());
}

async fn mount_in_a_folder_of_exported_files_stays_visible() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("seed"), "s").expect("written");
    let mount = HostMount::read_only(folder.path(), "/output/seeds");
    let policy = policy().artifact_export_path("/output/*.txt");
    let sandbox = client(policy).create(&spec().mount(mount)).await;
    let sandbox = sandbox.expect("a sandbox");
    let result = sandbox
        .exec(&sh("cat /output/seeds/seed; echo x > /output/a.txt"))
        .await;
    let result = result.expect("it runs");
    assert!(result.success(), "{}", result.stderr_text());
    assert_eq!(result.stdout_text(), "s");
}

async fn targets_in_the_platform_and_odd_sources_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let with = |mount| async move { client(policy()).create(&spec().mount(mount)).await };
    let kind = match namespaces() {
        true => ErrorKind::InvalidSpec,
        false => ErrorKind::Unsupported,
    };
    for mount in [
        HostMount::read_only(folder.path(), "/usr/share/mine"),
        HostMount::read_only(folder.path(), "/etc/mine"),
        HostMount::read_write(&socket, "/socket"),
    ] {
        let error = with(mount.clone()).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{mount}: {error}");
        assert!(error.fix().is_some(), "{error}");
    }
    let missing = HostMount::read_only(folder.path().join("missing"), "/a");
    let error = with(missing).await.expect_err("refused");
    assert!(error.to_string().contains("missing"), "{error}");
}
