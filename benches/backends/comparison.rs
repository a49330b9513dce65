//! Compares one backend with its reference tools, in rounds.

use std::time::Duration;

use crate::report::Report;
use crate::workload::{Contender, MeasureError, Timings, Workload};

/// The time limit of one run of a workload: many times the duration of the slowest one.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// A contender, and the workloads that it can still run.
struct Entry {
    contender: Box<dyn Contender>,
    workloads: Vec<Workload>,
}

impl Entry {
    fn new(contender: impl Contender + 'static) -> Self {
        let mut workloads = Workload::ALL.to_vec();
        workloads.retain(|workload| workload.is_chosen() && contender.supports(*workload));
        Self {
            contender: Box::new(contender),
            workloads,
        }
    }
}

/// The sandboxes of one backend and their reference tools.
pub struct Comparison {
    backend: &'static str,
    /// How many bytes a transfer moves.
    bytes: u64,
    /// The sandbox first, then its reference tools.
    entries: Vec<Entry>,
    /// How many pods were started.
    pod_starts: u32,
}

impl Comparison {
    /// A comparison of `sandbox`, without reference tools.
    pub fn new(backend: &'static str, sandbox: impl Contender + 'static, bytes: u64) -> Self {
        Self {
            backend,
            bytes,
            entries: vec![Entry::new(sandbox)],
            pod_starts: 0,
        }
    }

    /// Adds a reference tool.
    #[must_use]
    pub fn against(mut self, reference: impl Contender + 'static) -> Self {
        self.entries.push(Entry::new(reference));
        self
    }

    /// Runs the workloads of a round. `round` is `None` in the warm-up, which is not recorded.
    pub async fn run_round(&mut self, round: Option<u32>, rounds: u32, report: &mut Report) {
        for workload in Workload::ALL {
            if round.is_some_and(|round| !workload.runs_in(self.backend, round, rounds)) {
                continue;
            }
            let mut order: Vec<usize> = (0..self.entries.len()).collect();
            if round.is_some_and(|round| round % 2 == 1) {
                order.reverse();
            }
            for index in order {
                if self
                    .entries
                    .get(index)
                    .is_some_and(|entry| entry.workloads.contains(&workload))
                {
                    let timings = self.measure(index, workload).await;
                    self.record(index, workload, round, timings, report);
                }
            }
        }
    }

    async fn measure(&mut self, index: usize, workload: Workload) -> Timings {
        use Workload::{Create, OneShot};
        if self.backend == "k8s" && matches!(workload, OneShot | Create) {
            // A kubelet looks at its containers once a second. The fractional parts of multiples
            // of the golden ratio spread the starts evenly over that second.
            self.pod_starts += 1;
            let seconds = (f64::from(self.pod_starts) * 0.618_033_988_75).fract();
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let contender = &mut self.entries[index].contender;
        if workload.is_short(self.backend) {
            contender.run(workload).await?;
        }
        tokio::time::timeout(TIME_LIMIT, contender.run(workload)).await?
    }

    fn record(
        &mut self,
        index: usize,
        workload: Workload,
        round: Option<u32>,
        timings: Timings,
        report: &mut Report,
    ) {
        let (backend, is_sandbox) = (self.backend, index == 0);
        let entry = &mut self.entries[index];
        let name = entry.contender.name();
        match timings {
            Ok(timings) => {
                let bytes = workload.moves_bytes().then_some(self.bytes);
                for (measurement, elapsed) in timings {
                    if let Some(round) = round {
                        let key = (backend, measurement, !is_sandbox, name);
                        report.record(key, bytes, round, elapsed);
                    }
                }
            }
            Err(MeasureError::Unavailable(reason)) if is_sandbox => {
                report.leave_out(backend, &reason);
                // Without the sandbox, there is nothing to compare.
                self.entries.clear();
            }
            Err(MeasureError::Unavailable(reason)) => {
                report.leave_out(&format!("{name} beside {backend}"), &reason);
                entry.workloads.clear();
            }
            Err(MeasureError::Failed(reason)) => {
                let work = format!("{backend}, {}, {name}", workload.measurement());
                report.fail(&work, &reason);
                entry.workloads.retain(|kept| *kept != workload);
            }
        }
    }

    /// Removes everything that still runs.
    pub async fn finish(self, report: &mut Report) {
        for mut entry in self.entries {
            if let Err(error) = entry.contender.finish().await {
                let (MeasureError::Unavailable(reason) | MeasureError::Failed(reason)) = error;
                let name = entry.contender.name();
                report.fail(&format!("{}, clean-up, {name}", self.backend), &reason);
            }
        }
    }
}
