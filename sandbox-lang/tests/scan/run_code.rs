//! Code that fails the scan is never run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::{CapabilityPolicy, ErrorKind, OneShot, SandboxClient, SandboxSpec};
use sandbox_lang::scan::{Preset, ScanPolicy};
use sandbox_lang::{CodeRequest, RunCode as _, RunCodeOnce as _};

/// A client, and how many programs ran on it.
fn client() -> (SandboxClient, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let ran = count.clone();
    let backend = FakeBackend::new(move |_| {
        ran.fetch_add(1, Ordering::SeqCst);
        Ok(FakeAnswer::stdout("42\n"))
    });
    let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new());
    (client.expect("a client"), count)
}

fn request(code: &str) -> CodeRequest {
    CodeRequest::new("python", code).check(ScanPolicy::new().restrict("os"))
}

#[tokio::test]
async fn code_that_fails_is_not_run_in_a_new_sandbox() {
    let (client, count) = client();
    let result = client
        .run_code(request("x='#';import os"), OneShot::default())
        .await;
    let error = result.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::CodeRefused);
    assert!(
        error.context().contains("run-code.py:1:14: high"),
        "{error}"
    );
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert!(client.list().await.expect("a list").is_empty());
}

#[tokio::test]
async fn code_that_fails_is_not_run_in_a_running_sandbox() {
    let (client, count) = client();
    let sandbox = client
        .create(&SandboxSpec::new("scan"))
        .await
        .expect("created");
    let module = request("import helper").module("helper.py", "import os");
    for refused in [request("import os"), module] {
        let result = sandbox.run_code(refused).await;
        assert_eq!(result.expect_err("refused").kind(), ErrorKind::CodeRefused);
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    // This backend has no files, so code that passes the check fails there.
    let passed = sandbox.run_code(request("print(6 * 7)")).await;
    assert_eq!(passed.expect_err("no files").kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn every_check_must_pass() {
    let (client, _) = client();
    let request = request("print(eval('1'))").check(Preset::Strict.policy());
    let result = client.run_code(request, OneShot::default()).await;
    assert_eq!(result.expect_err("refused").kind(), ErrorKind::CodeRefused);
}
