//! The committed matrix: comparing, writing and rendering it.

use std::fmt::Display;
use std::process::ExitCode;

use sandbox_conformance::profiles::{self, ProfileComparison};
use sandbox_conformance::{ProbeError, Report, Target, repeat, suite};
use sandbox_core::matrix::{CellState, CompatibilityMatrix, Profile, replace_block};
use sandbox_core::registry;

use super::{CommandLine, options};

/// Compares the committed profiles and the documents with the compiled suite, or writes the
/// documents. Uses no engine.
///
/// # Errors
///
/// If a profile or a document cannot be read or written.
pub fn offline(arguments: &CommandLine) -> Result<ExitCode, ProbeError> {
    let committed = profiles::load(&arguments.matrix)?;
    let matrix = CompatibilityMatrix::new(committed.clone());
    let mut outdated = Vec::new();
    for (path, rendered) in [
        (&arguments.document, matrix.markdown()),
        (&arguments.summary, matrix.summary()),
    ] {
        let fail = |error: &dyn Display| ProbeError::new(format!("{}: {error}", path.display()));
        let document = std::fs::read_to_string(path).map_err(|error| fail(&error))?;
        let updated = replace_block(&document, &rendered).map_err(|error| fail(&error))?;
        if updated != document {
            outdated.push((path, updated));
        }
    }
    if arguments.render {
        for (path, updated) in outdated {
            std::fs::write(path, updated)?;
            eprintln!("wrote {}", path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let linked = registry::tiers()?;
    let tiers: Vec<&str> = linked
        .iter()
        .filter(|tier| tier.applies_policy)
        .map(|tier| tier.tier)
        .collect();
    let mut failures = profiles::lacks(&committed, &suite::id(), &tiers);
    failures.extend(unregistered(&committed)?);
    for (path, _) in outdated {
        let path = path.display();
        failures.push(format!(
            "{path}: the matrix is not what the profiles say; cargo xtask matrix --write"
        ));
    }
    for failure in &failures {
        println!("FAILED {failure}");
    }
    println!("{} profiles, {} failed", committed.len(), failures.len());
    Ok(if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The committed profiles that the compiled backend does not contain. `CompatibilityMatrix::linked`
/// would lack them.
fn unregistered(committed: &[(String, Profile)]) -> Result<Vec<String>, ProbeError> {
    let linked = CompatibilityMatrix::linked()?;
    let tiers: Vec<&str> = registry::tiers()?.iter().map(|tier| tier.tier).collect();
    let missing = committed.iter().filter(|entry| {
        tiers.contains(&entry.1.tier.as_str()) && !linked.profiles().contains(entry)
    });
    Ok(missing
        .map(|(name, _)| format!("{name}: not what its backend registers"))
        .collect())
}

/// The linked cells that are told as enforced although a probe that gave a result has a declared
/// gap.
///
/// # Errors
///
/// If a linked profile is not valid.
pub fn untrue_cells() -> Result<Vec<String>, ProbeError> {
    let linked = CompatibilityMatrix::linked()?;
    let mut untrue = Vec::new();
    for (name, profile) in linked.profiles() {
        for subject in linked.subjects() {
            let cell = linked.cell(name, subject);
            let is_told = cell.is_some_and(|cell| cell.state == CellState::Enforced);
            let mut own = profile.probes.values().filter(|it| it.subject == subject);
            let has_gap = own.any(|it| {
                let declared = it.declared.as_ref();
                it.verdict.is_measured() && declared.is_some_and(|it| !it.is_enforced())
            });
            if is_told && has_gap {
                untrue.push(format!(
                    "{name}: {subject} has a gap, and is told as enforced"
                ));
            }
        }
    }
    Ok(untrue)
}

/// Compares the measured profiles with the committed ones. A probe that differs runs again in fresh
/// sandboxes.
///
/// # Errors
///
/// If the suite itself fails.
pub async fn compare(
    arguments: &CommandLine,
    reports: &mut [Report],
) -> Result<Vec<String>, ProbeError> {
    let committed = profiles::load(&arguments.matrix)?;
    let mut failures = Vec::new();
    for report in reports
        .iter_mut()
        .filter(|report| report.unavailable.is_none())
    {
        let tier = report.tier.clone();
        match profiles::compare(&committed, &report.profile()) {
            ProfileComparison::OtherSuite => {
                failures.push(format!("{tier}: the committed profile is of another suite"));
            }
            ProfileComparison::UnknownKey if arguments.require.contains(&tier) => {
                failures.push(format!(
                    "{tier}: no committed profile for this host, {}; cargo xtask matrix --write",
                    profiles::name(&report.profile())
                ))
            }
            ProfileComparison::UnknownKey => {
                eprintln!("{tier}: not compared, because no profile of this host is committed");
            }
            ProfileComparison::Same(differing) => {
                for (name, wanted, found) in differing {
                    let settled = settle(arguments, report, &committed, &name).await?;
                    // What the runs met is first, because long lines are cut.
                    failures.extend(settled.map(|repeated| {
                        format!(
                            "{tier} {name}: {repeated}; committed is {wanted}; measured is {found}"
                        )
                    }));
                }
            }
        }
    }
    Ok(failures)
}

/// Repeats a probe that differs from the committed profile. `None` if the first run was undecided
/// and the repetitions agree with the profile; else the new finding.
async fn settle(
    arguments: &CommandLine,
    report: &mut Report,
    committed: &[(String, Profile)],
    name: &str,
) -> Result<Option<String>, ProbeError> {
    let Some(position) = report
        .findings
        .iter()
        .position(|finding| finding.id == name)
    else {
        // A filter left it out, or another suite has it, which the suite's identity shows.
        return Ok(None);
    };
    let finding = &mut report.findings[position];
    if finding.repetitions.is_empty() {
        let target = Target::tier(&report.tier)?;
        *finding = repeat(&target, &options(arguments, &report.tier), finding).await?;
    }
    let repeated = format!("repeated: {}{}", finding.verdicts(), finding.deviation());
    let profile = report.profile();
    let same = profiles::of_this_host(committed, &profile)
        .is_some_and(|committed| committed.probes.get(name) == profile.probes.get(name));
    if same {
        eprintln!(
            "{} {name}: a repeated run equals the committed profile; {repeated}",
            report.tier
        );
    }
    Ok((!same).then_some(repeated))
}
