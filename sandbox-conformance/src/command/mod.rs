//! The actions of the command.

mod arguments;
mod matrix;
mod progress;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use sandbox_conformance::known_leaks::KnownLeaks;
use sandbox_conformance::report::RunResults;
use sandbox_conformance::selfcheck;
use sandbox_conformance::traces::Traces;
use sandbox_conformance::{
    ClaimStatus, Options, ProbeError, Report, Target, probes, profiles, repeat, report, suite,
};
use sandbox_core::registry;

pub use arguments::CommandLine;

/// How many of the things that a measurement has left are named.
const SHOWN: usize = 4;

/// The exit code if a required tier could not be measured.
const NOT_MEASURED: u8 = 3;

/// Does what the arguments ask for.
///
/// # Errors
///
/// If the suite itself fails.
pub async fn run(arguments: &CommandLine) -> Result<ExitCode, ProbeError> {
    if arguments.list {
        return list(arguments);
    }
    if arguments.render || arguments.check_committed {
        return matrix::offline(arguments);
    }
    let tiers = if arguments.measures_nothing() {
        Vec::new()
    } else {
        tiers(arguments)?
    };
    let targets = tiers
        .iter()
        .map(|tier| Target::tier_with(tier, arguments.settings()))
        .collect::<Result<Vec<_>, _>>()?;
    // Wrong arguments are reported before the run starts.
    if suite::selected(&arguments.filter).is_empty() {
        return Err(ProbeError::new(format!(
            "--filter matches no probe: {:?}; --list prints the names",
            arguments.filter
        )));
    }
    let earlier = arguments.compare.as_deref();
    let earlier = earlier.map(report::EarlierReport::load).transpose()?;
    let options = options(arguments, "");
    let known = KnownLeaks::load(&arguments.matrix)?;
    let mut failures = matrix::untrue_cells()?;
    let mut results = RunResults::default();
    if arguments.proves_itself() {
        results.self_checks = selfcheck::run_all(&options).await?;
    }
    #[cfg(feature = "mutants")]
    if let Some(mutants) = arguments.mutants(&tiers) {
        results.mutants = selfcheck::run_mutants(&options, &mutants).await?;
    }
    for target in &targets {
        let before = Traces::now();
        let mut measured = measure(arguments, target).await?;
        let left = before.added().await;
        if !left.is_empty() {
            failures.push(format!(
                "[{}] the measurement left on this host: {}{}",
                target.name(),
                left[..left.len().min(SHOWN)].join(", "),
                match left.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                }
            ));
        }
        failures.extend(known.mark(&mut measured, SystemTime::now()));
        results.tiers.push(measured);
    }
    let diff = earlier.map(|earlier| earlier.compare(&results));
    report::write(&arguments.reports, &results, diff.as_ref())?;
    for change in diff.iter().flat_map(|diff| &diff.changes) {
        let [before, now] = [&change.before, &change.now].map(|one| {
            one.as_deref()
                .map_or_else(|| "not there".into(), report::printable)
        });
        println!(
            "changed [{}] {}: {before}, now {now}",
            change.tier, change.probe
        );
    }
    if arguments.write_profile {
        let reports = &results.tiers;
        for measured in reports.iter().filter(|report| report.unavailable.is_none()) {
            let name = profiles::store(&arguments.matrix, measured)?;
            eprintln!("wrote {name}.json");
        }
    }
    if arguments.check {
        failures.extend(matrix::compare(arguments, &mut results.tiers).await?);
        failures.extend(vacuous(arguments, &results));
    }
    for failure in &failures {
        println!("FAILED {}", report::printable(failure));
    }
    if let Some(diff) = &diff {
        println!("compared: {}", report::printable(&diff.summary()));
    }
    eprintln!(
        "evidence: {}, and report.json, report.md and junit.xml beside it",
        arguments.reports.join("report.html").display()
    );
    print!("{}", report::summary(&results, failures.len()));
    let missing = missing(arguments, &results.tiers);
    for (tier, reason) in &missing {
        eprintln!(
            "error: {tier} is required and could not be measured: {}",
            report::printable(reason)
        );
    }
    let nothing = results.without_measurements();
    if let Some(nothing) = &nothing {
        eprintln!("error: {nothing}");
    }
    let bad = !results.is_fine() || !failures.is_empty() || nothing.is_some();
    Ok(match (bad, missing.is_empty()) {
        // The missing tier is the reason that no probe decided anything.
        (_, false) if nothing.is_some() && failures.is_empty() => ExitCode::from(NOT_MEASURED),
        (true, _) => ExitCode::FAILURE,
        (false, false) => ExitCode::from(NOT_MEASURED),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// The tiers on which a run may create something. A tier that cannot be opened is skipped.
#[must_use]
pub fn touched(arguments: &CommandLine) -> Vec<Target> {
    let linked = registry::tiers().unwrap_or_default();
    // Includes the tiers of mutants, whatever tiers were named.
    let linked = linked.iter().filter(|tier| tier.applies_policy);
    let mut names: Vec<String> = linked.map(|tier| tier.tier.to_owned()).collect();
    let named = arguments.tier.iter().chain(&arguments.require);
    names.extend(named.cloned());
    names.sort();
    names.dedup();
    names
        .iter()
        .filter_map(|name| Target::tier(name).ok())
        .collect()
}

fn list(arguments: &CommandLine) -> Result<ExitCode, ProbeError> {
    let mut text = String::new();
    for tier in tiers(arguments)? {
        for probe in suite::selected(&arguments.filter) {
            text += &format!("[{tier}] {}: {}\n", probe.id, probe.summary);
        }
    }
    text += &format!("suite {}, {} probes\n", suite::id(), probes::all().len());
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader such as `head` wants only the beginning.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The named tiers, or else every linked tier that applies a policy.
fn tiers(arguments: &CommandLine) -> Result<Vec<String>, ProbeError> {
    let mut tiers = arguments.tier.clone();
    if tiers.is_empty() {
        let linked = registry::tiers()?;
        tiers = linked
            .iter()
            .filter(|tier| tier.applies_policy)
            .map(|tier| tier.tier.to_owned())
            .collect();
    }
    for required in &arguments.require {
        if !tiers.contains(required) {
            tiers.push(required.clone());
        }
    }
    Ok(tiers)
}

fn options(arguments: &CommandLine, tier: &str) -> Options {
    let mut options = Options::default();
    options.filters = arguments.filter.clone();
    options.image = arguments.image_of(tier);
    options.jobs = arguments.jobs;
    options.creations = arguments.creations;
    options
}

async fn measure(arguments: &CommandLine, target: &Target) -> Result<Report, ProbeError> {
    let tier = target.name();
    let mut options = options(arguments, tier);
    if arguments.verbose {
        let tier = tier.to_owned();
        options.progress = Some(Arc::new(move |finding| {
            eprintln!("{}", report::line(&tier, finding))
        }));
    } else if std::io::stderr().is_terminal() {
        let all = suite::selected(&arguments.filter).len();
        options.progress = Some(progress::bar(tier, all));
    }
    let measured = sandbox_conformance::run(target, &options).await;
    if options.progress.take().is_some() && !arguments.verbose {
        progress::clear();
    }
    let mut measured = measured?;
    for finding in &mut measured.findings {
        if matches!(finding.claim_status(), ClaimStatus::Failed(_)) {
            *finding = repeat(target, &options, finding).await?;
        }
    }
    Ok(measured)
}

/// The reasons why a run without failures still proves nothing.
fn vacuous(arguments: &CommandLine, results: &RunResults) -> Vec<String> {
    let mut vacuous = Vec::new();
    let reports = &results.tiers;
    if results.self_checks.is_empty() && !arguments.proven_elsewhere {
        vacuous.push("the self-checks did not run".to_owned());
    }
    if reports.iter().all(|report| report.unavailable.is_some()) {
        vacuous.push("no tier was measured".to_owned());
    }
    let registered = probes::all().len();
    for report in reports.iter().filter(|report| report.unavailable.is_none()) {
        if report.findings.len() != registered && arguments.filter.is_empty() {
            vacuous.push(format!(
                "{}: {} of {registered} probes ran",
                report.tier,
                report.findings.len()
            ));
        }
    }
    vacuous
}

fn missing<'a>(arguments: &CommandLine, reports: &'a [Report]) -> Vec<(&'a str, &'a str)> {
    let required = reports
        .iter()
        .filter(|report| arguments.require.contains(&report.tier));
    required
        .filter_map(|report| Some((report.tier.as_str(), report.unavailable.as_deref()?)))
        .collect()
}
