//! The agent's volume: it is filled once, and then verified, repaired or refused.

use std::io::Read;
use std::time::{Duration, Instant};

use bollard::body_full;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, DownloadFromContainerOptions, RemoveContainerOptions,
    RemoveVolumeOptions, UploadToContainerOptions,
};
use futures_util::StreamExt;
use sandbox_container::ProfileForm;
use sandbox_core::spi::unique_name;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, Workspace};
use sandbox_host::confinement::container_filter;
use sandbox_host::seccomp::{Arch, EngineProfile};

use super::owner::{self, READY};
use super::{EngineTest, TestEngine};
use crate::contract::{BUSYBOX, TestBackend, TestResult, client_of, output, run};

pub const TESTS: &[EngineTest] = &[
    ("volume::a_changed_agent_is_detected_and_replaced", replaced),
    ("volume::unexpected_files_are_refused", refused),
    (
        "volume::another_program_in_the_volume_is_never_started",
        never_started,
    ),
    ("volume::concurrent_processes_fill_it_once", at_once),
    ("volume::a_removed_volume_is_filled_again", removed),
];

/// The built-in agent with `mark` appended: the same program with another hash, so that tests do
/// not share a volume.
fn marked(mark: &str) -> Vec<u8> {
    let mut program = sandbox_agent::program().to_vec();
    program.extend_from_slice(unique_name(mark).as_bytes());
    program
}

/// The volume's name, a hash of its content: the agent, the files of names, and for some engines
/// the seccomp profile.
fn name_of(engine: &TestEngine, program: &[u8]) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(program);
    hash.update(sandbox_host::egress::RESOLV_CONF.as_bytes());
    hash.update(sandbox_host::egress::HOSTS.as_bytes());
    // Only an ELF program has a profile.
    if engine.family.profile_form == ProfileForm::File && program.starts_with(b"\x7fELF") {
        let arch = match std::env::consts::ARCH {
            "x86_64" => Arch::X86_64,
            "aarch64" => Arch::Aarch64,
            other => panic!("no agent is built for {other}"),
        };
        hash.update(
            EngineProfile::new(&container_filter(arch))
                .to_json()
                .as_bytes(),
        );
    }
    format!("sandbox-agent-{}", &hash.finalize().to_hex()[..16])
}

/// Removes the agent's volume. A concurrent test's `prune` may have removed it already. Docker
/// forgets the name of a removed container before it gives up its volumes.
pub async fn remove(engine: &TestEngine, program: &[u8]) {
    let (api, volume) = (engine.api(), name_of(engine, program));
    let start = Instant::now();
    loop {
        let removed = api.remove_volume(&volume, None::<RemoveVolumeOptions>);
        let status = match removed.await {
            Ok(()) => return,
            Err(Error::DockerResponseServerError { status_code, .. }) => status_code,
            Err(error) => panic!("the volume was not removed: {error}"),
        };
        match status {
            404 => return,
            409 if start.elapsed() < Duration::from_secs(60) => {}
            _ => panic!("the volume {volume} was not removed: status {status}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Creates a container to access a volume, and the volume if it is missing. The container is never
/// started.
async fn carrier(engine: &'static TestEngine, volume: &str) -> String {
    let host = HostConfig {
        binds: Some(vec![format!("{volume}:/v")]),
        ..HostConfig::default()
    };
    let body = ContainerCreateBody {
        image: Some(BUSYBOX.into()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptions {
        name: Some(unique_name("carrier")),
        ..Default::default()
    };
    let created = engine.api().create_container(Some(options), body).await;
    created.expect("container").id
}

async fn remove_carrier(engine: &'static TestEngine, container: &str) {
    let options = RemoveContainerOptions {
        force: true,
        ..Default::default()
    };
    let api = engine.api();
    let removed = api.remove_container(container, Some(options));
    removed.await.expect("removed");
}

/// Puts a file into a volume, as every user of the engine can.
async fn put(engine: &'static TestEngine, volume: &str, name: &str, content: &[u8]) {
    let container = carrier(engine, volume).await;
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o555);
    let mut archive = tar::Builder::new(Vec::new());
    archive
        .append_data(&mut header, name, content)
        .expect("archive");
    let archive = archive.into_inner().expect("archive");
    let options = UploadToContainerOptions {
        path: "/v".into(),
        ..Default::default()
    };
    let api = engine.api();
    let upload = api.upload_to_container(&container, Some(options), body_full(archive.into()));
    upload.await.expect("upload");
    remove_carrier(engine, &container).await;
}

/// The content of a file in a volume.
async fn get(engine: &'static TestEngine, volume: &str, name: &str) -> Vec<u8> {
    let container = carrier(engine, volume).await;
    let options = DownloadFromContainerOptions {
        path: format!("/v/{name}"),
    };
    let api = engine.api();
    let mut stream = std::pin::pin!(api.download_from_container(&container, Some(options)));
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.expect("a piece"));
    }
    let mut archive = tar::Archive::new(bytes.as_slice());
    let mut entries = archive.entries().expect("an archive");
    let mut entry = entries.next().expect("a file").expect("a file");
    let mut content = Vec::new();
    entry.read_to_end(&mut content).expect("its bytes");
    remove_carrier(engine, &container).await;
    content
}

/// Creates a sandbox with this agent and executes `echo`.
async fn try_agent(engine: &'static TestEngine, program: &[u8]) -> sandbox_core::Result<()> {
    let backend = engine.backend(engine.config().agent(program));
    let client = client_of(backend, CapabilityPolicy::new());
    let sandbox = client.create(&engine.spec()).await?;
    assert_eq!(output(&sandbox, "echo works").await?, "works\n");
    sandbox.kill().await
}

fn replaced(engine: &'static TestEngine) -> TestResult {
    run(async {
        let program = marked("replaced");
        let mut other = program.clone();
        *other.last_mut().expect("bytes") ^= 1;
        put(engine, &name_of(engine, &program), "agent", &other).await;
        try_agent(engine, &program).await?;
        assert!(
            get(engine, &name_of(engine, &program), "agent").await == program,
            "not replaced"
        );
        remove(engine, &program).await;
        Ok(())
    })
}

fn refused(engine: &'static TestEngine) -> TestResult {
    run(async {
        let program = marked("refused");
        put(engine, &name_of(engine, &program), "other", b"#!/bin/sh\n").await;
        let error = try_agent(engine, &program)
            .await
            .expect_err("an unexpected file");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        assert!(error.to_string().contains("other"), "{error}");
        let fix = error.fix().expect("a fix").to_owned();
        assert!(fix.contains(&name_of(engine, &program)), "{fix}");
        remove(engine, &program).await;
        try_agent(engine, &program).await?;
        remove(engine, &program).await;
        Ok(())
    })
}

fn never_started(engine: &'static TestEngine) -> TestResult {
    run(async {
        let program = marked("poisoned");
        let folder = tempfile::tempdir().expect("temporary folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), mode).expect("mode");
        let poison = b"#!/bin/sh\necho there > /workspace/poison\nsleep 1\n";
        put(engine, &name_of(engine, &program), "agent", poison).await;
        let backend = engine.backend(engine.config().agent(program.as_slice()));
        let mut policy = CapabilityPolicy::new();
        policy.allow_partial = vec![Capability::Disk, Capability::Timeout, Capability::OpenFiles];
        let client = client_of(backend, policy);
        let spec = engine
            .spec()
            .workspace(Workspace::read_write(folder.path()));
        let sandbox = client.create(&spec).await?;
        assert_eq!(output(&sandbox, "ls").await?, "", "another program ran");
        sandbox.kill().await?;
        remove(engine, &program).await;
        Ok(())
    })
}

fn at_once(engine: &'static TestEngine) -> TestResult {
    let program = marked("at-once");
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("agent");
    std::fs::write(&path, &program).expect("file");
    let start = |_| owner::with_agent(&unique_name("filler"), &path);
    let mut owners = (0..5).map(start).collect::<Vec<_>>();
    for owner in &mut owners {
        owner.wait_until(READY);
    }
    drop(owners);
    run(async {
        let left = name_of(engine, &program).replacen("agent", "fill", 1);
        assert!(!engine.exists(&left).await, "{left} is left");
        // The containers of the killed owners are removed first, then their volume.
        remove(engine, &program).await;
        Ok(())
    })
}

fn removed(engine: &'static TestEngine) -> TestResult {
    run(async {
        let program = marked("removed");
        try_agent(engine, &program).await?;
        remove(engine, &program).await;
        try_agent(engine, &program).await?;
        remove(engine, &program).await;
        Ok(())
    })
}
