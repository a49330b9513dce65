//! Compares one backend with its reference tools, in rounds.

use std::time::Duration;

use crate::report::Report;
use crate::workload::{Contender, MeasureError, Measured, Timings, Workload, transfer_size};

/// The time limit of one run of a workload: many times the duration of the slowest one.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// A contender, and the workloads that it can still run.
struct ContenderEntry {
    contender: Box<dyn Contender>,
    workloads: Vec<Workload>,
}

/// The sandboxes of one backend and their reference tools.
pub struct Comparison {
    backend: &'static str,
    /// The sandbox first, then its reference tools.
    entries: Vec<ContenderEntry>,
    /// How many pods were started.
    pod_starts: u32,
}

impl Comparison {
    /// A comparison of nothing yet. The sandbox comes first.
    pub fn new(backend: &'static str) -> Self {
        Self {
            backend,
            entries: Vec::new(),
            pod_starts: 0,
        }
    }

    /// Adds the sandbox, or a reference tool.
    #[must_use]
    pub fn with(mut self, contender: impl Contender + 'static) -> Self {
        let mut workloads = Workload::ALL.to_vec();
        workloads.retain(|workload| workload.is_chosen() && contender.supports(*workload));
        self.entries.push(ContenderEntry {
            contender: Box::new(contender),
            workloads,
        });
        self
    }

    /// Runs the workloads of a round. `round` is `None` in the warm-up, which is not recorded.
    pub async fn run_round(&mut self, round: Option<u32>, rounds: u32, report: &mut Report) {
        for work in Workload::ALL {
            if round.is_some_and(|round| !work.runs_in(self.backend, round, rounds)) {
                continue;
            }
            let mut order: Vec<usize> = (0..self.entries.len()).collect();
            if round.is_some_and(|round| round % 2 == 1) {
                order.reverse();
            }
            for index in order {
                if !self.entries[index].workloads.contains(&work) {
                    continue;
                }
                let timings = match self.measure(index, work).await {
                    Ok(timings) => timings,
                    Err(error) => {
                        self.leave_out(index, work, error, report);
                        continue;
                    }
                };
                let Some(round) = round else { continue };
                let bytes = work.moves_bytes().then(|| transfer_size(self.backend));
                let name = self.entries[index].contender.name();
                for (measurement, elapsed) in timings.0 {
                    let key = (self.backend, measurement, index > 0, name);
                    report.record(key, bytes, round, elapsed);
                }
            }
        }
    }

    async fn measure(&mut self, index: usize, work: Workload) -> Measured<Timings> {
        use Workload::{Create, OneShot};
        if self.backend == "k8s" && matches!(work, OneShot | Create) {
            // A kubelet looks at its containers once a second. The fractional parts of multiples
            // of the golden ratio spread the starts evenly over that second.
            self.pod_starts += 1;
            let seconds = (f64::from(self.pod_starts) * 0.618_033_988_75).fract();
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let contender = &mut self.entries[index].contender;
        if work.is_short(self.backend) {
            contender.run(work, &mut Timings::default()).await?;
        }
        let mut timings = Timings::default();
        tokio::time::timeout(TIME_LIMIT, contender.run(work, &mut timings)).await??;
        Ok(timings)
    }

    /// Runs no more of the work that failed, or of what is unavailable.
    fn leave_out(&mut self, index: usize, work: Workload, error: MeasureError, to: &mut Report) {
        let (backend, entry) = (self.backend, &mut self.entries[index]);
        let name = entry.contender.name();
        match error {
            MeasureError::Unavailable(reason) if index == 0 => {
                to.leave_out(backend, &reason);
                // Without the sandbox, there is nothing to compare.
                for entry in &mut self.entries {
                    entry.workloads.clear();
                }
            }
            MeasureError::Unavailable(reason) => {
                to.leave_out(&format!("{name} beside {backend}"), &reason);
                entry.workloads.clear();
            }
            MeasureError::Failed(reason) => {
                let failed = format!("{backend}, {}, {name}", work.measurement());
                to.fail(&failed, &reason);
                entry.workloads.retain(|kept| *kept != work);
            }
        }
    }

    /// Removes everything that still runs.
    pub async fn finish(self, report: &mut Report) {
        for mut entry in self.entries {
            if let Err(error) = entry.contender.finish().await {
                let name = entry.contender.name();
                let work = format!("{}, clean-up, {name}", self.backend);
                report.fail(&work, &error.reason());
            }
        }
    }
}
