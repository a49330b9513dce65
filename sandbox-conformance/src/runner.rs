//! Runs the suite against one target.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join;
use sandbox_core::matrix::Verdict;

use crate::context::ProbeContext;
use crate::evidence::Evidence;
use crate::finding::{Finding, Repetition, Report};
use crate::host_fixture::HostFixture;
use crate::leftovers;
use crate::pool::SandboxPool;
use crate::probe::{Probe, ProbeError};
use crate::suite;
use crate::target::Target;
use crate::verdict::judge;

/// The number of repeated runs, in fresh sandboxes, that confirm a verdict.
pub const REPETITIONS: usize = 3;

/// The default of [`Options::creations`]. An unprotected creation was hit in one of three to one of
/// nine runs, so 20 creations all miss it in less than one run of ten.
pub const CREATIONS: u32 = 20;

/// A callback for each finding.
pub type ProgressCallback = Arc<dyn Fn(&Finding) + Send + Sync>;

/// How to run the suite.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Parts of the ids of the probes to run. Empty runs all.
    pub filters: Vec<String>,
    /// The image of every sandbox. `None` is the backend's default.
    pub image: Option<String>,
    /// The number of probes that run at the same time, at least 1. With more than one, as many that
    /// mostly wait run beside them.
    pub jobs: usize,
    /// The time limit of one probe.
    pub probe_limit: Duration,
    /// The number of sandboxes created while another sandbox renames their folders, at least 1.
    /// Above [`CREATIONS`], the time limit of a probe grows in proportion.
    pub creations: u32,
    /// Assumes that the host controls succeed. Only for self-checks: it can hide that a probe
    /// proves nothing.
    pub assume_host_controls: bool,
    /// Called with each finding.
    pub progress: Option<ProgressCallback>,
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
/// Every selected probe has a finding, sorted by id. If the target cannot run on this host, each is
/// [`Verdict::NotRun`] with the reason.
///
/// # Errors
///
/// If the host fixture cannot be created, or if a sandbox cannot be ended.
pub async fn run(target: &Target, options: &Options) -> Result<Report, ProbeError> {
    run_probes(target, options, &suite::selected(&options.filters)).await
}

/// As [`run`], for the probes with exactly these ids.
pub(crate) async fn run_exactly(
    target: &Target,
    options: &Options,
    names: &[&str],
) -> Result<Report, ProbeError> {
    let mut probes = suite::selected(&[]);
    probes.retain(|probe| names.contains(&probe.id));
    run_probes(target, options, &probes).await
}

async fn run_probes(
    target: &Target,
    options: &Options,
    probes: &[&'static Probe],
) -> Result<Report, ProbeError> {
    let (key, unavailable) = match target.key().await {
        Ok(key) => (key, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let findings = match &unavailable {
        Some(reason) => probes.iter().map(|probe| not_run(probe, reason)).collect(),
        None => {
            leftovers::remove_from_dead_runs(target).await;
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

/// Runs a probe again in sandboxes of its own, [`REPETITIONS`] times. Returns the last finding that
/// decided something, with the evidence of every run. The verdict is [`Verdict::Flaky`] if deciding
/// runs disagree, the first one included.
///
/// # Errors
///
/// As [`run`].
pub async fn repeat(
    target: &Target,
    options: &Options,
    first: &Finding,
) -> Result<Finding, ProbeError> {
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
            if decides(finding.verdict, &finding.evidence) || !decides(last.verdict, &last.evidence)
            {
                last = finding;
            }
        }
    }
    Ok(settled(last, runs))
}

/// Whether a run shows what the backend does. An attack that ended unclear, or that a busy engine did
/// not answer, shows neither a leak nor a denial, so it does not contradict a run that does.
fn decides(verdict: Verdict, evidence: &Evidence) -> bool {
    let shows_nothing = evidence
        .attack
        .as_ref()
        .is_some_and(|attack| attack.attempt.shows_nothing());
    verdict.is_measured() && !(verdict == Verdict::Unexplained && shows_nothing)
}

/// Combines the findings of several runs.
fn settled(mut last: Finding, runs: Vec<Repetition>) -> Finding {
    let deciding = runs
        .iter()
        .filter(|run| decides(run.verdict, &run.evidence));
    let mut verdicts = deciding.map(|run| run.verdict);
    if let Some(one) = verdicts.next()
        && verdicts.any(|other| other != one)
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
) -> Result<Vec<Finding>, ProbeError> {
    let fixture = Arc::new(HostFixture::prepare()?);
    let pool = Arc::new(SandboxPool::new(
        target.clone(),
        options.image.clone(),
        Arc::clone(&fixture),
    ));
    let waits = |probe: &&'static Probe| options.jobs > 1 && probe.waits;
    let (waiting, busy): (Vec<_>, Vec<_>) = mixed(probes).into_iter().partition(waits);
    let run = async |probes: Vec<&'static Probe>| {
        let runs = probes
            .into_iter()
            .map(|probe| run_one(probe, options, &fixture, &pool));
        let runs = futures_util::stream::iter(runs).buffer_unordered(options.jobs.max(1));
        runs.collect::<Vec<Finding>>().await
    };
    let (waited, mut findings) = join(run(waiting), run(busy)).await;
    findings.extend(waited);
    findings.sort_by_key(|finding| finding.id);
    pool.close().await?;
    Ok(findings)
}

/// The first probe of each area, then the second of each, and so on. Probes of one area need the
/// same: some mostly wait, and some create many sandboxes.
fn mixed(probes: &[&'static Probe]) -> Vec<&'static Probe> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut ranked: Vec<_> = probes
        .iter()
        .map(|probe| {
            let count = counts.entry(probe.area()).or_default();
            *count += 1;
            (*count, *probe)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, probe)| probe).collect()
}

async fn run_one(
    probe: &'static Probe,
    options: &Options,
    fixture: &Arc<HostFixture>,
    pool: &Arc<SandboxPool>,
) -> Finding {
    let start = Instant::now();
    let mut context = ProbeContext::new(probe, Arc::clone(fixture), Arc::clone(pool));
    context.assume_host_controls(options.assume_host_controls);
    context.set_creations(options.creations.max(1));
    let limit = options.probe_limit * options.creations.div_ceil(CREATIONS).max(1);
    let error = match tokio::time::timeout(limit, (probe.run)(&mut context)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error),
        Err(_) => {
            let end = context
                .end_sandbox()
                .await
                .err()
                .map(|error| format!("; {error}"))
                .unwrap_or_default();
            Some(ProbeError::new(format!(
                "the probe did not end within {limit:?}{end}"
            )))
        }
    };
    let evidence = context.finish(error).await;
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
    use crate::finding::ClaimStatus;

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
    fn disagreeing_runs_are_flaky_and_keep_their_evidence() {
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
        let expected = "runs disagree: leaked, enforced, enforced (attack `first`: succeeded)";
        assert_eq!(finding.claim_status(), ClaimStatus::Failed(expected.into()));
    }

    #[test]
    fn attack_without_an_answer_does_not_make_a_probe_flaky() {
        let unanswered = |attempt| Finding {
            evidence: Evidence {
                attack: Some(Step::new("attack", attempt)),
                ..Evidence::default()
            },
            ..found(Verdict::Unexplained, "")
        };
        let enforced = found(Verdict::Enforced, "denied");
        let settled_with = |attempt| {
            let runs = [&unanswered(attempt), &enforced].map(Repetition::from);
            settled(enforced.clone(), runs.into()).verdict
        };
        let unavailable = Attempt::blocked(["error:sandbox_unavailable (no answer)"]);
        assert_eq!(settled_with(unavailable.clone()), Verdict::Enforced);
        assert_eq!(settled_with(Attempt::unclear("no hit")), Verdict::Enforced);
        assert_eq!(
            settled_with(Attempt::blocked(["EACCES"])),
            Verdict::Flaky,
            "another denial is a contradiction"
        );
        let only = unanswered(unavailable);
        let runs = vec![Repetition::from(&only); 4];
        assert_eq!(settled(only, runs).verdict, Verdict::Unexplained);
    }

    #[test]
    fn undecided_run_does_not_make_a_probe_flaky() {
        let finding = of(&[
            (Verdict::Inconclusive, "first"),
            (Verdict::Enforced, "second"),
        ]);
        assert_eq!(finding.verdict, Verdict::Enforced);
        assert_eq!(finding.repetitions.len(), 2);
    }
}
