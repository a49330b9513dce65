//! What operations on files say about each kind of entry.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use sandbox_core::{ErrorKind, ExecRequest, FileEntry, FileKind, SandboxHandle};

use crate::probes::prelude::*;

const MAKE: &str = "set -e; mkdir -p \"$0/folder/inner\"; cd \"$0\"; printf 12345 > file
    chmod 640 file; chmod 750 folder; ln -s file link; ln -s nothing broken; mkfifo fifo; : > empty
    chmod 600 empty; ln -s folder folder-link; printf x > folder/inner/x";

/// The name and kind of an entry, and the mode and size of a file. Other modes are the system's.
type KnownEntry = (&'static str, FileKind, Option<(u32, u64)>);

/// The entries in the order of a list.
const ENTRIES: [KnownEntry; 7] = [
    ("broken", FileKind::Link, None),
    ("empty", FileKind::File, Some((0o600, 0))),
    ("fifo", FileKind::Special, None),
    ("file", FileKind::File, Some((0o640, 5))),
    ("folder", FileKind::Folder, None),
    ("folder-link", FileKind::Link, None),
    ("link", FileKind::Link, None),
];

/// How far the clocks of two machines may differ.
const CLOCKS: Duration = Duration::from_secs(60);

/// Opening a FIFO would wait forever.
const ANSWER: Duration = Duration::from_secs(5);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let folder = context.inside("entries");
    feature(context, "use each kind of entry", async |sandbox| {
        let sandbox = sandbox.handle();
        let made = sandbox.exec(&ExecRequest::shell(MAKE).arg(&folder)).await?;
        if !made.success() {
            return Ok(Some(made.output().to_string()));
        }
        match listed(sandbox, &folder).await? {
            None => changed(sandbox, &folder).await,
            deviation => Ok(deviation),
        }
    })
    .await;
    context.no_host_effect("files of the sandbox do not affect the host");
    Ok(())
}

/// Reads each entry, alone and in the list.
async fn listed(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    let list = sandbox.list_dir(folder).await?;
    if list.len() != ENTRIES.len() {
        return Ok(Some(format!("{list:?}")));
    }
    for ((name, kind, facts), found) in ENTRIES.into_iter().zip(&list) {
        let path = format!("{folder}/{name}");
        let alone = sandbox.stat(&path).await?;
        let right = alone == *found
            && found.path.as_os_str() == path.as_str()
            && found.kind == kind
            && facts.is_none_or(|facts| (found.mode, found.size) == facts)
            && is_recent(found)
            && sandbox.exists(&path).await?;
        if !right {
            return Ok(Some(format!("{alone:?} alone, {found:?} in the list")));
        }
        let read = tokio::time::timeout(ANSWER, sandbox.read(&path)).await;
        let right = match &read {
            Ok(Ok(_)) => kind == FileKind::File,
            Ok(Err(error)) => kind != FileKind::File && error.kind() == ErrorKind::Path,
            Err(_) => false,
        };
        if !right {
            return Ok(Some(format!("{name} was read: {read:?}")));
        }
        let listed = sandbox.list_dir(&path).await;
        let right = match &listed {
            // A link at the end of a path is not followed.
            Ok(inner) => kind == FileKind::Folder && inner.len() == 1 && inner[0].is_dir(),
            Err(error) => kind != FileKind::Folder && error.kind() == ErrorKind::Path,
        };
        if !right {
            return Ok(Some(format!("{name} was listed: {listed:?}")));
        }
    }
    let missing = format!("{folder}/missing");
    let refused = [
        sandbox.stat(&missing).await.map(drop),
        sandbox.list_dir(&missing).await.map(drop),
        sandbox.read(&missing).await.map(drop),
        sandbox.remove(&missing).await,
        // A link before the end of a path is not followed either.
        sandbox
            .read(&format!("{folder}/folder-link/inner/x"))
            .await
            .map(drop),
        sandbox
            .read_limited(&format!("{folder}/file"), ByteSize::bytes(4))
            .await
            .map(drop),
    ];
    let limited = sandbox
        .read_limited(&format!("{folder}/file"), ByteSize::bytes(5))
        .await?;
    let exists = sandbox.exists(&missing).await?;
    let right = refused.iter().all(is_path_error) && limited == b"12345" && !exists;
    Ok((!right).then(|| format!("{refused:?}; {limited:?}; missing exists: {exists}")))
}

fn is_recent(entry: &FileEntry) -> bool {
    let now = SystemTime::now();
    entry
        .modified
        .is_some_and(|at| at > now - CLOCKS && at < now + CLOCKS)
}

fn is_path_error(result: &sandbox_core::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::Path)
}

/// Makes folders over entries and removes entries.
async fn changed(sandbox: &SandboxHandle, folder: &str) -> Deviation {
    let at = |name: &str| format!("{folder}/{name}");
    for name in ["folder", "folder/inner", "new/in/new"] {
        sandbox.mkdir(&at(name)).await?;
    }
    let refused = [
        sandbox.mkdir(&at("file")).await,
        sandbox.mkdir(&at("broken")).await,
        sandbox.mkdir(&at("file/below")).await,
        sandbox.write(&at("folder"), "over a folder").await,
        sandbox.write(&at("file/below"), "below a file").await,
    ];
    if !refused.iter().all(is_path_error) {
        return Ok(Some(format!("{refused:?}")));
    }
    let made = sandbox.stat(&at("new/in/new")).await?;
    if !made.is_dir() || made.mode != 0o755 {
        return Ok(Some(format!("made {made:?}")));
    }
    for name in ["link", "folder-link", "broken", "fifo", "new"] {
        sandbox.remove(&at(name)).await?;
    }
    // What links led to is still there.
    let left = sandbox.list_dir(folder).await?.into_iter();
    let left: Vec<_> = left.map(|entry| entry.path).collect();
    let right = left == ["empty", "file", "folder"].map(|name| PathBuf::from(at(name)));
    let inner = sandbox.read(&at("folder/inner/x")).await?;
    sandbox.remove(&at("folder")).await?;
    let removed = !sandbox.exists(&at("folder")).await?;
    let right = right && inner == b"x" && removed;
    Ok((!right).then(|| format!("{left:?} is left")))
}
