//! The next execution, prepared while no code runs.

use crate::runtime::process;

use super::{
    exec::Spare,
    polling::{Moment, after, now},
    sandbox::Sandbox,
};
use crate::protocol::{ExecRequest, Program};

/// How long after the end of the first execution a second one is prepared, milliseconds: a sandbox for one execution is
/// gone by then.
const PAUSE: u64 = 1;

/// A spare execution, or when there will be one.
#[derive(Debug)]
pub(super) struct Reserve {
    spare: Option<Spare>,
    /// How many executions of code have been started.
    begun: u32,
    /// When one is made, if no code runs then.
    at: Moment,
}

impl Reserve {
    pub(super) const fn new() -> Self {
        Self {
            spare: None,
            begun: 0,
            at: Moment::MAX,
        }
    }

    /// The spare execution, which is taken for any request that runs code, and given where it suits.
    pub(super) fn take(&mut self, request: &ExecRequest, message: &[u8]) -> Option<Spare> {
        if matches!(request.program, Program::Builtin(_)) {
            return None;
        }
        self.begun = self.begun.saturating_add(1);
        self.at = Moment::MAX;
        // Where it does not suit, it ends here all the same: code is about to run.
        let spare = self.spare.take();
        spare.filter(|_| Spare::suits(request, message))
    }

    /// The last code has ended: it is time for a spare execution soon.
    pub(super) fn plan(&mut self) {
        if self.spare.is_none() {
            let pause = if self.begun > 1 { 0 } else { PAUSE };
            self.at = after(now(), pause);
        }
    }

    /// Makes one when it is time.
    pub(super) fn tick(&mut self, sandbox: &Sandbox) {
        if self.at == Moment::MAX || self.at > now() {
            return;
        }
        self.at = Moment::MAX;
        // The host has just been told of an end, and may wait for this processor.
        process::yield_now();
        // Without one, the next execution is made when it is asked for, and says what fails.
        self.spare = Spare::start(sandbox).ok();
    }

    /// The next moment at which [`Reserve::tick`] has something to do.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        (self.at != Moment::MAX).then_some(self.at)
    }

    /// The spare execution, if there is one.
    pub(super) fn spare(&self) -> Option<&Spare> {
        self.spare.as_ref()
    }

    /// No more executions will come.
    pub(super) fn end(&mut self) {
        self.spare = None;
        self.at = Moment::MAX;
    }
}
