//! The client and the real agent over a relay that is cut: nothing is lost without being reported.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use common::relay::Direction::{Inwards, Outwards};
use common::{AgentChild, Kept, linked, run, shell, source, wait_until};
use sandbox_core::spi::{Backend, Finding, Flow, Instance, OutputSink, OutputStream};
use sandbox_core::{
    ArtifactLimits, Capability, CapabilityPolicy, EnforcementReport, ErrorKind, ExecRequest,
    Outcome, Plan, Result, SandboxClient, SandboxSpec,
};
use sandbox_host::AgentInstance;

const LEASE: Duration = Duration::from_secs(60);

/// Cuts the stream of a short execution after each byte, in both directions.
#[tokio::test]
async fn cut_at_any_byte_loses_nothing() {
    let mut opened = 0;
    for direction in [Inwards, Outwards] {
        // The last cuts are after the end of the execution.
        for first in (0..240).step_by(12) {
            // A link that is cut more often waits between two reconnects.
            let (instance, _process, relay) = linked(LEASE).await;
            for after in first..first + 12 {
                relay.plan([(direction, after)]);
                let script = format!("echo out{after}; echo err{after} >&2; exit {}", after % 200);
                let (end, kept) = run(&instance, &shell(&script), None).await;
                let code = i32::try_from(after % 200).unwrap();
                let what = format!("{direction:?} {after}");
                assert_eq!(end.outcome, Outcome::Exited { code }, "{what}");
                assert_eq!(kept.stdout, format!("out{after}\n").as_bytes(), "{what}");
                assert_eq!(kept.stderr, format!("err{after}\n").as_bytes(), "{what}");
            }
            opened += relay.opened() - 1;
        }
    }
    assert!(opened > 200, "{opened}");
}

/// Cuts each new stream too, while the link resumes.
#[tokio::test]
async fn repeated_cuts_lose_nothing() {
    for after in (0..200).step_by(7) {
        let (instance, _process, relay) = linked(LEASE).await;
        let (to_agent, to_host) = (Inwards, Outwards);
        relay.plan([
            (to_host, after),
            (to_agent, 10),
            (to_host, 3),
            (to_agent, 60),
            (to_host, 20),
            (to_host, 30),
        ]);
        let (end, kept) = run(&instance, &shell("echo again; exit 3"), None).await;
        assert_eq!(end.outcome, Outcome::Exited { code: 3 }, "{after}");
        assert_eq!(kept.stdout, b"again\n");
    }
}

/// Compares output with consecutive numbers.
#[derive(Default)]
struct Counting {
    total: u64,
    wrong: bool,
}

#[async_trait]
impl OutputSink for Counting {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        for byte in bytes {
            // Each line has eight bytes, so a lost or repeated byte shifts all that follows.
            self.wrong |= *byte != b"1234567\n"[(self.total % 8) as usize];
            self.total += 1;
        }
        Flow::Continue
    }
}

#[tokio::test]
async fn output_flood_is_complete() {
    let (instance, _process, relay) = linked(LEASE).await;
    let total = 256 << 20;
    relay.plan((1..30).map(|number| (Outwards, number * 300_007 + 1_000_003)));
    let mut sink = Counting::default();
    let request = ExecRequest::shell(format!("yes 1234567 | head -c {total}; exit 9"))
        .timeout(Duration::from_secs(300));
    let end = instance
        .exec(&request, None.into(), &mut sink)
        .await
        .unwrap();
    assert_eq!(end.outcome, Outcome::Exited { code: 9 });
    assert_eq!((sink.total, sink.wrong), (total, false));
    assert_eq!(relay.planned(), 0);
    assert!(relay.opened() >= 30);
}

#[tokio::test]
async fn stdin_is_complete() {
    let (instance, _process, relay) = linked(LEASE).await;
    let bytes: Vec<u8> = (0..12_000_000u32).map(|i| (i % 251) as u8).collect();
    let cuts = (1..20).map(|number| {
        let direction = if number % 2 == 0 { Inwards } else { Outwards };
        (direction, number * 20_011)
    });
    relay.plan(cuts);
    let (end, kept) = run(
        &instance,
        &shell("cat; exit 4"),
        Some(source(bytes.clone())),
    )
    .await;
    assert_eq!(end.outcome, Outcome::Exited { code: 4 });
    assert!(kept.stdout == bytes);
    assert_eq!(relay.planned(), 0);
}

#[tokio::test]
async fn files_are_complete() {
    let (instance, _process, relay) = linked(LEASE).await;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("in");
    let content: Vec<u8> = (0..2_000_000u32).map(|i| (i % 239) as u8).collect();
    let path = inside.to_str().unwrap().to_owned();
    relay.plan((1..8).map(|number| (Inwards, number * 50_003)));
    let big = format!("{path}/big");
    instance
        .put(&big, 0o600, source(content.clone()))
        .await
        .unwrap();
    assert_eq!(relay.planned(), 0);
    let (end, _) = run(
        &instance,
        &shell(&format!("cd {path}; for i in 1 2 3; do cp big $i; done")),
        None,
    )
    .await;
    assert!(end.outcome.success());
    let out = tempfile::tempdir().unwrap();
    relay.plan((1..12).map(|number| (Outwards, number * 40_021)));
    let export = instance
        .export(&[path], out.path(), ArtifactLimits::default())
        .await
        .unwrap();
    assert_eq!(relay.planned(), 0);
    assert_eq!(export.artifacts.len(), 4, "{:?}", export.skipped);
    for artifact in &export.artifacts {
        assert!(std::fs::read(&artifact.path).unwrap() == content);
    }
}

#[tokio::test]
async fn concurrent_executions_keep_output_separate() {
    let (instance, _process, relay) = linked(LEASE).await;
    relay.plan((1..25).map(|number| (Outwards, number * 10_007)));
    let instance = &instance;
    let runs = (0..40u8).map(|number| async move {
        let script = format!(
            "head -c 300000 /dev/zero | tr '\\0' {}; exit {number}",
            number % 10
        );
        let (end, kept) = run(instance, &shell(&script), None).await;
        let code = number.into();
        assert_eq!(end.outcome, Outcome::Exited { code });
        assert!(kept.stdout == vec![b'0' + number % 10; 300_000]);
    });
    common::all(runs).await;
    assert_eq!(relay.planned(), 0);
}

/// During the outage one program ends, one reaches its time limit, and one continues.
#[tokio::test]
async fn events_during_outage_are_delivered_later() {
    let (instance, _process, relay) = linked(LEASE).await;
    let limited = ExecRequest::shell("echo begun; sleep 60").timeout(Duration::from_secs(1));
    let (ends, continues) = (
        shell("sleep 1; echo over; exit 6"),
        shell("sleep 4; echo on"),
    );
    let outage = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        relay.shut(true);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        relay.shut(false);
    };
    let ((limited, kept), (ended, over), (continued, on), ()) = tokio::join!(
        run(&instance, &limited, None),
        run(&instance, &ends, None),
        run(&instance, &continues, None),
        outage
    );
    assert_eq!(
        (limited.outcome, &kept.stdout[..]),
        (Outcome::TimedOut, &b"begun\n"[..])
    );
    assert_eq!(ended.outcome, Outcome::Exited { code: 6 });
    assert_eq!(over.stdout, b"over\n");
    assert!(continued.outcome.success());
    assert_eq!(on.stdout, b"on\n");
}

/// A backend that hands out one instance.
struct SingleInstance(Mutex<Option<AgentInstance>>);

#[async_trait]
impl Backend for SingleInstance {
    fn name(&self) -> &str {
        "only"
    }
    async fn assess(&self, _plan: &Plan) -> Result<EnforcementReport> {
        Ok(EnforcementReport::new())
    }
    async fn create(&self, _plan: &Plan) -> Result<Box<dyn Instance>> {
        let instance = self.0.lock().unwrap().take();
        Ok(Box::new(instance.unwrap()))
    }
    async fn diagnose(&self) -> Vec<Finding> {
        Vec::new()
    }
    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

/// The same through `sandbox-core`. The outage is longer than the core's own bound for executions.
#[tokio::test]
async fn end_during_outage_wins_over_host_timeouts() {
    let (instance, _process, relay) = linked(LEASE).await;
    let mut policy = CapabilityPolicy::new();
    policy.allow_unenforced = Capability::ALL
        .iter()
        .copied()
        .filter(|one| !matches!(one, Capability::StdoutMaxBytes | Capability::StderrMaxBytes))
        .collect();
    let backend = SingleInstance(Mutex::new(Some(instance)));
    let client = SandboxClient::with_backend(Arc::new(backend), policy).unwrap();
    let sandbox = client.create(&SandboxSpec::new("test")).await.unwrap();
    let request = shell("sleep 1; echo over; exit 6").timeout(Duration::from_secs(2));
    let outage = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        relay.shut(true);
        tokio::time::sleep(Duration::from_secs(8)).await;
        relay.shut(false);
    };
    let (result, ()) = tokio::join!(sandbox.exec(&request), outage);
    let result = result.unwrap();
    assert_eq!(result.outcome, Outcome::Exited { code: 6 });
    assert_eq!(result.stdout_text(), "over\n");
    assert!(
        sandbox.exec(&shell("true")).await.unwrap().success(),
        "it lives"
    );
}

/// A sandbox whose relay is shut while a program runs.
async fn cut_off(
    lease: Duration,
) -> (
    Arc<AgentInstance>,
    AgentChild,
    impl Future<Output = (Outcome, Vec<u8>)>,
) {
    let (instance, process, relay) = linked(lease).await;
    let instance = Arc::new(instance);
    let begun = Arc::new(tokio::sync::Notify::new());
    let running = tokio::spawn({
        let (instance, begun) = (Arc::clone(&instance), Arc::clone(&begun));
        async move {
            let mut sink = OutputBegun(begun, Vec::new());
            let request = ExecRequest::shell("echo begun; sleep 60");
            let end = instance
                .exec(&request, None.into(), &mut sink)
                .await
                .unwrap();
            (end.outcome, sink.1)
        }
    });
    begun.notified().await;
    relay.shut(true);
    (instance, process, async move { running.await.unwrap() })
}

struct OutputBegun(Arc<tokio::sync::Notify>, Vec<u8>);

#[async_trait]
impl OutputSink for OutputBegun {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        self.1.extend_from_slice(bytes);
        self.0.notify_one();
        Flow::Continue
    }
}

#[tokio::test]
async fn end_after_lease_is_unknown_not_success() {
    let begin = Instant::now();
    let (instance, process, running) = cut_off(Duration::from_secs(2)).await;
    let (outcome, output) = running.await;
    let Outcome::Unknown { reason } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("the relay is shut"), "{reason}");
    assert_eq!(output, b"begun\n");
    assert!(begin.elapsed() < Duration::from_secs(20));
    let refused = instance
        .exec(&shell("true"), None.into(), &mut Kept::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SandboxEnded);
    wait_until("the sandbox is destroyed", || process.destroyed() > 0).await;
    wait_until("the agent has ended", || process.ended().is_some()).await;
}

#[tokio::test]
async fn stop_kill_and_drop_work_during_outage() {
    let bound = Duration::from_secs(15);
    let (instance, process, running) = cut_off(LEASE).await;
    tokio::time::timeout(bound, instance.stop(Duration::from_millis(100)))
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(running.await.0, Outcome::Unknown { .. }));
    assert!(process.destroyed() > 0);

    let (instance, process, running) = cut_off(LEASE).await;
    tokio::time::timeout(bound, instance.kill())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(running.await.0, Outcome::Unknown { .. }));
    assert!(process.destroyed() > 0);

    let (instance, process, relay) = linked(LEASE).await;
    relay.shut(true);
    drop(instance);
    wait_until("the sandbox is destroyed", || process.destroyed() > 0).await;
    let opened = relay.opened();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        relay.opened() <= opened + 1,
        "a dropped instance still reconnects"
    );
}

/// The host does not wait for the lease of an agent that has ended.
#[tokio::test]
async fn end_of_the_agent_is_reported_at_once() {
    let (instance, process, _relay) = linked(LEASE).await;
    let begin = Instant::now();
    instance.stop(Duration::ZERO).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    wait_until("the agent has ended", || process.ended().is_some()).await;
}
