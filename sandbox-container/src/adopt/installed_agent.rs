//! The agent's program in a foreign container, while the agent starts.

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::UploadToContainerOptions;
use bollard::{Docker, body_full};
use futures_util::StreamExt;
use sandbox_core::{Error, ErrorKind, Result, unique_name};

use super::ForeignContainer;
use crate::Tier;
use crate::background_removal;
use crate::engine::Engine;
use crate::error::{Operation, engine_error};

/// The container's root, which owns the folder.
const ROOT: &str = "0:0";

/// The agent's program in a foreign container. Removed by [`InstalledAgent::remove`], or in the
/// background on drop.
#[derive(Debug)]
pub(super) struct InstalledAgent {
    tier: Tier,
    engine: Engine,
    container: String,
    /// `None` once removed.
    folder: Option<String>,
}

impl InstalledAgent {
    /// Uploads the program into a new folder at the container's root, with an unpredictable name.
    pub(super) async fn install(
        tier: Tier,
        engine: &Engine,
        target: &ForeignContainer,
        program: &[u8],
    ) -> Result<Self> {
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
        let installed = Self {
            tier,
            engine: engine.clone(),
            container: target.id.clone(),
            folder: Some(format!("/{name}")),
        };
        let pending = background_removal::track();
        // A separate task: if this future is dropped, the engine may still unpack the upload. The
        // task waits for that and then removes the program.
        let upload = tokio::spawn(async move {
            let client = &installed.engine.client;
            let content = body_full(archive.into());
            let uploaded = client.upload_to_container(&installed.container, Some(options), content);
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
    pub(super) fn program(&self) -> String {
        format!("{}/agent", self.folder.as_deref().unwrap_or_default())
    }

    /// Removes the program. A running agent continues.
    pub(super) async fn remove(mut self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let removed = remove(self.tier, &self.engine.client, &self.container, folder).await;
        // Drop retries only a removal that was interrupted.
        self.folder = None;
        removed
    }
}

impl Drop for InstalledAgent {
    fn drop(&mut self) {
        let Some(folder) = self.folder.take() else {
            return;
        };
        let (tier, engine, container) = (self.tier, self.engine.clone(), self.container.clone());
        let (what, place) = (folder.clone(), container.clone());
        let started = background_removal::spawn_cleanup(async move {
            if let Err(error) = remove(tier, &engine.client, &container, &folder).await {
                tracing::error!(%tier, container, %error, "cannot remove the agent's program from a container");
            }
        });
        if !started {
            tracing::error!(%tier, container = place, folder = what, "cannot start a thread to remove the agent from a container");
        }
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

/// Runs the program as root to remove itself: many images have no other program that could.
async fn remove(tier: Tier, client: &Docker, container: &str, folder: &str) -> Result<()> {
    let refused = |error| engine_error(tier, Operation::Adopt, error);
    let options = CreateExecOptions {
        attach_stdout: Some(true),
        cmd: Some(vec![
            format!("{folder}/agent"),
            "remove".into(),
            folder.to_owned(),
        ]),
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
        .on(tier)
        .with_fix(format!(
            "{} exec --user 0 {container} rm -r {folder}",
            tier.family.command
        )))
}
