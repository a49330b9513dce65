//! The workloads, and the trait of what runs them.

use std::error::Error;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;

/// What the command line chooses for all contenders.
pub struct Choices {
    /// The image of every container and pod.
    pub image: String,
    /// The modules that are imported before the cells.
    pub modules: Vec<String>,
    /// The measurements of the workloads to run; none for all.
    pub work: Vec<String>,
}

static CHOICES: OnceLock<Choices> = OnceLock::new();

impl Choices {
    /// Sets them for this process.
    ///
    /// # Panics
    ///
    /// If they are set already.
    pub fn set(self) {
        assert!(CHOICES.set(self).is_ok(), "they are set once");
    }

    /// # Panics
    ///
    /// Unless they are set.
    pub fn get() -> &'static Self {
        CHOICES.get().expect("main sets them")
    }
}

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
        let work = &Choices::get().work;
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
pub fn transfer_size(backend: &str, smoke: bool) -> u64 {
    let mib = match backend {
        _ if smoke => 4,
        "local" => 256,
        // Its pods are small.
        "k8s" => 16,
        _ => 64,
    };
    mib << 20
}

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
        let (Self::Unavailable(reason) | Self::Failed(reason)) = self;
        Self::Unavailable(reason)
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
pub type Timings = Result<Vec<(&'static str, Duration)>, MeasureError>;

/// Waits for `work`, and returns its result and how long it took.
pub async fn timed<T, E: Into<MeasureError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<(T, Duration), MeasureError> {
    let start = Instant::now();
    let result = work.await;
    let elapsed = start.elapsed();
    Ok((result.map_err(Into::into)?, elapsed))
}

/// Fails unless a transfer moved all bytes.
pub fn expect_bytes(received: usize, expected: u64) -> Result<(), MeasureError> {
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

    /// Does the work once. What the work needs beforehand is not timed.
    async fn run(&mut self, workload: Workload) -> Timings;

    /// Removes everything that still runs.
    async fn finish(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }
}
