//! Uploads the agent's program into a foreign container.

use async_trait::async_trait;
use bollard::body_full;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::UploadToContainerOptions;
use futures_util::StreamExt;
use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::adopted::{ForeignProgram, InstalledAgent};

use super::ForeignContainer;
use crate::Tier;
use crate::background_removal::REMOVER;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};

/// The container's root, which owns the folder.
const ROOT: &str = "0:0";

/// The agent's program in a foreign container.
#[derive(Debug, Clone)]
pub(super) struct UploadedProgram {
    tier: Tier,
    engine: Engine,
    container: String,
    folder: String,
}

impl UploadedProgram {
    /// Uploads the program into a new folder at the container's root, with an unpredictable name.
    pub(super) async fn install(
        tier: Tier,
        engine: &Engine,
        target: &ForeignContainer,
        program: &[u8],
    ) -> Result<InstalledAgent<Self>> {
        let name = unique_name(".sandbox-agent");
        let refused = |context: String| {
            Error::new(ErrorKind::Unsupported, "adopt container", context)
                .on(tier)
                .with_fix(
                    "run the container without a read-only root, or make a sandbox of its image",
                )
        };
        if target.host.readonly_rootfs == Some(true) {
            let context = "its root is read-only, so the agent cannot be put there";
            return Err(refused(context.into()));
        }
        let archive = archive(&name, program).map_err(|error| {
            engine_error(tier, Operation::Adopt, bollard::errors::Error::from(error))
        })?;
        let options = UploadToContainerOptions {
            path: "/".into(),
            ..UploadToContainerOptions::default()
        };
        let uploaded = Self {
            tier,
            engine: engine.clone(),
            container: target.id.clone(),
            folder: format!("/{name}"),
        };
        let installed = InstalledAgent::new(uploaded, &REMOVER);
        let pending = REMOVER.hold();
        // A separate task: if this future is dropped, the engine may still unpack the upload. The
        // task waits for that and then removes the program.
        let upload = tokio::spawn(async move {
            let Self {
                engine, container, ..
            } = installed.program();
            let content = body_full(archive.into());
            let uploaded = engine
                .client
                .upload_to_container(container, Some(options), content);
            let uploaded = uploaded.await;
            (uploaded.map(|()| installed), pending)
        });
        match upload.await {
            Ok((uploaded, _pending)) => {
                uploaded.map_err(|error| engine_error(tier, Operation::Adopt, error))
            }
            Err(stopped) => {
                let context = format!("the task that asks the engine was stopped: {stopped}");
                Err(Error::new(ErrorKind::Io, "adopt container", context).on(tier))
            }
        }
    }

    /// Path of the program in the container.
    pub(super) fn path(&self) -> String {
        format!("{}/agent", self.folder)
    }
}

/// An archive of the program, in a folder that only root can write to.
fn archive(folder: &str, program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let entries = [
        (
            tar::EntryType::Directory,
            format!("{folder}/"),
            0o755,
            &[][..],
        ),
        (
            tar::EntryType::Regular,
            format!("{folder}/agent"),
            0o555,
            program,
        ),
    ];
    for (kind, name, mode, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, name, content)?;
    }
    archive.into_inner()
}

#[async_trait]
impl ForeignProgram for UploadedProgram {
    fn place(&self) -> String {
        format!("container {}", self.container)
    }

    /// Runs the program as root to remove itself: many images have no other program that could.
    async fn remove(&self) -> Result<()> {
        let Self {
            tier,
            engine,
            container,
            folder,
        } = self;
        let client = &engine.client;
        let refused = |error| engine_error(*tier, Operation::Adopt, error);
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            cmd: Some(vec![self.path(), "remove".into(), folder.clone()]),
            user: Some(ROOT.to_owned()),
            ..CreateExecOptions::default()
        };
        let execution = client.create_exec(container, options).await;
        let execution = execution.map_err(refused)?.id;
        let started = client
            .start_exec(&execution, None::<StartExecOptions>)
            .await;
        if let StartExecResults::Attached { mut output, .. } = started.map_err(refused)? {
            // The output ends with the process.
            while output.next().await.is_some() {}
        }
        let ended = client.inspect_exec(&execution).await.map_err(refused)?;
        if ended.exit_code == Some(0) {
            return Ok(());
        }
        let context = format!("{folder} could not be removed from container {container}");
        Err(Error::new(ErrorKind::Io, "adopt container", context)
            .on(*tier)
            .with_fix(format!(
                "{} exec --user 0 {container} rm -r {folder}",
                tier.family.command
            )))
    }
}
