//! Limits of time and output, with backends that break them.

mod common;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::fake::{FakeAnswer, FakeBackend};
use sandbox_core::{
    ByteSize, CapabilityPolicy, ErrorKind, ExecRequest, Flow, Outcome, OutputSink, OutputStream,
    SandboxClient, SandboxSpec, Stdin,
};

use common::faulty::{Fault, Faulty};

#[test]
fn late_result_takes_precedence_over_the_overtime_limit() {
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
fn execution_that_a_backend_cannot_end_destroys_the_sandbox_and_keeps_the_output() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let backend = Faulty::new(Fault::Hangs);
        let policy = CapabilityPolicy::new().timeout(Duration::from_secs(60));
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
fn request_cannot_exceed_the_time_limit_of_the_policy() {
    common::block_on(async {
        let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("")));
        let seen = backend.seen();
        let policy = CapabilityPolicy::new().timeout(Duration::from_secs(10));
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
fn output_beyond_the_limit_is_counted_and_a_flood_is_ended() {
    common::block_on(async {
        let backend = Faulty::new(Fault::Floods);
        let policy = CapabilityPolicy::new().stdout_max_bytes(ByteSize::kib(1));
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
fn output_sink_gets_every_piece_and_can_end_the_execution() {
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
        let policy = CapabilityPolicy::new().stdout_max_bytes(ByteSize::bytes(5));
        let sandbox = Faulty::new(Fault::Floods)
            .client(policy)
            .create(&SandboxSpec::new("test"))
            .await
            .unwrap();
        let mut live = Live(Vec::new());
        let result = sandbox
            .exec_to(&ExecRequest::new("yes"), Stdin::Null, &mut live)
            .await
            .unwrap();
        assert_eq!(result.outcome, Outcome::OutputLimit);
        assert_eq!(result.stdout.bytes, b"first");
        assert_eq!(result.stdout.total, live.0.len() as u64);
    });
}

#[test]
fn exec_with_passes_output_to_a_function_and_refuses_piped_input() {
    common::block_on(async {
        let client = Faulty::default().client(CapabilityPolicy::new());
        let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
        let request = ExecRequest::new("x");
        let mut seen = Vec::new();
        let run = sandbox.exec_with(&request, Stdin::Null, |stream, bytes| {
            assert_eq!(stream, OutputStream::Stdout);
            seen.extend_from_slice(bytes);
        });
        assert_eq!(run.await.unwrap().stdout.bytes, b"first line\n");
        assert_eq!(seen, b"first line\n");

        let piped = sandbox.exec_with(&request, Stdin::Piped, |_, _| {}).await;
        assert_eq!(piped.unwrap_err().kind(), ErrorKind::InvalidRequest);
    });
}
