//! The state that a handle shares with its executions, and how an execution runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::audit::{AuditEvent, Auditor};
use crate::capture::Capture;
use crate::denial::{self, DenialLog};
use crate::extensions::Extensions;
use crate::secret;
use crate::spi::{Flow, Input, Instance, OutputSink, OutputStream, unsupported};
use crate::{ExecEnd, ExecRequest, ExecResult, Outcome, Plan, Result};

/// How long a backend may exceed an execution's time limit before the sandbox is destroyed, unless
/// the backend bounds executions itself ([`Instance::bounds_executions`]).
const OVERTIME: Duration = Duration::from_secs(4);

/// Overtime is counted in steps of this length. A step counts once, however long it took, so time
/// in which this process was stopped or starved does not count.
const OVERTIME_STEP: Duration = Duration::from_millis(250);

/// A sandbox, shared by its handle and its executions.
pub(crate) struct Running {
    pub(crate) tier: String,
    pub(crate) plan: Arc<Plan>,
    pub(crate) instance: Box<dyn Instance>,
    /// All denials so far.
    pub(crate) denials: DenialLog,
    /// When it was created, or attached to.
    pub(crate) created: SystemTime,
    /// Receives its events.
    pub(crate) auditor: Auditor,
    /// The number of executions so far.
    executions: AtomicU64,
    /// What other packages keep about it.
    pub(crate) extensions: Extensions,
    /// Whether it was ended through [`Running::stop`] or [`Running::kill`].
    ended: AtomicBool,
}

impl Running {
    pub(crate) fn new(
        tier: String,
        plan: Arc<Plan>,
        instance: Box<dyn Instance>,
        auditor: Auditor,
    ) -> Self {
        if auditor.is_heard() {
            instance.audit(auditor.clone());
        }
        Self {
            tier,
            plan,
            instance,
            denials: DenialLog::new(auditor.clone()),
            created: SystemTime::now(),
            auditor,
            executions: AtomicU64::new(0),
            extensions: Extensions::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Whether this process has ended the sandbox.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the sandbox, as [`Instance::stop`].
    pub(crate) async fn stop(&self, grace: Duration) -> Result<()> {
        self.instance.stop(grace).await?;
        self.set_ended();
        Ok(())
    }

    /// Ends the sandbox, as [`Instance::kill`].
    pub(crate) async fn kill(&self) -> Result<()> {
        self.instance.kill().await?;
        self.set_ended();
        Ok(())
    }

    fn set_ended(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.auditor.tell(|| AuditEvent::Removed);
        }
    }

    /// Runs an execution to its end. The result has the output that `capture` keeps; all output
    /// also goes to `live`.
    pub(crate) async fn run(
        &self,
        request: &ExecRequest,
        input: Input,
        capture: Capture,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        let timeout = self.time_limit(request);
        self.run_within(timeout, request, input, capture, live)
            .await
    }

    /// The time limit of an execution under the plan.
    pub(crate) fn time_limit(&self, request: &ExecRequest) -> Duration {
        let most = self.plan.timeout;
        request.timeout.map_or(most, |asked| asked.min(most))
    }

    /// As [`Running::run`] with a time limit that may exceed the plan's.
    pub(crate) async fn run_within(
        &self,
        timeout: Duration,
        request: &ExecRequest,
        input: Input,
        capture: Capture,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        request.validate()?;
        if request.terminal.is_some() && !self.instance.has_terminals() {
            return Err(unsupported("open terminal", &self.tier));
        }
        if let Some(user) = request.user_ids() {
            let is_other = self.instance.check_user(user);
            if is_other.map_err(|error| error.on(&self.tier))? {
                secret::check_for_other_user(request)?;
            }
        }
        let audited = AuditedExecution::start(self, request);
        let result = self
            .run_with_secrets(timeout, request, input, capture, live)
            .await;
        audited.end(&result);
        result
    }

    /// Runs a request that was checked, with its secrets in place.
    async fn run_with_secrets(
        &self,
        timeout: Duration,
        request: &ExecRequest,
        input: Input,
        capture: Capture,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        let mut request = request.clone().timeout(timeout);
        let secrets = secret::place(&mut request, &self.plan, &*self.instance, &self.tier).await?;
        let result = self.execute(&request, timeout, input, capture, live).await;
        // The program may have removed the files itself, and a sandbox that has ended has none.
        if let Err(error) = secrets.remove().await {
            tracing::warn!(tier = self.tier, %error, "files of secrets were not removed");
        }
        result
    }

    /// Runs a request that has its secrets, and explains what was denied to it.
    async fn execute(
        &self,
        request: &ExecRequest,
        timeout: Duration,
        input: Input,
        capture: Capture,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        let start = Instant::now();
        let receiver_time = ReceiverTime::default();
        let mut sink = Tee {
            capture,
            live,
            receiver_time: &receiver_time,
        };
        let bound = async {
            match self.instance.bounds_executions() {
                true => std::future::pending().await,
                false => receiver_time.overtime(timeout).await,
            }
        };
        let end = tokio::select! {
            biased;
            end = self.instance.exec(request, input, &mut sink) => Some(end?),
            () = bound => None,
        };
        let end = match end {
            Some(end) => end,
            None => self.give_up().await?,
        };
        let mut denials = denial::of_end(&self.plan, timeout, &end, &sink.capture.excess());
        denials.extend(&end.denials);
        self.denials.extend(&denials);
        let (stdout, stderr) = sink.capture.finish();
        Ok(ExecResult::new(
            end,
            stdout,
            stderr,
            start.elapsed(),
            timeout,
            denials,
        ))
    }

    /// The backend did not end an execution in time, so the sandbox is destroyed.
    async fn give_up(&self) -> Result<ExecEnd> {
        self.kill().await?;
        let mut end = ExecEnd::new(Outcome::TimedOut);
        end.incomplete =
            Some("the execution could not be ended alone: the sandbox was destroyed".into());
        Ok(end)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A detached sandbox outlives its handles.
        if !self.plan.detached && !self.has_ended() {
            self.auditor.tell(|| AuditEvent::Removed);
        }
    }
}

/// Tells of the end of an execution, also if its future is dropped.
struct AuditedExecution<'a> {
    auditor: &'a Auditor,
    execution: u64,
    ended: bool,
}

impl<'a> AuditedExecution<'a> {
    fn start(running: &'a Running, request: &ExecRequest) -> Self {
        let execution = running.executions.fetch_add(1, Ordering::Relaxed) + 1;
        let shown = if request.log { usize::MAX } else { 1 };
        running.auditor.tell(|| AuditEvent::ExecStarted {
            execution,
            argv: request
                .argv
                .iter()
                .take(shown)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
            secrets: request.secrets.keys().cloned().collect(),
            user: request.user.clone(),
        });
        Self {
            auditor: &running.auditor,
            execution,
            ended: false,
        }
    }

    fn end(mut self, result: &Result<ExecResult>) {
        self.ended = true;
        let ended = result.as_ref().ok();
        self.auditor.tell(|| AuditEvent::ExecEnded {
            execution: self.execution,
            outcome: ended.map(|result| result.outcome.clone()),
            error: result.as_ref().err().map(ToString::to_string),
            cpu_time: ended.and_then(|result| result.cpu_time),
            max_rss: ended.and_then(|result| result.max_rss),
        });
    }
}

impl Drop for AuditedExecution<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.auditor.tell(|| AuditEvent::ExecEnded {
                execution: self.execution,
                outcome: None,
                error: Some("the caller gave it up".into()),
                cpu_time: None,
                max_rss: None,
            });
        }
    }
}

/// The time that the receiver of output took. A program that ended in time keeps its exit code,
/// however late its output is read.
#[derive(Debug, Default)]
struct ReceiverTime(Mutex<TimeSpent>);

#[derive(Debug, Default)]
struct TimeSpent {
    before: Duration,
    since: Option<Instant>,
}

impl ReceiverTime {
    fn lock(&self) -> MutexGuard<'_, TimeSpent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) {
        self.lock().since = Some(Instant::now());
    }

    fn stop(&self) {
        let mut total = self.lock();
        if let Some(since) = total.since.take() {
            total.before = total.before.saturating_add(since.elapsed());
        }
    }

    fn total(&self) -> Duration {
        let total = self.lock();
        let now = total.since.map_or(Duration::ZERO, |since| since.elapsed());
        total.before.saturating_add(now)
    }

    /// Waits for the time limit, and then for the backend's overtime.
    async fn overtime(&self, timeout: Duration) {
        tokio::time::sleep(timeout).await;
        let mut left = OVERTIME;
        while !left.is_zero() {
            let before = self.total();
            tokio::time::sleep(OVERTIME_STEP).await;
            let reading = self.total().saturating_sub(before);
            left = left.saturating_sub(OVERTIME_STEP.saturating_sub(reading));
        }
    }
}

struct Tee<'l, 'r> {
    capture: Capture,
    live: Option<&'l mut dyn OutputSink>,
    receiver_time: &'r ReceiverTime,
}

#[async_trait]
impl OutputSink for Tee<'_, '_> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        let kept = self.capture.take(stream, bytes);
        let Some(live) = &mut self.live else {
            return kept;
        };
        self.receiver_time.start();
        let live = live.write(stream, bytes).await;
        self.receiver_time.stop();
        if kept == Flow::Stop { kept } else { live }
    }

    async fn started(&mut self) {
        if let Some(live) = &mut self.live {
            self.receiver_time.start();
            live.started().await;
            self.receiver_time.stop();
        }
    }
}
