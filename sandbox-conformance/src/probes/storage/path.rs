//! A folder of the host.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_core::spi::unique_name;
use sandbox_core::{
    ErrorKind, ExecRequest, SandboxClient, SandboxHandle, SandboxSpec, Storage, StorageMount,
};

use super::{DATA, KEPT};
use crate::engine_api::EngineApi;
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;

/// A place beside the workspace.
const BESIDE: &str = "/in";

/// Who uses the folder.
struct User {
    client: SandboxClient,
    spec: SandboxSpec,
    folder: PathBuf,
    /// Whether a pod has a copy of it.
    is_copied: bool,
    may_lack_mounts: bool,
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let folder = super::own_folder(context)?;
    let is_copied = context.is_cluster();
    let may_lack_mounts = EngineApi::of(context.tier()).await?.is_none();
    let used = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, spec)) => {
            let mut policy = client.policy().clone();
            policy.storage.insert(DATA.into(), Storage::path(&folder));
            let kept = Storage::path(&folder).read_only();
            policy.storage.insert(KEPT.into(), kept);
            let user = User {
                client: context.client_under(policy)?,
                spec,
                folder,
                is_copied,
                may_lack_mounts,
            };
            flat(Ok(user.uses().await))
        }
    };
    context.record_attack(behavior("use a folder by its name", used));
    context.no_host_effect("the folder is for the sandbox's changes");
    Ok(())
}

impl User {
    fn spec(&self, mounts: &[StorageMount]) -> SandboxSpec {
        let mut spec = self.spec.clone();
        spec.name = unique_name("conformance-storage");
        spec.storage = mounts.to_vec();
        spec
    }

    async fn uses(&self) -> Deviation {
        let writable = StorageMount::read_write(DATA, WORKSPACE);
        let readable = StorageMount::read_only(KEPT, WORKSPACE);
        if !self.is_copied {
            let beside = StorageMount::read_only(KEPT, BESIDE);
            if let Some(wrong) = self
                .writes(&[writable, beside], [WORKSPACE, BESIDE])
                .await?
            {
                return Ok(Some(wrong));
            }
            let beside = StorageMount::read_write(DATA, BESIDE);
            return self.writes(&[readable, beside], [BESIDE, WORKSPACE]).await;
        }
        let beside = self.spec(&[StorageMount::read_only(KEPT, BESIDE)]);
        let kind = self.client.create(&beside).await.map(drop);
        let kind = kind.map_err(|error| error.kind());
        if kind != Err(ErrorKind::Unsupported) {
            return Ok(Some(format!("a copy at {BESIDE}: {kind:?}")));
        }
        for (mount, comes_back) in [(writable, true), (readable, false)] {
            let sandbox = self.client.create(&self.spec(&[mount])).await?;
            let copied = self.copies(&sandbox, comes_back).await;
            sandbox.kill().await?;
            if let Some(wrong) = copied? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    /// Code writes at the first place, and sees that at the second, which is for reading only.
    async fn writes(&self, mounts: &[StorageMount], places: [&str; 2]) -> Deviation {
        let sandbox = match self.client.create(&self.spec(mounts)).await {
            // Without a mount namespace there are no mounts. Containers have one.
            Err(error) if error.kind() == ErrorKind::Unsupported && self.may_lack_mounts => {
                return Ok(None);
            }
            created => created?,
        };
        let script = "rm -f \"$0/own\"; printf own > \"$0/own\" && cat \"$1/own\"
            printf x > \"$1/own\" || rm -f \"$1/own\" || printf x > \"$1/other\" || printf '|'";
        let request = ExecRequest::shell(script).args(places);
        let result = sandbox.exec(&request).await;
        sandbox.kill().await?;
        let text = result?.stdout_text().to_string();
        let owner = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.uid());
        let own = self.folder.join("own");
        let content = std::fs::read_to_string(&own).unwrap_or_default();
        let is_right = text == "own|"
            && content == "own"
            && owner(&own) == owner(&self.folder)
            && !self.folder.join("other").exists();
        Ok((!is_right).then(|| format!("{places:?}: {text:?}, {content:?} of {}", owner(&own))))
    }

    async fn copies(&self, sandbox: &SandboxHandle, comes_back: bool) -> Deviation {
        let name = format!("copied-{comes_back}");
        let request = ExecRequest::shell("printf own > \"/workspace/$0\"").arg(&name);
        let written = sandbox.exec(&request).await?;
        let synced = sandbox.sync().await?;
        let is_there = self.folder.join(&name).exists();
        let is_right = written.success() && synced.is_some() && is_there == comes_back;
        Ok((!is_right).then(|| format!("{name}: {is_there}, {synced:?}")))
    }
}
