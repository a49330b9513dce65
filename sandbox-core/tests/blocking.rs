//! The client and handles that block.

mod common;

use std::path::Path;
use std::sync::Arc;

use sandbox_core::blocking::BlockingClient;
use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::spi::Backend;
use sandbox_core::{
    ByteSize, CapabilityPolicy, ErrorKind, ExecRequest, OneShot, SandboxClient, SandboxSpec, Stdin,
};

use common::faulty::{Fault, Faulty};

fn client(backend: &Faulty) -> BlockingClient {
    let policy = CapabilityPolicy::new()
        .artifact_export_path("/output/*")
        .artifact_export_path("/missing");
    BlockingClient::new(backend.client(policy)).unwrap()
}

#[test]
fn handle_runs_programs_and_moves_files_without_a_runtime() {
    let backend = Faulty::new(Fault::Exports);
    let sandbox = client(&backend).create(&SandboxSpec::new("test")).unwrap();
    assert_eq!(sandbox.name(), "test");
    let request = ExecRequest::new("x");
    assert!(sandbox.exec(&request).unwrap().success());
    assert!(sandbox.shell("x").unwrap().check().is_ok());
    let mut length = 0;
    let run = sandbox.exec_with(&request, Stdin::Null, |_, bytes| length += bytes.len());
    assert_eq!(run.unwrap().stdout.bytes.len(), length);

    sandbox.write("/file", "content").unwrap();
    assert_eq!(sandbox.read("/file").unwrap(), b"644 content");
    assert_eq!(sandbox.read_to_string("/file").unwrap(), "644 content");
    let error = sandbox
        .read_limited("/file", ByteSize::bytes(1))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Path);
    let export = sandbox.export("/results").unwrap();
    assert_eq!(export.artifacts[0].path, Path::new("/results/report.txt"));
    sandbox.kill().unwrap();
    assert_eq!(backend.counts(), (1, 1));
}

#[test]
fn client_runs_one_shot_programs() {
    let shell = Faulty::new(Fault::Exports);
    let python = Faulty::new(Fault::Exports);
    let options = || OneShot::default().export_to("/results");
    let result = client(&shell).run_shell("x", options()).unwrap();
    assert_eq!((result.success(), shell.counts()), (true, (1, 1)));
    let client = client(&python);
    let result = client.run_python("x", options()).unwrap();
    assert_eq!((result.success(), python.counts()), (true, (1, 1)));
    client.settle();
}

#[test]
fn client_lists_the_sandboxes_of_other_clients() {
    let backend: Arc<dyn Backend> = Arc::new(FakeBackend::new(|_| Ok(FakeAnswer::stdout(""))));
    let client = || {
        let backend = Arc::clone(&backend);
        let client = SandboxClient::with_backend(backend, CapabilityPolicy::new()).unwrap();
        BlockingClient::new(client).unwrap()
    };
    let (creator, other) = (client(), client());
    let _sandbox = creator.create(&SandboxSpec::new("theirs")).unwrap();
    assert_eq!(other.list().unwrap(), []);
    let all = other.list_all().unwrap();
    assert_eq!((all.len(), all[0].name.as_str()), (1, "theirs"));
}

#[test]
fn handle_outlives_its_client() {
    let backend = Faulty::default();
    let client = BlockingClient::new(backend.client(CapabilityPolicy::new())).unwrap();
    let sandbox = client.create(&SandboxSpec::new("test")).unwrap();
    drop(client);
    assert!(sandbox.shell("x").unwrap().success());
}

#[test]
fn blocking_in_async_code_panics_with_the_cause() {
    let backend = Faulty::default();
    let client = BlockingClient::new(backend.client(CapabilityPolicy::new())).unwrap();
    let blocked = std::panic::AssertUnwindSafe(|| {
        common::block_on(async { drop(client.create(&SandboxSpec::new("test"))) });
    });
    let panic = std::panic::catch_unwind(blocked).unwrap_err();
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap();
    assert!(message.contains("from within a runtime"), "{message}");
}
