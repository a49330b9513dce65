//! The kernel's kills and refusals are attributed to the executions that ran when they happened.
//! The host counts them. Where it cannot count kills for memory, the agent does.

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fake::{FakeAgent, PIPE, exec, report, settings};
use sandbox_agent::protocol::{ExitKind, ExitReport, FrameKind};
use sandbox_core::{ExecEnd, Outcome, Refusal, Result};
use sandbox_host::{AgentInstance, Counters, Isolator};

/// A kernel's counters.
#[derive(Default)]
struct Kernel {
    kills: AtomicU64,
    refused: AtomicU64,
}

impl Kernel {
    fn kill(&self) {
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// An isolator whose kernel counts. The host may see the number of kills or not.
struct CountingIsolator {
    kernel: Arc<Kernel>,
    sees_kills: bool,
}

#[async_trait]
impl Isolator for CountingIsolator {
    fn tier(&self) -> &str {
        "counted"
    }
    async fn destroy(&self) -> Result<()> {
        Ok(())
    }
    fn destroy_soon(&self) {}
    async fn oom_kills(&self) -> Option<u64> {
        self.sees_kills
            .then(|| self.kernel.kills.load(Ordering::Relaxed))
    }
    async fn counters(&self) -> Counters {
        Counters::new(Some(self.kernel.refused.load(Ordering::Relaxed)), None)
    }
    async fn post_mortem(&self) -> Option<String> {
        None
    }
}

/// A sandbox with this view of its kernel, and its agent.
async fn sandbox(sees_kills: bool) -> (AgentInstance, FakeAgent, Arc<Kernel>) {
    let (host, guest) = tokio::io::duplex(PIPE);
    let mut agent = FakeAgent::new(guest);
    let kernel = Arc::new(Kernel::default());
    let isolator = CountingIsolator {
        kernel: Arc::clone(&kernel),
        sees_kills,
    };
    let welcome = async {
        agent.wait_for(FrameKind::Hello).await.unwrap();
        agent.welcome().await;
    };
    let connected = AgentInstance::connect(host, settings(), Box::new(isolator));
    let (instance, ()) = tokio::join!(connected, welcome);
    (instance.unwrap(), agent, kernel)
}

/// Runs an execution that ends with this report. Calls `during` while it runs.
async fn run(
    instance: &AgentInstance,
    agent: &mut FakeAgent,
    report: ExitReport,
    during: impl FnOnce(),
) -> ExecEnd {
    let answer = async {
        let stream = agent.wait_for(FrameKind::Exec).await.unwrap();
        during();
        agent
            .frame(stream, FrameKind::Exited, &report.encode())
            .await;
    };
    tokio::join!(exec(instance), answer).0
}

fn refusals(end: &ExecEnd, refusal: Refusal) -> u64 {
    let refused = end.refused.iter().filter(|(found, _)| *found == refusal);
    refused.map(|(_, times)| times).sum()
}

const WELL: Outcome = Outcome::Exited { code: 0 };
const SIGNALED: Outcome = Outcome::Signaled { signal: 9 };

#[tokio::test]
async fn memory_kill_belongs_to_the_running_execution() {
    let (instance, mut agent, kernel) = sandbox(true).await;
    let (well, signaled) = (report(ExitKind::Exited(0)), report(ExitKind::Signaled(9)));
    // No execution runs.
    kernel.kill();
    for _ in 0..2 {
        let own = run(&instance, &mut agent, signaled, || ()).await;
        assert_eq!(
            (own.outcome.clone(), refusals(&own, Refusal::Memory)),
            (SIGNALED, 0)
        );
        let survived = run(&instance, &mut agent, well, || kernel.kill()).await;
        assert_eq!(survived.outcome, WELL);
        assert_eq!(refusals(&survived, Refusal::Memory), 1);
        let own = run(&instance, &mut agent, signaled, || ()).await;
        assert_eq!(
            (own.outcome.clone(), refusals(&own, Refusal::Memory)),
            (SIGNALED, 0)
        );
        let killed = run(&instance, &mut agent, signaled, || kernel.kill()).await;
        assert_eq!(killed.outcome, Outcome::OutOfMemory);
        assert_eq!(refusals(&killed, Refusal::Memory), 1);
    }
    // The host counts kills itself, so it ignores the agent's number.
    let false_report = ExitReport {
        memory_kills: Some(7),
        ..signaled
    };
    let own = run(&instance, &mut agent, false_report, || ()).await;
    assert_eq!(
        (own.outcome.clone(), refusals(&own, Refusal::Memory)),
        (SIGNALED, 0)
    );
}

#[tokio::test]
async fn concurrent_executions_each_report_memory_kills() {
    let (instance, mut agent, kernel) = sandbox(true).await;
    let well = report(ExitKind::Exited(0));
    let others = async {
        let long = agent.wait_for(FrameKind::Exec).await.unwrap();
        kernel.kill();
        kernel.refuse();
        // This execution begins after the kill.
        let end = run(&instance, &mut agent, well, || ()).await;
        assert_eq!(end.refused, []);
        let end = run(&instance, &mut agent, well, || {
            kernel.kill();
            kernel.refuse();
        })
        .await;
        assert_eq!(refusals(&end, Refusal::Memory), 1);
        assert_eq!(refusals(&end, Refusal::ProcessLimit), 1);
        let end = run(&instance, &mut agent, well, || ()).await;
        assert_eq!(end.refused, []);
        agent.frame(long, FrameKind::Exited, &well.encode()).await;
    };
    let (long, ()) = tokio::join!(exec(&instance), others);
    assert_eq!(refusals(&long, Refusal::Memory), 2);
    assert_eq!(refusals(&long, Refusal::ProcessLimit), 2);
    let end = run(&instance, &mut agent, well, || ()).await;
    assert_eq!(end.refused, []);
}

#[tokio::test]
async fn agent_counts_kills_if_the_host_cannot() {
    let (instance, mut agent, _kernel) = sandbox(false).await;
    let with_kills = |kind, memory_kills| ExitReport {
        memory_kills,
        ..report(kind)
    };
    let (well, signaled) = (ExitKind::Exited(0), ExitKind::Signaled(9));
    for (report, outcome, times) in [
        (with_kills(well, Some(2)), WELL, 2),
        (with_kills(signaled, Some(0)), SIGNALED, 0),
        (with_kills(signaled, None), SIGNALED, 0),
        (with_kills(signaled, Some(1)), Outcome::OutOfMemory, 1),
        (with_kills(ExitKind::Lost, Some(1)), Outcome::OutOfMemory, 1),
    ] {
        let end = run(&instance, &mut agent, report, || ()).await;
        assert_eq!(
            (end.outcome.clone(), refusals(&end, Refusal::Memory)),
            (outcome, times)
        );
    }
}
