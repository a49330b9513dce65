//! The workspace is copied back from an agent that sends forged lists.

mod fake;

use std::path::Path;

use fake::{FakeAgent, sandbox};
use sandbox_agent::protocol::{
    Builtin, ExecProgram, ExecRequest, ExitKind, FrameKind, MessageWriter,
};
use sandbox_core::spi::Instance;
use sandbox_core::{ByteSize, HostChange, SkipReason, Workspace};

/// Names outside of the workspace.
const OUTSIDE: [&str; 8] = [
    "/workspace/../evil",
    "/workspace/a/../../evil",
    "/etc/evil",
    "/workspacex/evil",
    "/workspace//evil",
    "/workspace/./evil",
    "evil",
    "",
];

/// An agent that lists forged names, and sends the same content for each.
async fn forging_agent(mut agent: FakeAgent) {
    while let Some((stream, kind, payload)) = agent.next().await {
        if kind == FrameKind::Ping {
            agent.frame(0, FrameKind::Pong, &payload).await;
        }
        if kind != FrameKind::Exec {
            continue;
        }
        let request = ExecRequest::decode(&payload).expect("a request");
        let response = match request.program {
            ExecProgram::Builtin(Builtin::List { depth: 0, .. }) => list(&[(b'd', "/workspace")]),
            ExecProgram::Builtin(Builtin::List { .. }) => {
                let mut entries = vec![(b'd', "/workspace"), (b'f', "/workspace/good")];
                entries.push((b'f', "/workspace/there"));
                entries.push((b'f', "/workspace/link/x"));
                entries.push((b'd', "/workspace/folder"));
                // The same name as a file and as a folder.
                entries.push((b'f', "/workspace/folder"));
                entries.extend(OUTSIDE.map(|name| (b'f', name)));
                entries.extend(OUTSIDE.map(|name| (b'd', name)));
                list(&entries)
            }
            ExecProgram::Builtin(Builtin::Get { .. }) => b"evil".to_vec(),
            _ => Vec::new(),
        };
        agent.frame(stream, FrameKind::Stdout, &response).await;
        agent.exit(stream, ExitKind::Exited(0)).await;
    }
}

fn list(entries: &[(u8, &str)]) -> Vec<u8> {
    let mut records = MessageWriter::new();
    for (kind, name) in entries {
        let record = records.u8(*kind).u32(0o777).u64(4);
        record.u64(4).u64(7).bytes(name.as_bytes());
    }
    records.finish()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn workspace_sync_stays_in_folder_and_keeps_conflicts() {
    let outer = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let folder = outer.path().join("work");
    std::fs::create_dir(&folder).unwrap();
    let (mut instance, _destroyed) = sandbox(forging_agent).await;
    let workspace = Workspace::read_write(&folder);
    let size = ByteSize::mib(1);
    instance.bring_workspace(&workspace, size).await.unwrap();
    std::fs::write(folder.join("there"), "host").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.join("link")).unwrap();

    let synced = instance.sync().await.unwrap().unwrap();
    assert_eq!(names(outer.path()), ["work"]);
    assert_eq!(names(&folder), ["folder", "good", "link", "there"]);
    assert_eq!(names(outside.path()), [""; 0]);
    assert_eq!(std::fs::read(folder.join("good")).unwrap(), b"evil");
    assert_eq!(std::fs::read(folder.join("there")).unwrap(), b"host");
    assert!(folder.join("folder").is_dir() && names(&folder.join("folder")).is_empty());
    let [conflict] = &synced.conflicts[..] else {
        panic!("{synced:?}");
    };
    assert_eq!(
        (&*conflict.path, conflict.host),
        ("there", HostChange::Appeared)
    );
    let of = |reason: &SkipReason| {
        let skipped = synced.copied.skipped.iter();
        skipped.filter(|skipped| skipped.reason == *reason).count()
    };
    assert_eq!(of(&SkipReason::BadName), 2 * OUTSIDE.len());
    assert_eq!(of(&SkipReason::NameTaken), 2);
}

#[tokio::test]
async fn ended_sandbox_reports_lost_workspace_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut instance, destroyed) = sandbox(|mut agent| async move {
        // The two steps that copy an empty folder into the sandbox, and its list.
        for _ in 0..3 {
            let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
            agent
                .frame(stream, FrameKind::Stdout, &list(&[(b'd', "/workspace")]))
                .await;
            agent.exit(stream, ExitKind::Exited(0)).await;
        }
    })
    .await;
    let workspace = Workspace::read_write(folder.path());
    let size = ByteSize::mib(1);
    instance.bring_workspace(&workspace, size).await.unwrap();
    instance
        .sync()
        .await
        .expect_err("the agent does not answer");
    let error = instance.stop(std::time::Duration::ZERO).await;
    error.expect_err("nothing was brought back");
    assert!(destroyed.count() > 0);
    // Killing a sandbox that is known to have ended is not an error.
    instance.stop(std::time::Duration::ZERO).await.unwrap();
}
