//! Secrets of executions.

use std::path::Path;

use sandbox_core::spi::unique_name;
use sandbox_core::{CapabilityPolicy, ExecEvent, SandboxClient, Stdin};
use sandbox_testing::contract::assert_one_execution_gets_a_secret;

use crate::harness::{Need, Test, test};
use crate::support::{backend, backend_in, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async secret_reaches_one_execution_alone, Need::Namespaces),
    test!(async value_is_on_no_disk_and_in_no_other_process),
];

fn with_secrets() -> CapabilityPolicy {
    policy().secret("TOKEN").secret("KEY")
}

async fn secret_reaches_one_execution_alone() {
    let client = SandboxClient::with_backend(backend(), with_secrets()).expect("a client");
    assert_one_execution_gets_a_secret(&client, spec())
        .await
        .expect("a sandbox");
}

async fn value_is_on_no_disk_and_in_no_other_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let backend = backend_in(&state);
    let client = SandboxClient::with_backend(backend, with_secrets()).expect("a client");
    let canary = unique_name("canary");
    let detached = spec().secret("TOKEN").detached(true);
    let sandbox = client.create(&detached).await.expect("created");
    let request = sh("echo ready; read wait").secret("TOKEN", canary.as_str());
    let mut execution = sandbox
        .start(&request, Stdin::Piped)
        .await
        .expect("it runs");
    while let Some(event) = execution.next_event().await.expect("an event") {
        if let ExecEvent::Stdout(_) = event {
            break;
        }
    }
    let holders = processes_with(&canary);
    // The control: the program itself has it.
    assert_eq!(holders, ["sh"]);
    // The control: the sandbox's record is there.
    assert!(!files_with(&state, sandbox.name()).is_empty());
    let files = files_with(&state, &canary);
    assert!(files.is_empty(), "{files:?}");
    let logs = sandbox.logs(None).await.expect("a log");
    assert_eq!(logs, b"ready\n");
    execution.kill().await;
    sandbox.kill().await.expect("ended");
}

/// The names of processes with `text` among their arguments or variables.
fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let path = process.path();
        let has = |file: &str| {
            // A process that has ended, or of another user, is not one of these.
            let content = std::fs::read(path.join(file)).unwrap_or_default();
            content
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        if has("cmdline") || has("environ") {
            let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
            found.push(name.trim().to_owned());
        }
    }
    found
}

/// The files below a folder that contain `text`.
fn files_with(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if kind.is_file() {
            let content = std::fs::read(entry.path()).expect("a file");
            if content
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                found.push(entry.path());
            }
        }
    }
    found
}
