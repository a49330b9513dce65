//! The committed matrix: with and without measuring.

use std::fmt::Display;
use std::process::ExitCode;

use sandbox_conformance::profiles::{self, Comparison};
use sandbox_conformance::{Report, Target, Trouble, repeat, suite};
use sandbox_core::matrix::{CompatibilityMatrix, Profile, replace_block};
use sandbox_core::registry;

use super::{Arguments, options};

/// Compares the committed profiles and the documents with the compiled suite, or writes the
/// documents. Uses no engine.
///
/// # Errors
///
/// When a profile or a document cannot be read or written.
pub fn offline(arguments: &Arguments) -> Result<ExitCode, Trouble> {
    let committed = profiles::load(&arguments.matrix)?;
    let matrix = CompatibilityMatrix::new(committed.clone());
    let mut outdated = Vec::new();
    for (path, rendered) in [
        (&arguments.document, matrix.markdown()),
        (&arguments.summary, matrix.summary()),
    ] {
        let fail = |error: &dyn Display| Trouble::new(format!("{}: {error}", path.display()));
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

/// Profiles that are committed and that the backend, as compiled, does not know:
/// `CompatibilityMatrix::linked` would lack them.
fn unregistered(committed: &[(String, Profile)]) -> Result<Vec<String>, Trouble> {
    let linked = CompatibilityMatrix::linked()?;
    let tiers: Vec<&str> = registry::tiers()?.iter().map(|tier| tier.tier).collect();
    let missing = committed.iter().filter(|entry| {
        tiers.contains(&entry.1.tier.as_str()) && !linked.profiles().contains(entry)
    });
    Ok(missing
        .map(|(name, _)| format!("{name}: not what its backend registers"))
        .collect())
}

/// Compares what was measured with the committed profiles; what differs is repeated in fresh
/// sandboxes.
///
/// # Errors
///
/// When the suite's own means fail.
pub async fn compare(
    arguments: &Arguments,
    reports: &mut [Report],
) -> Result<Vec<String>, Trouble> {
    let committed = profiles::load(&arguments.matrix)?;
    let mut failures = Vec::new();
    for report in reports
        .iter_mut()
        .filter(|report| report.unavailable.is_none())
    {
        let tier = report.tier.clone();
        match profiles::compare(&committed, &report.profile()) {
            Comparison::OtherSuite => {
                failures.push(format!("{tier}: the committed profile is of another suite"));
            }
            Comparison::UnknownKey if arguments.require.contains(&tier) => failures.push(format!(
                "{tier}: no committed profile for this host, {}; cargo xtask matrix --write",
                profiles::name(&report.profile())
            )),
            Comparison::UnknownKey => {
                eprintln!("{tier}: no committed profile for this host: not compared");
            }
            Comparison::Same(differing) => {
                for (name, wanted, found) in differing {
                    let settled = settle(arguments, report, &committed, &name).await?;
                    failures.extend(settled.map(|repeated| {
                        format!(
                            "{tier} {name}: committed is {wanted}; measured is {found}{repeated}"
                        )
                    }));
                }
            }
        }
    }
    Ok(failures)
}

/// Repeats a probe that differs from what is committed. `None` where the repetitions agree with it,
/// and the first run told nothing; else what the repetitions say.
async fn settle(
    arguments: &Arguments,
    report: &mut Report,
    committed: &[(String, Profile)],
    name: &str,
) -> Result<Option<String>, Trouble> {
    let Some(position) = report
        .findings
        .iter()
        .position(|finding| finding.id == name)
    else {
        // Left out by a filter, or gone from the suite, which the suite's identity tells.
        return Ok(None);
    };
    let finding = &mut report.findings[position];
    if finding.repetitions.is_empty() {
        let target = Target::tier(&report.tier)?;
        *finding = repeat(&target, &options(arguments, &report.tier), finding).await?;
    }
    let repeated = format!("; repeated: {}", finding.verdicts());
    let profile = report.profile();
    let same = profiles::of_this_host(committed, &profile)
        .is_some_and(|committed| committed.probes.get(name) == profile.probes.get(name));
    if same {
        eprintln!("{} {name}: as committed at last{repeated}", report.tier);
    }
    Ok((!same).then_some(repeated))
}
