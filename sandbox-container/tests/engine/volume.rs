//! The agent's volume: filled once, compared, repaired or refused.

use std::io::Read;

use bollard::body_full;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, DownloadFromContainerOptions, RemoveContainerOptions,
    RemoveVolumeOptions, UploadToContainerOptions,
};
use futures_util::StreamExt;
use libtest_mimic::Failed;
use sandbox_container::ProfileForm;
use sandbox_core::{Capability, CapabilityPolicy, ErrorKind, Workspace, unique_name};
use sandbox_host::confinement::container_filter;
use sandbox_host::seccomp::{Arch, EngineProfile};

use crate::family::{Backend, FAMILY};
use crate::suite::Test;
use crate::suite::engine::{self, BUSYBOX, api, client_of, config, output, run, spec};
use crate::suite::owner::Owner;

pub const TESTS: &[Test] = &[
    (
        "volume::another_agents_bytes_are_noticed_and_replaced",
        replaced,
    ),
    ("volume::what_does_not_belong_there_is_refused", refused),
    (
        "volume::another_program_in_it_is_never_started",
        never_started,
    ),
    ("volume::processes_that_fill_it_at_once_agree", at_once),
    ("volume::a_volume_that_was_removed_is_filled_again", removed),
];

/// The built-in agent with `mark` behind it: the same program under another hash, so that no other test is disturbed.
fn marked(mark: &str) -> Vec<u8> {
    let mut program = sandbox_agent::program().to_vec();
    program.extend_from_slice(unique_name(mark).as_bytes());
    program
}

/// The name says all that the volume carries: on some families the seccomp profile, too.
fn name_of(program: &[u8]) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(program);
    // What is no program of a machine has no profile.
    if FAMILY.profile_form == ProfileForm::File && program.starts_with(b"\x7fELF") {
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

/// Removes the volume of this agent, unless the prune of a test beside this one has.
pub async fn remove(program: &[u8]) {
    let removed = api()
        .remove_volume(&name_of(program), None::<RemoveVolumeOptions>)
        .await;
    match removed {
        Ok(())
        | Err(bollard::errors::Error::DockerResponseServerError {
            status_code: 404, ..
        }) => {}
        Err(error) => panic!("the volume is still in use: {error}"),
    }
}

/// A container that is never started, to reach a volume through. Makes the volume where there is none.
async fn carrier(volume: &str) -> String {
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
    let created = api().create_container(Some(options), body).await;
    created.expect("container").id
}

async fn remove_carrier(container: &str) {
    let options = RemoveContainerOptions {
        force: true,
        ..Default::default()
    };
    let engine = api();
    let removed = engine.remove_container(container, Some(options));
    removed.await.expect("removed");
}

/// Puts a file into a volume, as whoever has the engine can.
async fn put(volume: &str, name: &str, content: &[u8]) {
    let container = carrier(volume).await;
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
    let engine = api();
    let upload = engine.upload_to_container(&container, Some(options), body_full(archive.into()));
    upload.await.expect("upload");
    remove_carrier(&container).await;
}

/// The bytes of a file in a volume.
async fn get(volume: &str, name: &str) -> Vec<u8> {
    let container = carrier(volume).await;
    let options = DownloadFromContainerOptions {
        path: format!("/v/{name}"),
    };
    let engine = api();
    let mut stream = std::pin::pin!(engine.download_from_container(&container, Some(options)));
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.expect("a piece"));
    }
    let mut archive = tar::Archive::new(bytes.as_slice());
    let mut entries = archive.entries().expect("an archive");
    let mut entry = entries.next().expect("a file").expect("a file");
    let mut content = Vec::new();
    entry.read_to_end(&mut content).expect("its bytes");
    remove_carrier(&container).await;
    content
}

/// Creates a sandbox with this agent and asks it for something.
async fn try_agent(program: &[u8]) -> sandbox_core::Result<()> {
    let backend = Backend::new(config().agent(program));
    let client = client_of(backend, CapabilityPolicy::new());
    let sandbox = client.create(&spec()).await?;
    assert_eq!(output(&sandbox, "echo works").await?, "works\n");
    sandbox.kill().await
}

fn replaced() -> Result<(), Failed> {
    run(async {
        let program = marked("replaced");
        let mut other = program.clone();
        *other.last_mut().expect("bytes") ^= 1;
        put(&name_of(&program), "agent", &other).await;
        try_agent(&program).await?;
        assert!(
            get(&name_of(&program), "agent").await == program,
            "not replaced"
        );
        remove(&program).await;
        Ok(())
    })
}

fn refused() -> Result<(), Failed> {
    run(async {
        let program = marked("refused");
        put(&name_of(&program), "other", b"#!/bin/sh\n").await;
        let error = try_agent(&program).await.expect_err("a stranger's file");
        assert_eq!(error.kind(), ErrorKind::SetupFailed, "{error}");
        assert!(error.to_string().contains("other"), "{error}");
        let fix = error.fix().expect("a fix").to_owned();
        assert!(fix.contains(&name_of(&program)), "{fix}");
        remove(&program).await;
        try_agent(&program).await?;
        remove(&program).await;
        Ok(())
    })
}

fn never_started() -> Result<(), Failed> {
    run(async {
        let program = marked("poisoned");
        let folder = tempfile::tempdir().expect("temporary folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), mode).expect("mode");
        let poison = b"#!/bin/sh\necho there > /workspace/poison\nsleep 1\n";
        put(&name_of(&program), "agent", poison).await;
        let backend = Backend::new(config().agent(program.as_slice()));
        let mut policy = CapabilityPolicy::new();
        policy.allow_partial = vec![Capability::Disk, Capability::Timeout, Capability::OpenFiles];
        let client = client_of(backend, policy);
        let spec = spec().workspace(Workspace::read_write(folder.path()));
        let sandbox = client.create(&spec).await?;
        assert_eq!(output(&sandbox, "ls").await?, "", "another program ran");
        sandbox.kill().await?;
        remove(&program).await;
        Ok(())
    })
}

fn at_once() -> Result<(), Failed> {
    let program = marked("at-once");
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("agent");
    std::fs::write(&path, &program).expect("file");
    let start = |_| Owner::spawn(&unique_name("filler"), Some(&path));
    let mut owners = (0..5).map(start).collect::<Vec<_>>();
    owners.iter_mut().for_each(Owner::wait_ready);
    drop(owners);
    engine::run(async {
        let left = name_of(&program).replacen("agent", "fill", 1);
        assert!(!engine::exists(&left).await, "{left} is left");
        // The owners were killed: their containers go, and then their volume can.
        for _ in 0..250 {
            if api()
                .remove_volume(&name_of(&program), None::<RemoveVolumeOptions>)
                .await
                .is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the volume is still in use after 5 s");
    })
}

fn removed() -> Result<(), Failed> {
    run(async {
        let program = marked("removed");
        try_agent(&program).await?;
        remove(&program).await;
        try_agent(&program).await?;
        remove(&program).await;
        Ok(())
    })
}
