//! Host folders and files at targets, as an engine mounts them.

use std::os::unix::fs::PermissionsExt;

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};
use sandbox_core::spi::unique_name;
use sandbox_core::{
    Capability, CapabilityPolicy, ErrorKind, ExecRequest, HostMount, Storage, StorageMount,
};

use super::{EngineTest, TestEngine};
use crate::contract::{
    PYTHON, TestResult, assert_mounts_appear_at_their_targets,
    assert_no_socket_in_a_mount_is_reached, output, run,
};

pub const TESTS: &[EngineTest] = &[
    ("mounts::appear_at_their_targets", targets),
    ("mounts::lead_to_no_socket_of_the_host", no_sockets),
    ("mounts::of_a_file_can_be_below_etc", below_etc),
    ("mounts::of_a_socket_is_refused", socket),
    ("mounts::volume_of_the_operator_keeps_files", volume),
    ("mounts::missing_and_own_volumes_are_refused", missing),
];

fn targets(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.allow_partial = vec![Capability::Disk];
        assert_mounts_appear_at_their_targets(&engine.client(policy), engine.spec()).await
    })
}

fn no_sockets(engine: &'static TestEngine) -> TestResult {
    run(async {
        let mut policy = CapabilityPolicy::new();
        policy.allow_partial = vec![Capability::Disk];
        let client = engine.client(policy);
        let spec = || engine.spec().image(PYTHON);
        assert_no_socket_in_a_mount_is_reached(&client, spec).await
    })
}

fn below_etc(engine: &'static TestEngine) -> TestResult {
    run(async {
        let place = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        let file = place.path().join("app.conf");
        std::fs::write(&file, "port = 1").expect("written");
        let mount = HostMount::read_only(&file, "/etc/app/app.conf");
        let client = engine.client(CapabilityPolicy::new());
        let sandbox = client.create(&engine.spec().mount(mount)).await?;
        let script = "cat /etc/app/app.conf; ls /etc/passwd";
        assert_eq!(output(&sandbox, script).await?, "port = 1/etc/passwd\n");
        sandbox.kill().await
    })
}

fn socket(engine: &'static TestEngine) -> TestResult {
    run(async {
        let place = tempfile::tempdir().expect("a folder");
        let socket = place.path().join("engine.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let mount = HostMount::read_write(&socket, "/engine.sock");
        let client = engine.client(CapabilityPolicy::new());
        let error = client.create(&engine.spec().mount(mount)).await;
        let error = error.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
        assert!(error.to_string().contains("neither a folder"), "{error}");
        Ok(())
    })
}

fn volume(engine: &'static TestEngine) -> TestResult {
    run(async {
        let api = engine.api();
        let name = unique_name("lab");
        let request = VolumeCreateRequest {
            name: Some(name.clone()),
            ..VolumeCreateRequest::default()
        };
        api.create_volume(request).await.expect("a volume");
        let policy = CapabilityPolicy::new().storage("lab", Storage::volume(&name));
        // A new volume belongs to root.
        let write = StorageMount::read_write("lab", "/workspace");
        let spec = engine.spec().storage(write).user("0:0");
        let first = engine.client(policy.clone()).create(&spec).await?;
        let disk = first.enforcement().get(Capability::Disk);
        assert!(disk.is_some_and(|disk| !disk.is_enforced()), "{disk:?}");
        assert_eq!(
            output(&first, "echo kept > file; pwd").await?,
            "/workspace\n"
        );
        first.kill().await?;
        let read = StorageMount::read_only("lab", "/lab");
        let spec = engine.spec().storage(read).user("0:0");
        let second = engine.client(policy).create(&spec).await?;
        assert_eq!(output(&second, "cat /lab/file").await?, "kept\n");
        let refused = second.exec(&ExecRequest::shell("echo x > /lab/x")).await?;
        let said = refused.stderr_text();
        assert!(said.contains("Read-only file system"), "{said}");
        second.kill().await?;
        let removed = api.remove_volume(&name, None::<RemoveVolumeOptions>).await;
        removed.expect("nothing holds it");
        Ok(())
    })
}

fn missing(engine: &'static TestEngine) -> TestResult {
    run(async {
        let create = async |name: &str| {
            let policy = CapabilityPolicy::new().storage("lab", Storage::volume(name));
            let mount = StorageMount::read_write("lab", "/lab");
            let (client, spec) = (engine.client(policy), engine.spec().storage(mount));
            client.create(&spec).await.expect_err("refused")
        };
        let name = unique_name("missing");
        let error = create(&name).await;
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
        assert!(error.to_string().contains("does not exist"), "{error}");
        assert!(
            engine.api().inspect_volume(&name).await.is_err(),
            "not made"
        );
        // The agent's volume exists from here on.
        let client = engine.client(CapabilityPolicy::new());
        client.create(&engine.spec()).await?.kill().await?;
        let volumes = engine
            .api()
            .list_volumes(None::<ListVolumesOptions>)
            .await
            .expect("a list");
        let volumes = volumes.volumes.unwrap_or_default();
        let of_agent = volumes
            .iter()
            .find(|it| it.name.starts_with("sandbox-agent-"));
        let error = create(&of_agent.expect("the agent's").name).await;
        assert!(
            error.to_string().contains("belongs to this library"),
            "{error}"
        );
        Ok(())
    })
}
