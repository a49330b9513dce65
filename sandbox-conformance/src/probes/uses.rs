//! What a sandbox may be given of the host, and what shows where it leads.

use std::path::Path;

use sandbox_core::{ArtifactLimits, unique_name};

use super::scene::{DATA, FILE, Goal, INNER};
use super::shapes::found_below;
use super::swap::{Use, WORKSPACE, landed, read_at, refusal, write_at};
use crate::evidence::Attempt;
use crate::grounds::make_folder;
use crate::pool::Sandbox;
use crate::probe::Setting;
use crate::program::Call;

/// A read root.
pub const READ_ROOT: Use = Use {
    below: "",
    setting: |path| Setting::with(|policy| policy.filesystem_read_roots = Some(vec![path.into()])),
    same_policy: false,
    on_host: read_on_host,
    act: |sandbox, goal| Box::pin(read_at(sandbox, &goal.path, goal)),
};

/// A write root.
pub const WRITE_ROOT: Use = Use {
    below: "",
    setting: |path| Setting::with(|policy| policy.filesystem_write_roots = Some(vec![path.into()])),
    same_policy: false,
    on_host: write_on_host,
    act: |sandbox, goal| Box::pin(write_at(sandbox, &goal.path, goal)),
};

/// A workspace.
pub const FOLDER: Use = Use {
    below: "",
    setting: |path| Setting::default().workspace(path),
    same_policy: false,
    on_host: write_on_host,
    act: |sandbox, goal| Box::pin(write_at(sandbox, Path::new(WORKSPACE), goal)),
};

/// A folder into which artifacts come.
pub const OUTPUT: Use = Use {
    below: "",
    setting: |_| {
        Setting::with(|policy| policy.artifact_export_paths = vec![format!("{EXPORT}/*.txt")])
    },
    same_policy: false,
    on_host: write_on_host,
    act: |sandbox, goal| Box::pin(export(sandbox, goal)),
};

/// A file that is copied into the sandbox.
pub const COPY: Use = Use {
    below: "",
    setting: |_| Setting::default(),
    same_policy: false,
    on_host: read_on_host,
    act: |sandbox, goal| Box::pin(copy(sandbox, goal)),
};

/// A path inside of the sandbox out of which artifacts come.
pub const EXPORT_PATH: Use = Use {
    below: "",
    setting: |_| {
        let path = format!("{WORKSPACE}/{DATA}/*");
        Setting::with(|policy| policy.artifact_export_paths = vec![path])
    },
    same_policy: true,
    on_host: read_on_host,
    act: |sandbox, goal| Box::pin(export_out_of(sandbox, goal)),
};

/// The same use of a folder below the one that changes.
#[must_use]
pub const fn inner(used: Use) -> Use {
    Use {
        below: INNER,
        ..used
    }
}

/// The same use where the first run is under the same policy.
#[must_use]
pub const fn same_policy(used: Use) -> Use {
    Use {
        same_policy: true,
        ..used
    }
}

/// Where code leaves artifacts.
const EXPORT: &str = "/tmp/conformance-swap";

fn read_on_host(goal: &Goal<'_>) -> Call {
    let call = Call::new(["read"]).and(goal.path.join(FILE));
    call.expect(goal.file.fingerprint())
}

/// A file that is there already says that the folder is the right one.
fn write_on_host(goal: &Goal<'_>) -> Call {
    read_on_host(goal)
}

async fn export(sandbox: &Sandbox, goal: &Goal<'_>) -> Attempt {
    let name = format!("{}.txt", unique_name("exported"));
    let made = Call::new(["make", &format!("{EXPORT}/{name}"), "0", "9"]);
    match sandbox.run(&made).await.map(|run| run.attempt(None)) {
        Ok(Attempt::Succeeded { .. }) => {}
        other => return Attempt::unclear(format!("{other:?}")),
    }
    let exported = sandbox
        .handle()
        .export(&goal.path, ArtifactLimits::default());
    match exported.await {
        Ok(_) => landed(Attempt::succeeded(), &goal.folder.join(name)),
        Err(error) => refusal(&error, &goal.path),
    }
}

async fn export_out_of(sandbox: &Sandbox, goal: &Goal<'_>) -> Attempt {
    let output = goal.folder.with_file_name(unique_name("output"));
    if let Err(trouble) = make_folder(&output) {
        return Attempt::unclear(trouble.to_string());
    }
    let limits = ArtifactLimits::default();
    if let Err(error) = sandbox.handle().export(&output, limits).await {
        return refusal(&error, &goal.path);
    }
    let exported = found_below(&output, FILE).and_then(|file| std::fs::read(file).ok());
    let leaked = exported.is_some_and(|content| content == goal.file.content());
    Attempt::leak_if(leaked, "other_content")
}

async fn copy(sandbox: &Sandbox, goal: &Goal<'_>) -> Attempt {
    let copy = format!("/tmp/{}", unique_name("copy"));
    let source = goal.path.join(FILE);
    if let Err(error) = sandbox.handle().copy_in(&source, &copy).await {
        return refusal(&error, &goal.path);
    }
    match sandbox.handle().fetch(&copy, 1 << 20).await {
        Ok(content) => Attempt::leak_if(content == goal.file.content(), "other_content"),
        Err(error) => Attempt::unclear(error.to_string()),
    }
}
