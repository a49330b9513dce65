//! Copies that must be refused, and what they leave alone.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use sandbox_core::{Copied, ErrorKind, ExecRequest, SandboxHandle};

use crate::probes::prelude::*;

/// A FIFO that is opened would wait forever.
const ANSWER: Duration = Duration::from_secs(5);

/// Sources that are not copied, and the kind of error for such a source on the host.
const SOURCES: [(&str, ErrorKind); 6] = [
    ("missing", ErrorKind::Io),
    ("file/below", ErrorKind::Io),
    ("link", ErrorKind::Path),
    ("folder-link", ErrorKind::Path),
    ("fifo", ErrorKind::Path),
    ("file/.", ErrorKind::Path),
];

const MAKE: &str =
    "set -e; mkdir -p \"$0/folder/sub\" \"$0/d/s\" \"$0/d/empty\"; cd \"$0\"; printf file > file
    ln -s file link; ln -s folder folder-link; mkfifo fifo; printf x > d/x; printf y > d/s/y";

/// Makes something in a folder's way.
type Obstacle = fn(&Path, &Path) -> std::io::Result<()>;

/// Targets on the host with something in the way of the folder `d`, and whether the copy succeeds.
const OBSTACLES: [(&str, Obstacle, bool); 7] = [
    (
        "a file for an empty folder",
        |target, _| std::fs::write(target.join("empty"), "own"),
        false,
    ),
    (
        "a file for a folder",
        |target, _| std::fs::write(target.join("s"), "own"),
        false,
    ),
    (
        "a link for a folder",
        |target, other| symlink(other, target.join("s")),
        false,
    ),
    (
        "a broken link for a folder",
        |target, _| symlink("nothing", target.join("s")),
        false,
    ),
    (
        "a folder for a file",
        |target, _| std::fs::create_dir_all(target.join("x/own")),
        false,
    ),
    (
        "a link for a file",
        |target, other| symlink(other.join("own"), target.join("x")),
        true,
    ),
    ("nothing", |_, _| Ok(()), true),
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let host = context.outside()?;
    let other = host.join("other");
    std::fs::create_dir_all(&other)?;
    std::fs::write(other.join("own"), "own")?;
    let source = host.join("source");
    let made = std::process::Command::new("sh")
        .args(["-c", MAKE])
        .arg(&source)
        .status()?;
    if !made.success() {
        return Err(ProbeError::new("cannot make the files to copy"));
    }
    let mut targets = Vec::new();
    for (number, (what, obstacle, succeeds)) in OBSTACLES.into_iter().enumerate() {
        let target = host.join(number.to_string());
        std::fs::create_dir_all(&target)?;
        obstacle(&target, &other)?;
        targets.push((what, target, succeeds));
    }
    let inside = context.inside("copies");
    feature(context, "copy what must not be copied", async |sandbox| {
        let sandbox = sandbox.handle();
        let made = sandbox.exec(&ExecRequest::shell(MAKE).arg(&inside)).await?;
        if !made.success() {
            return Ok(Some(made.output().to_string()));
        }
        if let Some(deviation) = sources(sandbox, &source, &inside).await? {
            return Ok(Some(deviation));
        }
        for (what, target, succeeds) in &targets {
            let copied = sandbox.copy_out(&format!("{inside}/d/."), target).await;
            let right = match &copied {
                Ok(copied) => *succeeds && copied.files == 2,
                Err(error) => !succeeds && error.kind() == ErrorKind::Io,
            };
            if !right {
                return Ok(Some(format!("{what}: {copied:?}")));
            }
        }
        Ok(None)
    })
    .await;
    let names = crate::probes::artifacts::below(&other);
    let own = std::fs::read_to_string(other.join("own"));
    let unchanged = names.len() == 1 && own.is_ok_and(|own| own == "own");
    context.check_host("a folder that links in the target lead to", unchanged);
    Ok(())
}

/// Each source is refused in both directions, at once, and makes nothing.
async fn sources(sandbox: &SandboxHandle, source: &Path, inside: &str) -> Deviation {
    for (name, on_host) in SOURCES {
        let outer = source.join("copied");
        let inner = format!("{inside}/copied");
        let from = format!("{}/{name}", source.display());
        let way_in = tokio::time::timeout(ANSWER, sandbox.copy_in(&from, &inner)).await;
        let from = format!("{inside}/{name}");
        let way_out = tokio::time::timeout(ANSWER, sandbox.copy_out(&from, &outer)).await;
        for (copied, kind) in [(way_in, on_host), (way_out, ErrorKind::Path)] {
            if let Some(deviation) = accepted(copied, kind) {
                return Ok(Some(format!("{name}: {deviation}")));
            }
        }
        if outer.exists() || sandbox.exists(&inner).await? {
            return Ok(Some(format!("{name}: a copy was made")));
        }
    }
    Ok(None)
}

fn accepted(
    copied: Result<sandbox_core::Result<Copied>, tokio::time::error::Elapsed>,
    kind: ErrorKind,
) -> Option<String> {
    match copied {
        Ok(Err(error)) if error.kind() == kind => None,
        Ok(other) => Some(format!("{other:?}")),
        Err(_) => Some(format!("no answer within {ANSWER:?}")),
    }
}
