//! Started executions, on a backend whose programs behave as their names say.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::{
    Backend, ControlRequest, Finding, Flow, Input, Instance, OutputSink, OutputStream, Source,
};
use sandbox_core::{
    ArtifactLimits, CapabilityPolicy, DenialKind, EnforcementReport, Error, ErrorKind, ExecEnd,
    ExecEvent, ExecRequest, Export, Outcome, Plan, Refusal, Result, SandboxClient, SandboxHandle,
    SandboxSpec, Stdin,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A backend whose programs are chosen by their names.
#[derive(Clone, Default)]
struct Scripted {
    running: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
}

impl Scripted {
    async fn sandbox(&self) -> SandboxHandle {
        let policy = CapabilityPolicy::new().timeout(Duration::from_secs(10));
        let client = SandboxClient::with_backend(Arc::new(self.clone()), policy).unwrap();
        client.create(&SandboxSpec::new("test")).await.unwrap()
    }

    fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.running), count(&self.killed))
    }
}

#[async_trait]
impl Backend for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    async fn assess(&self, _plan: &Plan) -> Result<EnforcementReport> {
        Ok(common::report(&[]))
    }
    async fn create(&self, _plan: &Plan) -> Result<Box<dyn Instance>> {
        Ok(Box::new(ScriptedInstance(
            self.clone(),
            common::report(&[]),
        )))
    }
    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }
    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

struct ScriptedInstance(Scripted, EnforcementReport);

/// Counts a running execution until its future ends or is dropped.
struct Runs(Arc<AtomicUsize>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Instance for ScriptedInstance {
    fn enforcement(&self) -> &EnforcementReport {
        &self.1
    }

    async fn exec(
        &self,
        request: &ExecRequest,
        mut input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd> {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        let _runs = Runs(Arc::clone(&self.0.running));
        let exited = |code| Ok(ExecEnd::new(Outcome::Exited { code }));
        match request.argv[0].as_slice() {
            b"silent" => exited(3),
            b"missing" => Err(Error::new(ErrorKind::ProgramNotFound, "execute", "missing")),
            b"breaks" => {
                sink.started().await;
                sink.write(OutputStream::Stdout, b"half").await;
                Err(Error::new(ErrorKind::Protocol, "execute", "garbage"))
            }
            // Reports its start more than once, which a backend must not.
            b"restless" => {
                for _ in 0..3 {
                    sink.started().await;
                }
                sink.write(OutputStream::Stderr, b"once").await;
                exited(0)
            }
            b"hangs" => {
                sink.started().await;
                std::future::pending().await
            }
            b"obeys" => {
                sink.started().await;
                match input.control.next().await {
                    ControlRequest::Signal(number) => exited(number.into()),
                    _ => Ok(ExecEnd::new(Outcome::Signaled { signal: 9 })),
                }
            }
            b"counts" => {
                sink.started().await;
                let mut bytes = Vec::new();
                let mut stdin = input.stdin.unwrap();
                stdin.read_to_end(&mut bytes).await.unwrap();
                sink.write(OutputStream::Stdout, bytes.len().to_string().as_bytes())
                    .await;
                exited(0)
            }
            b"floods" => {
                let piece = vec![b'x'; 100_000];
                for _ in 0..100 {
                    if sink.write(OutputStream::Stdout, &piece).await == Flow::Stop {
                        return Ok(ExecEnd::new(Outcome::OutputLimit));
                    }
                }
                exited(5)
            }
            b"denied" => {
                let mut end = ExecEnd::new(Outcome::Exited { code: 1 });
                end.refused = vec![(Refusal::Network, 2), (Refusal::ProcessLimit, 1)];
                Ok(end)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn put(&self, path: &str, _mode: u32, _content: Source) -> Result<()> {
        let error = Error::new(ErrorKind::Path, "access file", format!("{path}: no"));
        Err(error.with_os_error(if path.contains("full") { 28 } else { 13 }))
    }
    async fn fetch(&self, _path: &str, _sink: &mut dyn OutputSink) -> Result<()> {
        Err(Error::new(ErrorKind::Path, "access file", "missing").with_os_error(2))
    }
    async fn export(&self, _: &[String], _: &Path, _: ArtifactLimits) -> Result<Export> {
        Ok(Export::default())
    }
    async fn logs(&self, _tail: Option<u32>) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    async fn stop(&self, _grace: Duration) -> Result<()> {
        self.kill().await
    }
    async fn kill(&self) -> Result<()> {
        self.0.killed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Runs a future with a paused clock, which advances when every task is idle.
fn paused<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn start_is_reported_first_and_once() {
    paused(async {
        let sandbox = Scripted::default().sandbox().await;
        for (program, output, code) in [("silent", None, 3), ("restless", Some("once"), 0)] {
            let request = ExecRequest::new(program);
            let mut execution = sandbox.start(&request, Stdin::Null).await.unwrap();
            assert_eq!(
                execution.next_event().await.unwrap(),
                Some(ExecEvent::Started)
            );
            if let Some(output) = output {
                let event = execution.next_event().await.unwrap();
                assert_eq!(event, Some(ExecEvent::Stderr(output.into())));
            }
            let Some(ExecEvent::Exited(result)) = execution.next_event().await.unwrap() else {
                panic!("{program} has no end");
            };
            assert_eq!(result.exit_code(), Some(code));
            assert_eq!(execution.next_event().await.unwrap(), None);
        }
    });
}

#[test]
fn backend_without_terminals_refuses_them() {
    paused(async {
        let sandbox = Scripted::default().sandbox().await;
        let size = sandbox_core::TerminalSize::default();
        let request = ExecRequest::new("silent").terminal(size);
        let refused = sandbox.exec(&request).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let refused = sandbox.start(&request, Stdin::Null).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        // A new size needs a terminal.
        let request = ExecRequest::new("obeys");
        let execution = sandbox.start(&request, Stdin::Null).await.unwrap();
        let refused = execution.resize(size).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
    });
}

#[test]
fn error_is_one_event_and_the_result_of_every_wait() {
    paused(async {
        let sandbox = Scripted::default().sandbox().await;
        let error = sandbox
            .start(&ExecRequest::new("missing"), Stdin::Null)
            .await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ProgramNotFound);
        let error = sandbox.start(&ExecRequest::new(""), Stdin::Null).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);

        let mut execution = sandbox
            .start(&ExecRequest::new("breaks"), Stdin::Null)
            .await
            .unwrap();
        assert_eq!(
            execution.next_event().await.unwrap(),
            Some(ExecEvent::Started)
        );
        assert_eq!(
            execution.next_event().await.unwrap(),
            Some(ExecEvent::Stdout("half".into()))
        );
        assert_eq!(
            execution.next_event().await.unwrap_err().kind(),
            ErrorKind::Protocol
        );
        assert_eq!(execution.next_event().await.unwrap(), None);
        for _ in 0..2 {
            let error = execution.wait().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.context()),
                (ErrorKind::Protocol, "garbage")
            );
        }
    });
}

#[test]
fn orders_reach_the_program_and_are_ignored_after_its_end() {
    paused(async {
        let sandbox = Scripted::default().sandbox().await;
        let obeys = ExecRequest::new("obeys");
        let mut execution = sandbox.start(&obeys, Stdin::Null).await.unwrap();
        execution.signal(12).await.unwrap();
        assert_eq!(execution.wait().await.unwrap().exit_code(), Some(12));
        execution.kill().await;
        let mut execution = sandbox.start(&obeys, Stdin::Null).await.unwrap();
        execution.kill().await;
        let killed = Outcome::Signaled { signal: 9 };
        assert_eq!(execution.wait().await.unwrap().outcome, killed);
        for number in [0, 65, 255] {
            let error = execution.signal(number).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        }
        // The queue of orders is full, so the sender waits.
        let execution = sandbox
            .start(&ExecRequest::new("hangs"), Stdin::Null)
            .await
            .unwrap();
        let flood = async {
            loop {
                execution.signal(1).await.unwrap();
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(1), flood)
                .await
                .is_err()
        );
    });
}

#[test]
fn dropped_execution_or_handle_cancels_the_backends_future() {
    paused(async {
        let backend = Scripted::default();
        let sandbox = backend.sandbox().await;
        let hangs = ExecRequest::new("hangs");
        let execution = sandbox.start(&hangs, Stdin::Null).await.unwrap();
        assert_eq!(backend.counts(), (1, 0));
        drop(execution);
        settle().await;
        assert_eq!(backend.counts(), (0, 0));

        let mut executions = Vec::new();
        for _ in 0..3 {
            executions.push(sandbox.start(&hangs, Stdin::Piped).await.unwrap());
        }
        let mut stdin = executions[0].take_stdin().unwrap();
        assert_eq!(backend.counts(), (3, 0));
        drop(sandbox);
        settle().await;
        assert_eq!(backend.counts(), (0, 0));
        for mut execution in executions {
            let error = execution.wait().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SandboxEnded);
        }
        let error = stdin.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn time_limit_excludes_slow_readers_but_not_slow_backends() {
    paused(async {
        let backend = Scripted::default();
        let sandbox = backend.sandbox().await;
        let mut execution = sandbox
            .start(&ExecRequest::new("floods"), Stdin::Null)
            .await
            .unwrap();
        // Much longer than the time limit and every grace period.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let mut total = 0;
        while let Some(event) = execution.next_event().await.unwrap() {
            if let ExecEvent::Stdout(bytes) = event {
                total += bytes.len();
                tokio::time::sleep(Duration::from_secs(7)).await;
            }
        }
        let result = execution.wait().await.unwrap();
        assert_eq!((total, result.exit_code()), (10_000_000, Some(5)));
        assert_eq!(result.stdout.total, 10_000_000);
        assert_eq!(backend.counts(), (0, 0));

        let mut execution = sandbox
            .start(&ExecRequest::new("hangs"), Stdin::Null)
            .await
            .unwrap();
        let start = tokio::time::Instant::now();
        assert_eq!(execution.wait().await.unwrap().outcome, Outcome::TimedOut);
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(backend.counts(), (0, 1));
    });
}

#[test]
fn standard_input_comes_from_bytes_or_a_writer() {
    paused(async {
        let sandbox = Scripted::default().sandbox().await;
        let counts = ExecRequest::new("counts");
        let mut execution = sandbox
            .start(&counts, Stdin::from_bytes("12345"))
            .await
            .unwrap();
        assert!(execution.take_stdin().is_none());
        assert_eq!(execution.wait().await.unwrap().stdout_text(), "5");

        let mut execution = sandbox.start(&counts, Stdin::Piped).await.unwrap();
        let mut stdin = execution.take_stdin().unwrap();
        for _ in 0..100 {
            stdin.write_all(&[b'x'; 10_000]).await.unwrap();
        }
        stdin.shutdown().await.unwrap();
        assert_eq!(execution.wait().await.unwrap().stdout_text(), "1000000");
        // Waiting closes a standard input whose writer was not taken.
        let mut execution = sandbox.start(&counts, Stdin::Piped).await.unwrap();
        assert_eq!(execution.wait().await.unwrap().stdout_text(), "0");
    });
}

#[test]
fn denials_are_in_the_result_the_events_and_the_sandbox() {
    paused(async {
        let sandbox = Scripted::default().sandbox().await;
        let mut execution = sandbox
            .start(&ExecRequest::new("denied"), Stdin::Null)
            .await
            .unwrap();
        let mut kinds = Vec::new();
        while let Some(event) = execution.next_event().await.unwrap() {
            if let ExecEvent::Denied(denial) = event {
                kinds.push((denial.kind, denial.times));
            }
        }
        let expected = [(DenialKind::Network, 2), (DenialKind::ProcessLimit, 1)];
        assert_eq!(kinds, expected);
        let result = execution.wait().await.unwrap();
        assert_eq!(
            result
                .denials
                .iter()
                .map(|d| (d.kind, d.times))
                .collect::<Vec<_>>(),
            expected
        );

        sandbox.exec(&ExecRequest::new("denied")).await.unwrap();
        let denied = sandbox.write("/a\u{1b}", "").await.unwrap_err();
        assert_eq!(denied.denials()[0].kind, DenialKind::FileWrite);
        assert_eq!(
            denied.denials()[0].what,
            "writing /a\\u{1b} in the sandbox was denied"
        );
        let full = sandbox.write("/full", "").await.unwrap_err();
        assert_eq!(full.denials()[0].kind, DenialKind::Storage);
        // A missing file is not a denial.
        assert!(sandbox.read("/x").await.unwrap_err().denials().is_empty());
        let all = sandbox.denials();
        let all = all.iter().map(|denial| (denial.kind, denial.times));
        let expected = [
            (DenialKind::Network, 4),
            (DenialKind::ProcessLimit, 2),
            (DenialKind::FileWrite, 1),
            (DenialKind::Storage, 1),
        ];
        assert_eq!(all.collect::<Vec<_>>(), expected);
    });
}
