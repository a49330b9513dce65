//! The client's gate, its one-shot runs, and what happens when a backend does not keep its promises.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::spi::{
    Backend, Finding, Flow, Input, Instance, OutputSink, OutputStream, Source,
};
use sandbox_core::{
    Artifact, ArtifactLimits, ByteSize, Capability, CapabilityPolicy, Enforcement,
    EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export, OneShot, Outcome, Plan,
    Result, SandboxClient, SandboxSpec, SkipReason, SkippedArtifact,
};

/// A backend whose sandboxes do one thing wrong, and which counts what became of them.
#[derive(Clone, Default)]
struct Faulty {
    fault: Fault,
    created: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    /// Assesses more than it enforces.
    Boasts,
    /// An execution never ends.
    Hangs,
    /// An execution fails.
    Fails,
    /// An execution writes for ever.
    Floods,
    /// The sandbox cannot be removed.
    Stays,
    /// An execution ends a minute after its time limit, in an instance that keeps the bound itself.
    Late,
    /// An execution ends as soon as this process goes on after it was stopped for 100 s.
    Stopped,
    /// The export gives a file.
    Exports,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    fn client(&self, policy: CapabilityPolicy) -> SandboxClient {
        SandboxClient::with_backend(Arc::new(self.clone()), policy).unwrap()
    }

    fn counts(&self) -> (usize, usize) {
        (
            self.created.load(Ordering::SeqCst),
            self.killed.load(Ordering::SeqCst),
        )
    }
}

#[async_trait]
impl Backend for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    async fn assess(&self, _plan: &Plan) -> Result<EnforcementReport> {
        Ok(common::report(&[]))
    }

    async fn create(&self, _plan: &Plan) -> Result<Box<dyn Instance>> {
        self.created.fetch_add(1, Ordering::SeqCst);
        let weaker = (
            Capability::NetworkAccess,
            Enforcement::unenforced("it was not to be had"),
        );
        let report = if self.fault == Fault::Boasts {
            common::report(&[weaker])
        } else {
            common::report(&[])
        };
        Ok(Box::new(FaultyInstance {
            backend: self.clone(),
            report,
        }))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

struct FaultyInstance {
    backend: Faulty,
    report: EnforcementReport,
}

#[async_trait]
impl Instance for FaultyInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.report
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        _input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        sink.write(OutputStream::Stdout, b"first line\n").await;
        match self.backend.fault {
            Fault::Hangs => std::future::pending().await,
            Fault::Late => {
                tokio::time::sleep(request.timeout.unwrap() + Duration::from_secs(60)).await;
                Ok(ExecEnd::new(Outcome::Exited { code: 0 }))
            }
            Fault::Stopped => {
                tokio::time::advance(Duration::from_secs(100)).await;
                // The end has waited in a socket, and is read a moment later.
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(ExecEnd::new(Outcome::Exited { code: 0 }))
            }
            Fault::Fails => Err(Error::new(ErrorKind::Protocol, "execute", "garbage")),
            Fault::Floods => {
                let piece = vec![b'x'; 64 * 1024];
                // A terabyte, should nobody stop it.
                for _ in 0..1 << 24 {
                    if sink.write(OutputStream::Stdout, &piece).await == Flow::Stop {
                        return Ok(ExecEnd::new(Outcome::OutputLimit));
                    }
                }
                Ok(ExecEnd::new(Outcome::Exited { code: 0 }))
            }
            _ => Ok(ExecEnd::new(Outcome::Exited { code: 0 })),
        }
    }

    fn bounds_executions(&self) -> bool {
        self.backend.fault == Fault::Late
    }

    async fn put(&self, _path: &str, _mode: u32, _content: Source) -> Result<()> {
        Ok(())
    }

    async fn fetch(&self, _path: &str, sink: &mut dyn OutputSink) -> Result<()> {
        sink.write(OutputStream::Stdout, &[b'x'; 100]).await;
        Ok(())
    }

    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        _limits: ArtifactLimits,
    ) -> Result<Export> {
        if self.backend.fault == Fault::Exports {
            assert_eq!(self.backend.counts().1, 0, "after the tear-down");
            let path = folder.join("report.txt");
            let artifact = Artifact::new(path, paths[0].clone(), 1, None, String::new());
            return Ok(Export {
                artifacts: vec![artifact],
                skipped: vec![SkippedArtifact {
                    source: paths[1].clone(),
                    reason: SkipReason::Missing,
                }],
                ..Export::default()
            });
        }
        Err(Error::new(
            ErrorKind::Io,
            "export",
            "this backend is asked for nothing",
        ))
    }

    async fn logs(&self, _tail: Option<u32>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    async fn stop(&self, _grace: Duration) -> Result<()> {
        self.kill().await
    }

    async fn kill(&self) -> Result<()> {
        self.backend.killed.fetch_add(1, Ordering::SeqCst);
        match self.backend.fault {
            Fault::Stays => Err(Error::new(
                ErrorKind::Io,
                "remove sandbox",
                "it is still there",
            )),
            _ => Ok(()),
        }
    }
}

#[test]
fn what_is_refused_is_never_built() {
    common::block_on(async {
        let report = common::report(&[(Capability::EnvVarAccess, Enforcement::unenforced("no"))]);
        let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout(""))).enforcing(report);
        let seen = backend.seen();
        let client =
            SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new()).unwrap();
        let error = client
            .run_shell("true", OneShot::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnforceable);
        assert_eq!(error.unmet()[0].demand.capability, Capability::EnvVarAccess);
        assert!(seen.lock().unwrap().is_empty());
    });
}

#[test]
fn a_sandbox_that_enforces_less_than_was_said_is_killed_unused() {
    common::block_on(async {
        let backend = Faulty::new(Fault::Boasts);
        let client = backend.client(CapabilityPolicy::new());
        let error = client.create(&SandboxSpec::new("test")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnforceable);
        assert_eq!(backend.counts(), (1, 1));
    });
}

#[test]
fn a_one_shot_sandbox_is_always_torn_down() {
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
fn a_failed_tear_down_or_export_does_not_lose_the_result() {
    common::block_on(async {
        let client = Faulty::new(Fault::Stays).client(CapabilityPolicy::new());
        let result = client.run_python("1", OneShot::default()).await.unwrap();
        assert_eq!(result.stdout_text(), "first line\n");
        assert_eq!(result.failures.len(), 1);
        let failure = result.failures[0].to_string();
        assert!(failure.contains("still there"), "{failure}");

        let mut policy = CapabilityPolicy::new();
        policy.artifact_export_paths = vec!["/out/*".into()];
        let backend = Faulty::new(Fault::None);
        let options = OneShot::default().export_to("/nowhere");
        let result = backend.client(policy).run_shell("true", options).await;
        let result = result.unwrap();
        assert!(result.ok() && result.artifacts.is_empty());
        assert_eq!(result.failures[0].operation(), "export");
        assert_eq!(backend.counts(), (1, 1));
    });
}

#[test]
fn a_one_shot_run_exports_artifacts_or_is_refused() {
    common::block_on(async {
        let mut policy = CapabilityPolicy::new();
        policy.artifact_export_paths = vec!["/out/*".into(), "/more".into()];
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
fn a_result_that_arrives_wins_over_the_bound_on_overtime() {
    for fault in [Fault::Late, Fault::Stopped] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(async {
            let backend = Faulty::new(fault);
            let client = backend.client(CapabilityPolicy::new());
            let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
            let request = ExecRequest::new("true").timeout(Duration::from_secs(5));
            let result = sandbox.exec(&request).await.unwrap();
            assert_eq!(result.outcome, Outcome::Exited { code: 0 });
            assert_eq!(backend.counts(), (1, 0));
        });
    }
}

#[test]
fn an_execution_that_a_backend_cannot_end_costs_the_sandbox_and_keeps_the_output() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let backend = Faulty::new(Fault::Hangs);
        let mut policy = CapabilityPolicy::new();
        policy.timeout = Some(Duration::from_secs(60));
        let sandbox = backend
            .client(policy)
            .create(&SandboxSpec::new("test"))
            .await
            .unwrap();
        let start = tokio::time::Instant::now();
        let request = ExecRequest::new("sleep").timeout(Duration::from_secs(5));
        let result = sandbox.exec(&request).await.unwrap();
        let waited = start.elapsed();
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert_eq!(result.stdout_text(), "first line\n");
        assert!(result.incomplete.is_some());
        assert_eq!(backend.counts(), (1, 1));
        assert!((5..=10).contains(&waited.as_secs()), "{waited:?}");
    });
}

#[test]
fn a_request_cannot_outlast_the_policys_time_limit() {
    common::block_on(async {
        let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("")));
        let seen = backend.seen();
        let mut policy = CapabilityPolicy::new();
        policy.timeout = Some(Duration::from_secs(10));
        let client = SandboxClient::with_backend(Arc::new(backend), policy).unwrap();
        let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
        for asked in [None, Some(3), Some(60)] {
            let mut request = ExecRequest::new("x");
            request.timeout = asked.map(Duration::from_secs);
            sandbox.exec(&request).await.unwrap();
        }
        let limits = seen
            .lock()
            .unwrap()
            .iter()
            .map(|request| request.timeout.unwrap().as_secs())
            .collect::<Vec<_>>();
        assert_eq!(limits, [10, 3, 10]);
    });
}

#[test]
fn output_beyond_the_cap_is_counted_and_a_flood_is_ended() {
    common::block_on(async {
        let backend = Faulty::new(Fault::Floods);
        let mut policy = CapabilityPolicy::new();
        policy.stdout_max_bytes = Some(ByteSize::kib(1));
        let sandbox = backend
            .client(policy)
            .create(&SandboxSpec::new("test"))
            .await
            .unwrap();
        let result = sandbox.exec(&ExecRequest::new("yes")).await.unwrap();
        assert_eq!(result.outcome, Outcome::OutputLimit);
        assert_eq!(result.stdout.bytes.len(), 1024);
        assert!(result.truncated());
        assert!(result.stdout.bytes.starts_with(b"first line\n"));
        // Read on for 64 MiB, so that a program that only prints too much can end by itself.
        assert!(
            (64 << 20..65 << 20).contains(&result.stdout.total),
            "{}",
            result.stdout.total
        );
    });
}

#[test]
fn whoever_listens_gets_every_piece_and_may_end_it() {
    struct Live(Vec<u8>);
    #[async_trait]
    impl OutputSink for Live {
        async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
            self.0.extend_from_slice(bytes);
            if self.0.len() > 1 << 20 {
                Flow::Stop
            } else {
                Flow::Continue
            }
        }
    }
    common::block_on(async {
        let mut policy = CapabilityPolicy::new();
        policy.stdout_max_bytes = Some(ByteSize::bytes(5));
        let sandbox = Faulty::new(Fault::Floods)
            .client(policy)
            .create(&SandboxSpec::new("test"))
            .await
            .unwrap();
        let mut live = Live(Vec::new());
        let result = sandbox
            .exec_with(&ExecRequest::new("yes"), None, Some(&mut live))
            .await
            .unwrap();
        assert_eq!(result.outcome, Outcome::OutputLimit);
        assert_eq!(result.stdout.bytes, b"first");
        assert_eq!(result.stdout.total, live.0.len() as u64);
    });
}

#[test]
fn python_is_tried_where_there_is_no_python3() {
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
        let client =
            SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new()).unwrap();
        let result = client
            .run_python("print(1 + 1)", OneShot::default())
            .await
            .unwrap();
        assert_eq!(result.stdout_text(), "2\n");
    });
}

#[test]
fn a_one_shot_keeps_its_specification_and_gets_a_name_of_its_own() {
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
            sandbox_core::unique_name("x"),
            sandbox_core::unique_name("x")
        );
        assert!(
            SandboxSpec::new(sandbox_core::unique_name("one-shot"))
                .validate()
                .is_ok()
        );
    });
}

#[test]
fn files_are_named_by_absolute_paths_and_bounded() {
    common::block_on(async {
        let client = Faulty::default().client(CapabilityPolicy::new());
        let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
        for bad in ["relative", "", "/nul\0"] {
            let put = sandbox.put(bad, 0o644, Box::new(&b""[..])).await;
            assert_eq!(put.unwrap_err().kind(), ErrorKind::Path, "{bad:?}");
            assert_eq!(
                sandbox.fetch(bad, 10).await.unwrap_err().kind(),
                ErrorKind::Path,
                "{bad:?}"
            );
        }
        assert_eq!(
            sandbox.fetch("/x", 99).await.unwrap_err().kind(),
            ErrorKind::Path
        );
        assert_eq!(sandbox.fetch("/x", 100).await.unwrap().len(), 100);
        // No bound at all.
        assert_eq!(sandbox.fetch("/x", usize::MAX).await.unwrap().len(), 100);
    });
}

#[test]
fn nothing_is_exported_where_the_policy_names_nothing() {
    common::block_on(async {
        let sandbox = Faulty::default().client(CapabilityPolicy::new());
        let sandbox = sandbox.create(&SandboxSpec::new("test")).await.unwrap();
        let export = sandbox
            .export(Path::new("/nonexistent"), ArtifactLimits::default())
            .await
            .unwrap();
        assert_eq!(export, Export::default());
    });
}

#[test]
fn what_a_backend_does_not_do_is_said() {
    common::block_on(async {
        let client = Faulty::default().client(CapabilityPolicy::new());
        assert_eq!(
            client.get("some-name").await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            client.list().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            client.remove("some-name").await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    });
}

#[test]
fn a_detached_sandbox_is_found_by_its_name_and_its_plan_governs() {
    common::block_on(async {
        let backend: Arc<dyn Backend> =
            Arc::new(FakeBackend::new(|_| Ok(FakeAnswer::stdout("hello"))));
        let client = |policy| SandboxClient::with_backend(Arc::clone(&backend), policy).unwrap();
        let mut policy = CapabilityPolicy::new();
        policy.timeout = Some(Duration::from_secs(5));
        policy.stdout_max_bytes = Some(ByteSize::bytes(3));
        let creator = client(policy);
        let spec = SandboxSpec::new("kept").detached(true).label("team", "a");
        let created = creator.create(&spec).await.unwrap();
        assert_eq!(
            created.plan().lifetime,
            Some(sandbox_core::plan::defaults::DETACHED_LIFETIME)
        );
        let again = creator.create(&spec).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        drop(created);

        let mut other = CapabilityPolicy::new();
        other.timeout = Some(Duration::from_secs(1));
        other.stdout_max_bytes = Some(ByteSize::mib(1));
        let found = client(other).get("kept").await.unwrap();
        assert_eq!(found.plan().timeout, Duration::from_secs(1));
        assert_eq!(found.plan().stdout_max, ByteSize::bytes(3));
        let list = creator.list().await.unwrap();
        assert_eq!((list.len(), list[0].name.as_str()), (1, "kept"));
        assert_eq!(list[0].labels["team"], "a");
        assert_eq!(creator.prune().await.unwrap(), Vec::<String>::new());
        creator.remove("kept").await.unwrap();
        for error in [
            creator.get("kept").await.unwrap_err(),
            creator.remove("kept").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SandboxNotFound, "{error}");
        }
        for bad in ["", "..", "a/b", "A"] {
            let error = creator.get(bad).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSpec, "{bad:?}");
        }
    });
}

#[test]
fn a_backend_that_keeps_nothing_refuses_what_is_detached() {
    common::block_on(async {
        let backend = Faulty::new(Fault::None);
        let spec = SandboxSpec::new("kept").detached(true);
        let error = backend
            .client(CapabilityPolicy::new())
            .create(&spec)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(backend.counts(), (0, 0));
    });
}
