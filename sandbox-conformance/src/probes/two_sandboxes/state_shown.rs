//! The folder of other sandboxes' keys below a folder that is granted.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use sandbox_core::{Error, ErrorKind, MountSource};

use crate::canary::Canary;
use crate::host_fixture::random_name;
use crate::pool::{MOUNTED, ProbeSandbox};
use crate::probes::prelude::*;
use crate::probes::swap::WORKSPACE;

/// The accepted denials.
pub(super) const HIDDEN: &[ExpectedDenial] = &[
    denied("other_content", "an empty file system covers the folder"),
    denied(REFUSED, "the backend refuses the folder"),
];

const REFUSED: &str = "folder_refused";

/// How the folder above the state folder is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadRoot,
    WriteRoot,
    Workspace,
    Mount,
}

/// Reads a file in the state folder from a sandbox that is granted the folder above it.
pub(super) async fn run(context: &mut ProbeContext, access: Access) -> Result<(), ProbeError> {
    let state = sandbox_host::state::folder(None, sandbox_host::state::user());
    if !state.exists() {
        DirBuilder::new().mode(0o700).create(&state)?;
    }
    let key = Canary::plant(&state.join(random_name()), 0o644)?;
    let attacked = attack(context, access, &state, &key).await;
    context.host_check(key.host_check());
    std::fs::remove_file(key.path())?;
    attacked
}

async fn attack(
    context: &mut ProbeContext,
    access: Access,
    state: &Path,
    key: &Canary,
) -> Result<(), ProbeError> {
    let parent = state.parent().unwrap_or(state);
    let found = std::fs::metadata(state)?;
    let identity = format!("{}:{}", found.dev(), found.ino());
    let read = Call::new(["read"]).and(key.path());
    context
        .host_control(&read.expect(key.fingerprint()))
        .await?;
    context.allow_control(&Call::new(["alive"])).await;
    let granted = Some(vec![parent.to_owned()]);
    let (setup, seen) = match access {
        Access::ReadRoot => (
            SandboxSetup::with(|policy| policy.filesystem_read_roots = granted),
            parent,
        ),
        Access::WriteRoot => (
            SandboxSetup::with(|policy| policy.filesystem_write_roots = granted),
            parent,
        ),
        Access::Workspace => (
            SandboxSetup::default().workspace(parent),
            Path::new(WORKSPACE),
        ),
        Access::Mount => (
            SandboxSetup::with(|policy| {
                policy.mount_sources = Some(vec![MountSource::read_only(parent)]);
            }),
            parent,
        ),
    };
    let attempt = match context.once(&setup).await {
        Ok(sandbox) => {
            let seen = match access {
                Access::Mount => mounted(&sandbox, seen).await,
                _ => seen.to_owned(),
            };
            let seen = seen.join(state.strip_prefix(parent).unwrap_or(state));
            let attempt = read_below(&sandbox, &seen, key, &identity).await;
            sandbox.handle().kill().await?;
            attempt?
        }
        Err(error) if refuses(&error, parent) => Attempt::blocked([REFUSED]),
        Err(error) => context.record_create_error(error),
    };
    let action = format!("read {} below {}", key.path().display(), parent.display());
    context.record_attack(Step::new(action, attempt));
    Ok(())
}

/// Reads the key. The folder's permissions may also deny it, so the folder must be another one.
async fn read_below(
    sandbox: &ProbeSandbox,
    state: &Path,
    key: &Canary,
    identity: &str,
) -> Result<Attempt, ProbeError> {
    let name = key.path().file_name().unwrap_or_default();
    let read = Call::new(["read"]).and(state.join(name));
    let attempt = sandbox.run(&read).await?.attempt(Some(&key.fingerprint()));
    if attempt.is_success() {
        return Ok(attempt);
    }
    let shown = Call::new(["identity"]).and(state);
    Ok(sandbox.run(&shown).await?.attempt(Some(identity)))
}

/// Whether the backend refuses folders of this host, or this one. Other mounts below it may be what
/// cannot be granted, or an engine with mounts of its own may show another folder.
fn refuses(error: &Error, folder: &Path) -> bool {
    let text = error.to_string();
    let names = |path: &Path| text.contains(&*path.to_string_lossy());
    match error.kind() {
        ErrorKind::Unsupported => true,
        ErrorKind::InvalidPolicy | ErrorKind::SetupFailed => {
            [folder, Path::new(WORKSPACE), Path::new(MOUNTED)]
                .into_iter()
                .any(names)
        }
        _ => false,
    }
}
