//! What the command does.

mod arguments;
mod matrix;
mod progress;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use sandbox_conformance::known::KnownLeaks;
use sandbox_conformance::report::Whole;
use sandbox_conformance::selfcheck;
use sandbox_conformance::{
    Options, Report, Standing, Target, Trouble, probes, profiles, repeat, report, suite,
};
use sandbox_core::registry;

pub use arguments::Arguments;

/// A tier that was required could not be measured.
const NOT_MEASURED: u8 = 3;

/// Does what the arguments ask.
///
/// # Errors
///
/// When the suite's own means fail.
pub async fn run(arguments: &Arguments) -> Result<ExitCode, Trouble> {
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
    // What is wrong with the call is said before a minute's work, not after it.
    if suite::selected(&arguments.filter).is_empty() {
        return Err(Trouble::new(format!(
            "no probe's name holds {:?}; --list names them",
            arguments.filter
        )));
    }
    let earlier = arguments.compare.as_deref();
    let earlier = earlier.map(report::Earlier::load).transpose()?;
    let options = options(arguments, "");
    let known = KnownLeaks::load(&arguments.matrix)?;
    let mut failures = Vec::new();
    let mut whole = Whole::default();
    if arguments.proves_itself() {
        whole.self_checks = selfcheck::run_all(&options).await?;
    }
    #[cfg(feature = "mutants")]
    if let Some(mutants) = arguments.mutants(&tiers) {
        whole.mutants = selfcheck::run_mutants(&options, &mutants).await?;
    }
    for target in &targets {
        let mut measured = measure(arguments, target).await?;
        failures.extend(known.mark(&mut measured, SystemTime::now()));
        whole.tiers.push(measured);
    }
    let compared = earlier.map(|earlier| earlier.compare(&whole));
    report::write(&arguments.reports, &whole, compared.as_ref())?;
    for change in compared.iter().flat_map(|compared| &compared.changes) {
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
        let reports = &whole.tiers;
        for measured in reports.iter().filter(|report| report.unavailable.is_none()) {
            let name = profiles::store(&arguments.matrix, measured)?;
            eprintln!("wrote {name}.json");
        }
    }
    if arguments.check {
        failures.extend(matrix::compare(arguments, &mut whole.tiers).await?);
        failures.extend(vacuous(arguments, &whole));
    }
    for failure in &failures {
        println!("FAILED {}", report::printable(failure));
    }
    if let Some(compared) = &compared {
        println!("compared: {}", report::printable(&compared.told()));
    }
    eprintln!(
        "evidence: {}, and report.json, report.md and junit.xml beside it",
        arguments.reports.join("report.html").display()
    );
    print!("{}", report::summary(&whole, failures.len()));
    let missing = missing(arguments, &whole.tiers);
    for (tier, reason) in &missing {
        eprintln!(
            "error: {tier} is required and was not measured: {}",
            report::printable(reason)
        );
    }
    let nothing = whole.told_nothing();
    if let Some(nothing) = &nothing {
        eprintln!("error: {nothing}");
    }
    let bad = !whole.is_fine() || !failures.is_empty() || nothing.is_some();
    Ok(match (bad, missing.is_empty()) {
        // That nothing was told is because of what is missing.
        (_, false) if nothing.is_some() && failures.is_empty() => ExitCode::from(NOT_MEASURED),
        (true, _) => ExitCode::FAILURE,
        (false, false) => ExitCode::from(NOT_MEASURED),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// The tiers on which a run may make something. One that cannot be opened has nothing of it.
#[must_use]
pub fn touched(arguments: &Arguments) -> Vec<Target> {
    let linked = registry::tiers().unwrap_or_default();
    // Those of mutants too, whatever tiers were named.
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

fn list(arguments: &Arguments) -> Result<ExitCode, Trouble> {
    for tier in tiers(arguments)? {
        for probe in suite::selected(&arguments.filter) {
            println!("[{tier}] {}: {}", probe.id, probe.summary);
        }
    }
    println!("suite {}, {} probes", suite::id(), probes::all().len());
    Ok(ExitCode::SUCCESS)
}

/// The tiers that were named, or else every linked one that applies a policy.
fn tiers(arguments: &Arguments) -> Result<Vec<String>, Trouble> {
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

fn options(arguments: &Arguments, tier: &str) -> Options {
    let mut options = Options::default();
    options.filters = arguments.filter.clone();
    options.image = arguments.image_of(tier);
    options.jobs = arguments.jobs;
    options.creations = arguments.creations;
    options
}

async fn measure(arguments: &Arguments, target: &Target) -> Result<Report, Trouble> {
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
        if matches!(finding.standing(), Standing::Failed(_)) {
            *finding = repeat(target, &options, finding).await?;
        }
    }
    Ok(measured)
}

/// What makes a run say nothing although nothing failed.
fn vacuous(arguments: &Arguments, whole: &Whole) -> Vec<String> {
    let mut vacuous = Vec::new();
    let reports = &whole.tiers;
    if whole.self_checks.is_empty() && !arguments.proven_elsewhere {
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

fn missing<'a>(arguments: &Arguments, reports: &'a [Report]) -> Vec<(&'a str, &'a str)> {
    let required = reports
        .iter()
        .filter(|report| arguments.require.contains(&report.tier));
    required
        .filter_map(|report| Some((report.tier.as_str(), report.unavailable.as_deref()?)))
        .collect()
}
