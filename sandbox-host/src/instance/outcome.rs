//! Combines what the agent, the kernel and the host know about an execution into its result.

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandbox_agent::protocol::{ExitKind, ExitReport};
use sandbox_core::spi::EgressTraffic;
use sandbox_core::{Denials, ErrorKind, ExecEnd, Outcome, Refusal, Result};

use super::AgentInstance;
use crate::{Counters, lock};

const SIGKILL: i32 = 9;

/// What was known when an execution began.
#[derive(Debug)]
pub(super) struct ExecutionStart<'a> {
    at: Instant,
    timeout: Option<Duration>,
    /// Processes of the sandbox that the kernel had killed for memory; `None` if the host cannot
    /// count them.
    memory_kills: Option<u64>,
    counters: Counters,
    /// Bytes that connections under rules had sent and received; `None` without rules.
    carried: Option<EgressTraffic>,
    _running: RunningCount<'a>,
}

/// Counts a running execution.
#[derive(Debug)]
struct RunningCount<'a>(&'a AtomicUsize);

impl Drop for RunningCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How the host contributed to the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostAction {
    /// The receiver of the output stopped the execution.
    pub(super) stopped: bool,
    /// The caller requested a kill.
    pub(super) killed: bool,
}

impl AgentInstance {
    /// Reads the kernel's counters before an execution starts. They cover the whole sandbox:
    /// concurrent executions each report what was denied or killed while they ran.
    pub(super) async fn begin(&self, timeout: Option<Duration>) -> ExecutionStart<'_> {
        let others = self.running.fetch_add(1, Ordering::AcqRel);
        let running = RunningCount(&self.running);
        ExecutionStart {
            at: Instant::now(),
            timeout,
            memory_kills: self.isolator.oom_kills().await,
            // Reading the network counters takes 20 µs, forty times as long as the count of kills.
            // If nothing else could run, the counters have not changed since the last end.
            counters: if self.owned && others == 0 {
                *self.known_counters()
            } else {
                self.isolator.counters().await
            },
            carried: self.carried().await,
            _running: running,
        }
    }

    /// What connections under rules have carried; `None` without rules, or if nothing carries them.
    pub(super) async fn carried(&self) -> Option<EgressTraffic> {
        match (self.carrier(), &self.remote) {
            (Some(carrier), _) => Some(carrier.traffic()),
            (None, Some(remote)) => answered(remote.traffic().await),
            (None, None) => None,
        }
    }

    /// Connections that were denied since the last end of an execution.
    async fn denied_connections(&self) -> Denials {
        match (self.carrier(), &self.remote) {
            (Some(carrier), _) => carrier.take_denials(),
            (None, Some(remote)) => answered(remote.take_denials().await).unwrap_or_default(),
            (None, None) => Denials::default(),
        }
    }

    /// Processes killed for memory since the execution began; `None` if unknown. The host's count
    /// takes precedence over the agent's.
    async fn memory_kills(&self, start: &ExecutionStart<'_>, inside: Option<u64>) -> Option<u64> {
        match (start.memory_kills, self.isolator.oom_kills().await) {
            (Some(before), Some(now)) => Some(now.saturating_sub(before)),
            _ => inside,
        }
    }

    pub(super) fn known_counters(&self) -> MutexGuard<'_, Counters> {
        lock(&self.counters)
    }

    /// Denials that the kernel counted since the execution began.
    async fn refused_since(
        &self,
        start: &ExecutionStart<'_>,
    ) -> impl Iterator<Item = (Refusal, u64)> {
        let now = self.isolator.counters().await;
        let mut known = self.known_counters();
        *known = known.max(now);
        let kinds = [Refusal::ProcessLimit, Refusal::Network];
        kinds
            .into_iter()
            .zip(now.since(start.counters))
            .filter(|(_, times)| *times > 0)
    }

    /// The result of an execution whose end the agent reported.
    pub(super) async fn end(
        &self,
        start: &ExecutionStart<'_>,
        report: &ExitReport,
        part: HostAction,
    ) -> ExecEnd {
        let elapsed = start.at.elapsed();
        let memory_kills = self.memory_kills(start, report.memory_kills).await;
        let memory_kills = memory_kills.filter(|kills| *kills > 0);
        let oom = memory_kills.is_some();
        let in_time = |limit: Duration| elapsed < limit.mul_f32(0.9);
        let unknown = |reason: &str| Outcome::Unknown {
            reason: reason.to_owned(),
        };
        let outcome = match report.kind {
            _ if part.stopped => Outcome::OutputLimit,
            ExitKind::Exited(code) => Outcome::Exited { code: code.into() },
            ExitKind::Signaled(9) if oom => Outcome::OutOfMemory,
            ExitKind::Signaled(signal) => Outcome::Signaled {
                signal: signal.into(),
            },
            // The host's clock must agree, within the accuracy of timers.
            ExitKind::TimedOut if start.timeout.is_none_or(in_time) => {
                unknown("the agent reported a time-out before its time")
            }
            ExitKind::TimedOut => Outcome::TimedOut,
            ExitKind::Killed if part.killed => Outcome::Signaled { signal: SIGKILL },
            ExitKind::Killed => unknown("the agent reported a kill that was not requested"),
            ExitKind::Lost if oom => Outcome::OutOfMemory,
            ExitKind::Lost => unknown("the supervisor of the program vanished"),
        };
        let mut end = ExecEnd::new(outcome);
        end.stragglers = report.stragglers;
        end.cpu_time = Some(Duration::from_micros(report.cpu_us));
        end.max_rss = report.max_rss_kib.checked_mul(1024);
        let [read, written] = report.disk;
        (end.read, end.written) = (Some(read), Some(written));
        if let (Some(before), Some(now)) = (start.carried, self.carried().await) {
            end.egress_sent = Some(now.sent.saturating_sub(before.sent));
            end.egress_received = Some(now.received.saturating_sub(before.received));
        }
        end.refused.extend(refused(report));
        end.refused
            .extend(memory_kills.map(|kills| (Refusal::Memory, kills)));
        end.refused.extend(self.refused_since(start).await);
        end.denials = self.denied_connections().await;
        if report.drain_cut {
            end.incomplete =
                Some("a process held the output open after the program had ended".into());
        }
        end
    }

    /// The result of an execution whose sandbox ended with it. There is no agent to report more.
    pub(super) async fn lost(
        &self,
        start: &ExecutionStart<'_>,
        reason: String,
        stopped: bool,
    ) -> ExecEnd {
        let memory_kills = self.memory_kills(start, None).await;
        if memory_kills.is_some_and(|kills| kills > 0) {
            return ExecEnd::new(Outcome::OutOfMemory);
        }
        let known = self.isolator.post_mortem().await;
        let reason = known.map_or(reason.clone(), |known| format!("{reason}; {known}"));
        let incomplete = format!("the sandbox ended during the execution: {reason}");
        let mut end = ExecEnd::new(if stopped {
            // The host itself has seen this much.
            Outcome::OutputLimit
        } else {
            Outcome::Unknown { reason }
        });
        end.incomplete = Some(incomplete);
        end
    }
}

/// What the carrier has answered. Without a carrier there is nothing to report.
fn answered<T>(answer: Result<T>) -> Option<T> {
    if let Err(error) = &answer
        && error.kind() != ErrorKind::NotCarried
    {
        tracing::warn!(%error, "what connections have carried is unknown");
    }
    answer.ok()
}

/// Denials that the agent reports. A false report misleads but frees nothing.
fn refused(report: &ExitReport) -> impl Iterator<Item = (Refusal, u64)> {
    let counts = [
        (Refusal::Program, report.refused_programs),
        (Refusal::Process, report.refused_processes),
    ];
    let some = counts.into_iter().filter(|(_, times)| *times > 0);
    some.map(|(refusal, times)| (refusal, times.into()))
}
