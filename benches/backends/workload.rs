//! The workloads, and the trait of what runs them.

use std::error::Error;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::OPTIONS;

/// The code of a cell.
pub const CELL: &str = "print(1)";

/// The name of the sandbox among the contenders.
pub const SANDBOX: &str = "sandbox";

/// Work that a sandbox and its reference tools do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// `true` in its own environment, which is removed afterwards.
    OneShot,
    /// `true` in an environment that already runs.
    WarmExec,
    /// [`CELL`] in an interpreter that already runs.
    WarmCell,
    /// [`CELL`] in a copy of an interpreter that has imported modules.
    ForkedCell,
    /// Create an environment that accepts input, then remove it.
    Create,
    /// Claim a sandbox that was created ahead, and run `true` in it.
    Claim,
    /// Read a program's standard output.
    Output,
    /// Copy a file in, then out.
    Copy,
}

impl Workload {
    /// Every workload. Those that move much memory come last, because they evict the caches.
    pub const ALL: [Self; 8] = [
        Self::OneShot,
        Self::WarmExec,
        Self::WarmCell,
        Self::ForkedCell,
        Self::Create,
        Self::Claim,
        Self::Output,
        Self::Copy,
    ];

    /// The measurement of a workload that has only one.
    pub const fn measurement(self) -> &'static str {
        match self {
            Self::OneShot => "one-shot",
            Self::WarmExec => "warm exec",
            Self::WarmCell => "warm cell",
            Self::ForkedCell => "forked cell",
            Self::Create => "create",
            Self::Claim => "claim",
            Self::Output => "output",
            Self::Copy => "copy",
        }
    }

    /// Whether the command line chooses it.
    pub fn is_chosen(self) -> bool {
        let work = &OPTIONS.work;
        work.is_empty() || work.iter().any(|chosen| chosen == self.measurement())
    }

    /// Whether it needs an interpreter.
    pub fn is_cell(self) -> bool {
        matches!(self, Self::WarmCell | Self::ForkedCell)
    }

    /// Whether it is measured as a rate.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Output | Self::Copy)
    }

    /// Whether it runs in `round`, counted from 0, of `rounds`. Every workload runs in round 0.
    pub fn runs_in(self, backend: &str, round: u32, rounds: u32) -> bool {
        let interval = match self {
            _ if self.is_short(backend) => 1,
            Self::WarmExec | Self::WarmCell | Self::ForkedCell => 5,
            _ => 10,
        };
        round.is_multiple_of(interval.min((rounds / 2).max(1)))
    }

    /// Whether it is so short that the caches that the previous workload left would distort it.
    /// Such a workload runs twice in a row, and the second run counts.
    pub fn is_short(self, backend: &str) -> bool {
        backend.starts_with("local") && !self.moves_bytes()
    }
}

/// How many bytes [`Workload::Output`] and [`Workload::Copy`] move; a smoke run needs only a few.
pub fn transfer_size(backend: &str) -> u64 {
    let mib = match backend {
        _ if OPTIONS.is_smoke() => 4,
        "local" => 256,
        // Its pods are small.
        "k8s" => 16,
        _ => 64,
    };
    mib << 20
}

/// The result of work, or why there is no measurement.
pub type Measured<T = ()> = Result<T, MeasureError>;

/// Why there is no measurement.
#[derive(Debug)]
pub enum MeasureError {
    /// This machine lacks what the contender needs.
    Unavailable(String),
    /// The contender is available, and its work failed.
    Failed(String),
}

impl MeasureError {
    /// Turns every failure into [`MeasureError::Unavailable`], for steps that fail only if the
    /// machine lacks something.
    pub fn into_unavailable(self) -> Self {
        Self::Unavailable(self.reason())
    }

    /// What the report says.
    pub fn reason(self) -> String {
        let (Self::Unavailable(reason) | Self::Failed(reason)) = self;
        reason
    }
}

impl<E: Error + 'static> From<E> for MeasureError {
    fn from(error: E) -> Self {
        use sandbox::ErrorKind::{SandboxUnavailable, UnknownBackend};
        let sandbox_error = (&error as &(dyn Error + 'static)).downcast_ref::<sandbox::Error>();
        match sandbox_error.map(sandbox::Error::kind) {
            Some(SandboxUnavailable | UnknownBackend) => Self::Unavailable(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The durations of one run of a workload, by what was measured.
#[derive(Default)]
pub struct Timings(pub Vec<(&'static str, Duration)>);

impl Timings {
    /// Notes a duration.
    pub fn add(&mut self, measurement: &'static str, elapsed: Duration) {
        self.0.push((measurement, elapsed));
    }

    /// Waits for `work`, notes how long it took, and returns its result.
    pub async fn time<T, E: Into<MeasureError>>(
        &mut self,
        measurement: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Measured<T> {
        let start = Instant::now();
        let result = work.await;
        self.add(measurement, start.elapsed());
        result.map_err(Into::into)
    }
}

/// Fails unless a transfer moved all bytes.
pub fn expect_bytes(received: usize, expected: u64) -> Measured {
    if received as u64 == expected {
        return Ok(());
    }
    let reason = format!("received {received} of {expected} bytes");
    Err(MeasureError::Failed(reason))
}

/// A sandbox backend or one of its reference tools.
#[async_trait(?Send)]
pub trait Contender {
    /// The name in the report.
    fn name(&self) -> &'static str;

    /// Whether it can do this work.
    fn supports(&self, workload: Workload) -> bool {
        !workload.is_cell() && workload != Workload::Claim
    }

    /// Does the work once, and notes how long it took, without what it needs beforehand.
    async fn run(&mut self, work: Workload, timings: &mut Timings) -> Measured;

    /// Removes everything that still runs.
    async fn finish(&mut self) -> Measured {
        Ok(())
    }
}
