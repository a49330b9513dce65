//! The next execution, forked ahead of time while no code runs.

use crate::runtime::process;

use super::{
    exec::PreforkedExec,
    poll_set::{MonotonicMicros, after, now},
    prepared_sandbox::PreparedSandbox,
};
use crate::protocol::{ExecProgram, ExecRequest};

/// Delay after the first execution's end before an execution is pre-forked, in milliseconds. A
/// sandbox for a single execution has ended by then.
const FIRST_DELAY_MS: u64 = 1;

/// A pre-forked execution, or when to start it.
#[derive(Debug)]
pub(super) struct PreforkPool {
    preforked: Option<PreforkedExec>,
    /// How many executions of code have started.
    executions_started: u32,
    /// When to pre-fork the next execution, if no code runs at that time.
    start_at: MonotonicMicros,
}

impl PreforkPool {
    pub(super) const fn new() -> Self {
        Self {
            preforked: None,
            executions_started: 0,
            start_at: MonotonicMicros::MAX,
        }
    }

    /// Takes the pre-forked execution for a request that runs code. `None` if there is none, or if
    /// it cannot run the request.
    pub(super) fn take(&mut self, request: &ExecRequest, message: &[u8]) -> Option<PreforkedExec> {
        if matches!(request.program, ExecProgram::Builtin(_)) {
            return None;
        }
        self.executions_started = self.executions_started.saturating_add(1);
        self.start_at = MonotonicMicros::MAX;
        // A pre-forked execution that cannot run the request ends here: code is about to run.
        let preforked = self.preforked.take();
        preforked.filter(|_| PreforkedExec::can_run(request, message))
    }

    /// Schedules a pre-forked execution after the last execution of code has ended.
    pub(super) fn schedule(&mut self) {
        if self.preforked.is_none() {
            let delay = if self.executions_started > 1 {
                0
            } else {
                FIRST_DELAY_MS
            };
            self.start_at = after(now(), delay);
        }
    }

    /// Pre-forks the next execution when it is due.
    pub(super) fn tick(&mut self, sandbox: &PreparedSandbox) {
        if self.start_at == MonotonicMicros::MAX || self.start_at > now() {
            return;
        }
        self.start_at = MonotonicMicros::MAX;
        // The client was just sent an end and may be waiting for this processor.
        process::yield_now();
        // If this fails, the next request forks its own execution and reports the failure.
        self.preforked = PreforkedExec::start(sandbox).ok();
    }

    /// The next time at which [`PreforkPool::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        (self.start_at != MonotonicMicros::MAX).then_some(self.start_at)
    }

    /// The pre-forked execution, if there is one.
    pub(super) fn idle(&self) -> Option<&PreforkedExec> {
        self.preforked.as_ref()
    }

    /// Ends the pre-forked execution; no more executions will start.
    pub(super) fn close(&mut self) {
        self.preforked = None;
        self.start_at = MonotonicMicros::MAX;
    }
}
