//! The ways in which a sandbox uses a host path, and how each shows where the path leads.

use std::path::Path;

use sandbox_core::ErrorKind;
use sandbox_core::spi::unique_name;

use super::procedures::found_below;
use super::swap::{PathUse, WORKSPACE, landed, read_at, refusal, write_at};
use super::swap_fixture::{DATA, FILE, INNER, PathDestination};
use crate::evidence::Attempt;
use crate::host_fixture::make_folder;
use crate::pool::ProbeSandbox;
use crate::probe::SandboxSetup;
use crate::program::Call;

/// As a read root.
pub const READ_ROOT: PathUse = PathUse {
    below: "",
    setup: |path| {
        SandboxSetup::with(|policy| policy.filesystem_read_roots = Some(vec![path.into()]))
    },
    same_policy: false,
    follow_links: false,
    at_creation: true,
    on_host: read_on_host,
    act: |sandbox, destination| Box::pin(read_at(sandbox, &destination.path, destination)),
};

/// As a write root.
pub const WRITE_ROOT: PathUse = PathUse {
    below: "",
    setup: |path| {
        SandboxSetup::with(|policy| policy.filesystem_write_roots = Some(vec![path.into()]))
    },
    same_policy: false,
    follow_links: false,
    at_creation: true,
    on_host: write_on_host,
    act: |sandbox, destination| Box::pin(write_at(sandbox, &destination.path, destination)),
};

/// As a workspace.
pub const FOLDER: PathUse = PathUse {
    below: "",
    setup: |path| SandboxSetup::default().workspace(path),
    same_policy: false,
    follow_links: false,
    at_creation: true,
    on_host: write_on_host,
    act: |sandbox, destination| Box::pin(write_at(sandbox, Path::new(WORKSPACE), destination)),
};

/// As the folder for exported artifacts.
pub const OUTPUT: PathUse = PathUse {
    below: "",
    setup: |_| {
        SandboxSetup::with(|policy| policy.artifact_export_paths = vec![format!("{EXPORT}/*.txt")])
    },
    same_policy: false,
    follow_links: false,
    at_creation: false,
    on_host: write_on_host,
    act: |sandbox, destination| Box::pin(export(sandbox, destination)),
};

/// As the source of a copy into the sandbox.
pub const COPY: PathUse = PathUse {
    below: "",
    setup: |_| SandboxSetup::default(),
    same_policy: false,
    follow_links: false,
    at_creation: false,
    on_host: read_on_host,
    act: |sandbox, destination| Box::pin(copy(sandbox, destination)),
};

/// As the content of an export path inside the sandbox.
pub const EXPORT_PATH: PathUse = PathUse {
    below: "",
    setup: |_| {
        let path = format!("{WORKSPACE}/{DATA}/*");
        SandboxSetup::with(|policy| policy.artifact_export_paths = vec![path])
    },
    same_policy: true,
    follow_links: false,
    at_creation: true,
    on_host: read_on_host,
    act: |sandbox, destination| Box::pin(export_out_of(sandbox, destination)),
};

/// The same use of a folder below the swapped one.
#[must_use]
pub const fn inner(used: PathUse) -> PathUse {
    PathUse {
        below: INNER,
        ..used
    }
}

/// The same use, with a first run under the same policy.
#[must_use]
pub const fn same_policy(used: PathUse) -> PathUse {
    PathUse {
        same_policy: true,
        ..used
    }
}

/// The same use, with a policy that lets links leave their folder where code cannot write.
#[must_use]
pub const fn following(used: PathUse) -> PathUse {
    PathUse {
        follow_links: true,
        ..used
    }
}

/// The folder inside from which artifacts are exported.
const EXPORT: &str = "/tmp/conformance-swap";

fn read_on_host(destination: &PathDestination<'_>) -> Call {
    let call = Call::new(["read"]).and(destination.path.join(FILE));
    call.expect(destination.file.fingerprint())
}

/// Reading an existing file shows that the folder is the right one.
fn write_on_host(destination: &PathDestination<'_>) -> Call {
    read_on_host(destination)
}

async fn export(sandbox: &ProbeSandbox, destination: &PathDestination<'_>) -> Attempt {
    let name = format!("{}.txt", unique_name("exported"));
    let made = Call::new(["make", &format!("{EXPORT}/{name}"), "0", "9"]);
    match sandbox.run(&made).await.map(|run| run.attempt(None)) {
        Ok(Attempt::Succeeded { .. }) => {}
        other => return Attempt::unclear(format!("{other:?}")),
    }
    let exported = sandbox.handle().export(&destination.path).await;
    // Otherwise the next export has it, too.
    match sandbox.handle().remove(&format!("{EXPORT}/{name}")).await {
        Err(error) if error.kind() != ErrorKind::Unsupported => {
            return Attempt::unclear(error.to_string());
        }
        _ => {}
    }
    match exported {
        Ok(_) => landed(Attempt::succeeded(), &destination.folder.join(name)),
        Err(error) => refusal(&error, &destination.path),
    }
}

async fn export_out_of(sandbox: &ProbeSandbox, destination: &PathDestination<'_>) -> Attempt {
    let output = destination.folder.with_file_name(unique_name("output"));
    if let Err(error) = make_folder(&output) {
        return Attempt::unclear(error.to_string());
    }
    if let Err(error) = sandbox.handle().export(&output).await {
        return refusal(&error, &destination.path);
    }
    let exported = found_below(&output, FILE).and_then(|file| std::fs::read(file).ok());
    let leaked = exported.is_some_and(|content| content == destination.file.content());
    Attempt::leak_if(leaked, "other_content")
}

async fn copy(sandbox: &ProbeSandbox, destination: &PathDestination<'_>) -> Attempt {
    let copy = format!("/tmp/{}", unique_name("copy"));
    let source = destination.path.join(FILE);
    if let Err(error) = sandbox.handle().copy_in(&source, &copy).await {
        return refusal(&error, &destination.path);
    }
    match sandbox.handle().read(&copy).await {
        Ok(content) => Attempt::leak_if(content == destination.file.content(), "other_content"),
        Err(error) => Attempt::unclear(error.to_string()),
    }
}
