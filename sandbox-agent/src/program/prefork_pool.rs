//! The next execution, prepared while no code runs.

use crate::runtime::process;

use super::{
    exec::PreforkedExec,
    poll_set::{MonotonicMicros, after, now},
    prepared_sandbox::PreparedSandbox,
};
use crate::protocol::{ExecRequest, Program};

/// How long after the end of the first execution a second one is prepared, milliseconds: a sandbox for one execution is
/// gone by then.
const FIRST_DELAY_MS: u64 = 1;

/// A spare execution, or when there will be one.
#[derive(Debug)]
pub(super) struct PreforkPool {
    preforked: Option<PreforkedExec>,
    /// How many executions of code have been started.
    executions_started: u32,
    /// When one is made, if no code runs then.
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

    /// The spare execution, which is taken for any request that runs code, and given where it suits.
    pub(super) fn take(&mut self, request: &ExecRequest, message: &[u8]) -> Option<PreforkedExec> {
        if matches!(request.program, Program::Builtin(_)) {
            return None;
        }
        self.executions_started = self.executions_started.saturating_add(1);
        self.start_at = MonotonicMicros::MAX;
        // Where it does not suit, it ends here all the same: code is about to run.
        let preforked = self.preforked.take();
        preforked.filter(|_| PreforkedExec::can_run(request, message))
    }

    /// The last code has ended: it is time for a spare execution soon.
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

    /// Makes one when it is time.
    pub(super) fn tick(&mut self, sandbox: &PreparedSandbox) {
        if self.start_at == MonotonicMicros::MAX || self.start_at > now() {
            return;
        }
        self.start_at = MonotonicMicros::MAX;
        // The host has just been told of an end, and may wait for this processor.
        process::yield_now();
        // Without one, the next execution is made when it is asked for, and says what fails.
        self.preforked = PreforkedExec::start(sandbox).ok();
    }

    /// The next moment at which [`PreforkPool::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<MonotonicMicros> {
        (self.start_at != MonotonicMicros::MAX).then_some(self.start_at)
    }

    /// The spare execution, if there is one.
    pub(super) fn idle(&self) -> Option<&PreforkedExec> {
        self.preforked.as_ref()
    }

    /// No more executions will come.
    pub(super) fn close(&mut self) {
        self.preforked = None;
        self.start_at = MonotonicMicros::MAX;
    }
}
