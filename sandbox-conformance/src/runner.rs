//! Runs the suite against one target.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use sandbox_core::matrix::Verdict;

use crate::evidence::Evidence;
use crate::finding::{Finding, Repetition, Report};
use crate::grounds::Grounds;
use crate::pool::Pool;
use crate::probe::{Probe, Trouble};
use crate::remains;
use crate::stage::Stage;
use crate::suite;
use crate::target::Target;
use crate::verdict::judge;

/// How often a probe is run again, in a fresh sandbox, before its verdict is believed.
pub const REPETITIONS: usize = 3;

/// How many sandboxes are created while another one renames what they are given, unless [`Options::creations`] says otherwise.
/// An unprotected creation has been hit in one of three to one of nine runs; 20 of them all miss it in less than one run of ten.
pub const CREATIONS: u32 = 20;

/// What is called with each finding.
pub type Progress = Arc<dyn Fn(&Finding) + Send + Sync>;

/// How to run the suite.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Parts of the names of the probes to run; empty is all.
    pub filters: Vec<String>,
    /// The image of every sandbox; `None` is the backend's default.
    pub image: Option<String>,
    /// How many probes run at the same time, at least 1.
    pub jobs: usize,
    /// The longest that one probe may take.
    pub probe_limit: Duration,
    /// How many sandboxes are created while another one renames what they are given, at least 1. A probe may take longer for more
    /// than [`CREATIONS`].
    pub creations: u32,
    /// Takes the host controls for granted. Only for self-checks: it can hide that a probe proves nothing.
    pub assume_host_controls: bool,
    /// Called with each finding as it comes.
    pub progress: Option<Progress>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("filters", &self.filters)
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    /// Every probe, four at a time, each at most 90 s.
    fn default() -> Self {
        Self {
            filters: Vec::new(),
            image: None,
            jobs: 4,
            probe_limit: Duration::from_secs(90),
            creations: CREATIONS,
            assume_host_controls: false,
            progress: None,
        }
    }
}

/// Runs the suite against `target`.
///
/// Every selected probe has a finding, in the order of names. Where the target cannot run on this host, each is
/// [`Verdict::NotRun`] with the reason.
///
/// # Errors
///
/// When the suite's own grounds cannot be made, or a sandbox could not be ended.
pub async fn run(target: &Target, options: &Options) -> Result<Report, Trouble> {
    run_probes(target, options, &suite::selected(&options.filters)).await
}

/// As [`run`], with the probes of exactly these names.
pub(crate) async fn run_exactly(
    target: &Target,
    options: &Options,
    names: &[&str],
) -> Result<Report, Trouble> {
    let mut probes = suite::selected(&[]);
    probes.retain(|probe| names.contains(&probe.id));
    run_probes(target, options, &probes).await
}

async fn run_probes(
    target: &Target,
    options: &Options,
    probes: &[&'static Probe],
) -> Result<Report, Trouble> {
    let (key, unavailable) = match target.key().await {
        Ok(key) => (key, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let findings = match &unavailable {
        Some(reason) => probes.iter().map(|probe| not_run(probe, reason)).collect(),
        None => {
            remains::remove_of_killed(target).await;
            run_all(target, options, probes).await?
        }
    };
    Ok(Report {
        tier: target.name().to_owned(),
        suite: suite::id(),
        key,
        unavailable,
        findings,
    })
}

/// Runs a probe again in sandboxes that nothing else uses, [`REPETITIONS`] times. The finding of the last run that told
/// something, with [`Verdict::Flaky`] where such runs, the first one included, do not agree. It keeps what was seen in each.
///
/// # Errors
///
/// As [`run`].
pub async fn repeat(
    target: &Target,
    options: &Options,
    first: &Finding,
) -> Result<Finding, Trouble> {
    let probes: Vec<_> = suite::selected(&[])
        .into_iter()
        .filter(|probe| probe.id == first.id)
        .collect();
    let mut runs = vec![Repetition::from(first)];
    let mut last = first.clone();
    for _ in 0..REPETITIONS {
        let mut again = run_all(target, options, &probes).await?;
        if let Some(finding) = again.pop() {
            runs.push(Repetition::from(&finding));
            if finding.verdict.is_measured() || !last.verdict.is_measured() {
                last = finding;
            }
        }
    }
    Ok(settled(last, runs))
}

/// The finding of several runs.
fn settled(mut last: Finding, runs: Vec<Repetition>) -> Finding {
    let verdicts = runs.iter().map(|run| run.verdict);
    let mut measured = verdicts.filter(|verdict| verdict.is_measured());
    if let Some(one) = measured.next()
        && measured.any(|other| other != one)
    {
        last.verdict = Verdict::Flaky;
    }
    last.repetitions = runs;
    last
}

async fn run_all(
    target: &Target,
    options: &Options,
    probes: &[&'static Probe],
) -> Result<Vec<Finding>, Trouble> {
    let grounds = Arc::new(Grounds::prepare()?);
    let pool = Arc::new(Pool::new(
        target.clone(),
        options.image.clone(),
        Arc::clone(&grounds),
    ));
    let runs = probes
        .iter()
        .map(|probe| run_one(probe, options, &grounds, &pool));
    let mut findings: Vec<Finding> = futures_util::stream::iter(runs)
        .buffer_unordered(options.jobs.max(1))
        .collect()
        .await;
    findings.sort_by_key(|finding| finding.id);
    pool.close().await?;
    Ok(findings)
}

async fn run_one(
    probe: &'static Probe,
    options: &Options,
    grounds: &Arc<Grounds>,
    pool: &Arc<Pool>,
) -> Finding {
    let start = Instant::now();
    let mut stage = Stage::new(probe, Arc::clone(grounds), Arc::clone(pool));
    stage.assume_host_controls(options.assume_host_controls);
    stage.meet(options.creations.max(1));
    let limit = options.probe_limit * options.creations.div_ceil(CREATIONS).max(1);
    let trouble = match tokio::time::timeout(limit, (probe.run)(&mut stage)).await {
        Ok(Ok(())) => None,
        Ok(Err(trouble)) => Some(trouble),
        Err(_) => {
            let end = stage
                .end_sandbox()
                .await
                .err()
                .map(|error| format!("; {error}"))
                .unwrap_or_default();
            Some(Trouble::new(format!("no end after {limit:?}{end}")))
        }
    };
    let evidence = stage.leave(trouble).await;
    let finding = Finding::new(
        probe,
        judge(probe.subject, &evidence, probe.denials),
        evidence,
        u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
    );
    if let Some(progress) = &options.progress {
        progress(&finding);
    }
    finding
}

fn not_run(probe: &'static Probe, reason: &str) -> Finding {
    let evidence = Evidence {
        not_run: Some(reason.to_owned()),
        ..Evidence::default()
    };
    Finding::new(probe, Verdict::NotRun, evidence, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Attempt;
    use crate::evidence::Step;
    use crate::finding::Standing;

    fn found(verdict: Verdict, seen: &str) -> Finding {
        let evidence = Evidence {
            attack: Some(Step::new(seen, Attempt::succeeded())),
            ..Evidence::default()
        };
        Finding::new(suite::selected(&[])[0], verdict, evidence, 7)
    }

    fn of(runs: &[(Verdict, &str)]) -> Finding {
        let found: Vec<_> = runs
            .iter()
            .map(|(verdict, seen)| found(*verdict, seen))
            .collect();
        let last = found.last().expect("a run").clone();
        settled(last, found.iter().map(Repetition::from).collect())
    }

    #[test]
    fn runs_that_disagree_are_flaky_and_each_keeps_what_it_saw() {
        let finding = of(&[
            (Verdict::Leaked, "first"),
            (Verdict::Enforced, "second"),
            (Verdict::Enforced, "third"),
        ]);
        assert_eq!(finding.verdict, Verdict::Flaky);
        let seen: Vec<_> = finding
            .repetitions
            .iter()
            .filter_map(|run| Some(run.evidence.attack.as_ref()?.action.as_str()))
            .collect();
        assert_eq!(seen, ["first", "second", "third"]);
        let said = "runs disagree: leaked, enforced, enforced (attack `first`: succeeded)";
        assert_eq!(finding.standing(), Standing::Failed(said.into()));
    }

    #[test]
    fn a_run_that_told_nothing_disagrees_with_none() {
        let finding = of(&[
            (Verdict::Inconclusive, "first"),
            (Verdict::Enforced, "second"),
        ]);
        assert_eq!(finding.verdict, Verdict::Enforced);
        assert_eq!(finding.repetitions.len(), 2);
    }
}
