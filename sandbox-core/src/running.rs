//! What a handle and its executions share, and how one execution is run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::capture::Capture;
use crate::denial::{self, DenialLog};
use crate::spi::{Flow, Input, Instance, OutputSink, OutputStream};
use crate::{ExecEnd, ExecRequest, ExecResult, Outcome, Plan, Result};

/// How long a backend may take beyond an execution's time limit before the sandbox is destroyed, unless it sets this bound itself
/// ([`Instance::bounds_executions`]).
const OVERTIME: Duration = Duration::from_secs(4);

/// The overtime is counted in steps of this length. A step counts once, however long it took: while this process is stopped or
/// starved, no overtime passes.
const STEP: Duration = Duration::from_millis(250);

/// A sandbox, for its handle and its executions.
pub(crate) struct Running {
    pub(crate) tier: String,
    pub(crate) plan: Arc<Plan>,
    pub(crate) instance: Box<dyn Instance>,
    /// Everything that was denied so far.
    pub(crate) denials: DenialLog,
}

impl Running {
    pub(crate) fn new(tier: String, plan: Arc<Plan>, instance: Box<dyn Instance>) -> Self {
        Self {
            tier,
            plan,
            instance,
            denials: DenialLog::default(),
        }
    }

    /// Runs an execution to its end. What `capture` keeps of the output is in the result; every piece goes to `live` too.
    pub(crate) async fn run(
        &self,
        request: &ExecRequest,
        input: Input,
        capture: Capture,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        request.validate()?;
        let mut request = request.clone();
        let timeout = request
            .timeout
            .map_or(self.plan.timeout, |asked| asked.min(self.plan.timeout));
        request.timeout = Some(timeout);
        let start = Instant::now();
        let reader = Reader::default();
        let mut sink = Tee {
            capture,
            live,
            reader: &reader,
        };
        let bound = async {
            match self.instance.bounds_executions() {
                true => std::future::pending().await,
                false => reader.overtime(timeout).await,
            }
        };
        let end = tokio::select! {
            biased;
            end = self.instance.exec(&request, input, &mut sink) => Some(end?),
            () = bound => None,
        };
        let end = match end {
            Some(end) => end,
            None => self.give_up().await?,
        };
        let denials = denial::of_end(&self.plan, timeout, &end, &sink.capture.excess());
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

    /// The backend could not end an execution in time: the sandbox goes with it.
    async fn give_up(&self) -> Result<ExecEnd> {
        self.instance.kill().await?;
        let mut end = ExecEnd::new(Outcome::TimedOut);
        end.incomplete =
            Some("the execution could not be ended alone: the sandbox was destroyed".into());
        Ok(end)
    }
}

/// How long the receiver of output has taken. That is not the backend's fault: a program that ended in time has its exit code,
/// however late somebody reads what it wrote.
#[derive(Debug, Default)]
struct Reader(Mutex<Spent>);

#[derive(Debug, Default)]
struct Spent {
    before: Duration,
    since: Option<Instant>,
}

impl Reader {
    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self) {
        self.lock().since = Some(Instant::now());
    }

    fn ends(&self) {
        let mut spent = self.lock();
        if let Some(since) = spent.since.take() {
            spent.before = spent.before.saturating_add(since.elapsed());
        }
    }

    fn spent(&self) -> Duration {
        let spent = self.lock();
        let now = spent.since.map_or(Duration::ZERO, |since| since.elapsed());
        spent.before.saturating_add(now)
    }

    /// Waits for the time limit, then until the backend has had its overtime.
    async fn overtime(&self, timeout: Duration) {
        tokio::time::sleep(timeout).await;
        let mut left = OVERTIME;
        while !left.is_zero() {
            let before = self.spent();
            tokio::time::sleep(STEP).await;
            let reading = self.spent().saturating_sub(before);
            left = left.saturating_sub(STEP.saturating_sub(reading));
        }
    }
}

struct Tee<'l, 'r> {
    capture: Capture,
    live: Option<&'l mut dyn OutputSink>,
    reader: &'r Reader,
}

#[async_trait]
impl OutputSink for Tee<'_, '_> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        let kept = self.capture.take(stream, bytes);
        let Some(live) = &mut self.live else {
            return kept;
        };
        self.reader.begins();
        let live = live.write(stream, bytes).await;
        self.reader.ends();
        if kept == Flow::Stop { kept } else { live }
    }

    async fn started(&mut self) {
        if let Some(live) = &mut self.live {
            self.reader.begins();
            live.started().await;
            self.reader.ends();
        }
    }
}
