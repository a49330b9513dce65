//! One-shot runs.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::{
    CapabilityPolicy, Error, ErrorKind, ExecRequest, OneShot, SandboxClient, SandboxSpec,
};

use common::faulty::{Fault, Faulty};

#[test]
fn one_shot_sandbox_is_always_removed() {
    common::block_on(async {
        for fault in [Fault::None, Fault::Fails] {
            let backend = Faulty::new(fault);
            let result = backend
                .client(CapabilityPolicy::new())
                .run_shell("true", OneShot::default())
                .await;
            assert_eq!(result.is_ok(), fault == Fault::None);
            assert_eq!(backend.counts(), (1, 1));
        }
    });
}

#[test]
fn failed_removal_or_export_keeps_the_result() {
    common::block_on(async {
        let client = Faulty::new(Fault::Stays).client(CapabilityPolicy::new());
        let result = client.run_python("1", OneShot::default()).await.unwrap();
        assert_eq!(result.stdout_text(), "first line\n");
        assert_eq!(result.failures.len(), 1);
        let failure = result.failures[0].to_string();
        assert!(failure.contains("still there"), "{failure}");

        let policy = CapabilityPolicy::new().artifact_export_path("/out/*");
        let backend = Faulty::new(Fault::None);
        let options = OneShot::default().export_to("/nowhere");
        let result = backend.client(policy).run_shell("true", options).await;
        let result = result.unwrap();
        assert!(result.success() && result.artifacts.is_empty());
        assert_eq!(result.failures[0].operation(), "export");
        assert_eq!(backend.counts(), (1, 1));
    });
}

#[test]
fn one_shot_run_without_a_folder_for_artifacts_is_refused() {
    common::block_on(async {
        let policy = CapabilityPolicy::new()
            .artifact_export_path("/out/*")
            .artifact_export_path("/more");
        let backend = Faulty::new(Fault::Exports);
        let client = backend.client(policy);
        let options = OneShot::default().export_to("/results");
        let result = client.run_python("1", options).await.unwrap();
        assert_eq!(result.artifacts[0].path, Path::new("/results/report.txt"));
        assert_eq!(result.skipped[0].source, "/more");
        assert!(result.failures.is_empty());

        let refused = client.run_shell("true", OneShot::default()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
        assert!(refused.fix().unwrap().contains("export_to"), "{refused}");
        assert_eq!(backend.counts(), (1, 1), "nothing was created for it");
    });
}

#[test]
fn python_is_used_if_there_is_no_python3() {
    common::block_on(async {
        let only_python = |request: &ExecRequest| match request.argv[0].as_slice() {
            b"python" => Ok(FakeAnswer::stdout("2\n")),
            _ => Err(Error::new(
                ErrorKind::ProgramNotFound,
                "execute",
                "no such program",
            )),
        };
        let backend = FakeBackend::new(only_python);
        let seen = backend.seen();
        let client =
            SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new()).unwrap();
        let result = client
            .run_python("print(1 + 1)", OneShot::default())
            .await
            .unwrap();
        assert_eq!(result.stdout_text(), "2\n");
        let seen = seen.lock().unwrap();
        let argv = &seen.last().unwrap().argv;
        assert_eq!(argv[..], [&b"python"[..], b"-c", b"print(1 + 1)"]);
    });
}

#[test]
fn one_shot_run_keeps_its_specification_and_gets_a_unique_name() {
    common::block_on(async {
        let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("")));
        let seen = backend.seen();
        let client =
            SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new()).unwrap();
        let options = OneShot::new(SandboxSpec::new("mine")).timeout(Duration::from_secs(2));
        client.run_shell("a", options.clone()).await.unwrap();
        client.run_shell("b", options).await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].timeout, Some(Duration::from_secs(2)));
        assert_eq!(seen[1].argv[2], b"b");
        assert_ne!(
            sandbox_core::spi::unique_name("x"),
            sandbox_core::spi::unique_name("x")
        );
        assert!(
            SandboxSpec::new(sandbox_core::spi::unique_name("one-shot"))
                .validate()
                .is_ok()
        );
    });
}
