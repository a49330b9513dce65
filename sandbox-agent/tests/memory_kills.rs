//! Out-of-memory kills count for the executions during which they happen. In these tests the
//! executions write the counter file themselves. Tests with control groups check the kernel's
//! counter.

mod common;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use common::{FirstClient, script, settings};
use sandbox_agent::protocol::{AgentSettings, ExitKind, FrameKind};

fn counting(files: &[PathBuf]) -> AgentSettings {
    let paths = files.iter().map(|file| file.to_str().unwrap().into());
    AgentSettings {
        kill_count_files: paths.collect(),
        ..settings()
    }
}

/// A script that sets the counter and exits with 0.
fn kill(file: &Path, count: u64) -> String {
    format!(
        "printf 'under_oom 0\\noom_kill {count}\\n' > {}",
        file.display()
    )
}

#[test]
fn kill_counts_for_the_execution_during_which_it_happened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    // Kills before the sandbox or before an execution do not count.
    std::fs::write(&file, "oom_kill 7\n").unwrap();
    let nothing = folder.path().join("nothing");
    std::fs::write(&nothing, "oom 5\n").unwrap();
    let files = [folder.path().join("missing"), nothing, file.clone()];
    let mut client = FirstClient::start(&counting(&files));
    let mut kills = |text: &str| client.run(&script(text)).report().memory_kills;
    // The same for a pre-forked execution.
    for round in 0..4 {
        assert_eq!(kills("exit 0"), Some(0), "round {round}");
        assert_eq!(kills(&kill(&file, 9 + 2 * round)), Some(2), "round {round}");
        assert_eq!(kills("kill -9 $$"), Some(0), "round {round}");
    }
}

#[test]
fn kill_counts_for_every_concurrent_execution() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    std::fs::write(&file, "oom_kill 0\n").unwrap();
    let mut client = FirstClient::start(&counting(std::slice::from_ref(&file)));
    let long = client.exec(&script("echo up; exec sleep 100"));
    assert_eq!(client.wait(long).kind, FrameKind::Started);
    assert_eq!(client.wait(long).bytes, b"up\n");
    let mut kills = |text: &str| client.run(&script(text)).report().memory_kills;
    assert_eq!(kills(&kill(&file, 1)), Some(1));
    assert_eq!(kills("kill -9 $$"), Some(0), "it began after it");
    client.send(long, FrameKind::Kill, &[]);
    let report = client.wait_end(long);
    assert_eq!(
        (report.kind, report.memory_kills),
        (ExitKind::Killed, Some(1))
    );
}

#[test]
fn missing_counter_is_reported_as_unknown() {
    let mut client = FirstClient::start(&settings());
    assert_eq!(client.run(&script("exit 0")).report().memory_kills, None);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    let fifo = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    std::fs::write(&file, "oom_kill 0\n").unwrap();
    // The FIFO has no writer.
    let mut client = FirstClient::start(&counting(&[fifo, file.clone()]));
    let gone = format!("true > {}", file.display());
    assert_eq!(client.run(&script(&gone)).report().memory_kills, None);
    // A counter that has decreased is unknown too.
    assert_eq!(
        client.run(&script(&kill(&file, 5))).report().memory_kills,
        None
    );
    assert_eq!(
        client.run(&script(&kill(&file, 4))).report().memory_kills,
        None
    );
    assert_eq!(client.run(&script("exit 0")).report().memory_kills, Some(0));
}
