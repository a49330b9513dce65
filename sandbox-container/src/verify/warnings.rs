//! Applies an engine's warnings about a new container: options that it did not apply.

use sandbox_core::spi::escape;
use sandbox_core::{Capability, EnforcementReport, Error, ErrorKind, Result};

use crate::Tier;

/// Weakens entries that a warning is about to partial. Other warnings become notes.
///
/// # Errors
///
/// `Unsupported` for an explicitly configured engine option that the engine discarded.
pub(crate) fn apply_warnings(
    tier: Tier,
    report: &mut EnforcementReport,
    warnings: &[String],
) -> Result<()> {
    for warning in warnings {
        let lowercase = warning.to_lowercase();
        if lowercase.contains("weight") {
            let context = format!("engine option io_weight: the engine says: {warning}");
            let error = Error::new(ErrorKind::Unsupported, "create sandbox", context);
            return Err(error
                .on(tier)
                .with_fix("leave it out, or use another engine"));
        }
        // Warnings that name no limit (an image's platform, a deprecated field) affect none.
        let Some(capability) = affected_limit(&lowercase) else {
            let engine = tier.family.engine;
            report.note(format!("{engine} warns: {}", escape(warning.trim())));
            continue;
        };
        if let Some(entry) = report.get(capability).cloned() {
            let gap = format!("the engine says: {warning}");
            report.set(capability, entry.weakened(gap));
        }
    }
    Ok(())
}

/// The limit that an engine's warning is about.
fn affected_limit(warning: &str) -> Option<Capability> {
    let any = |parts: &[&str]| parts.iter().any(|part| warning.contains(part));
    if any(&["memory", "swap", "oom"]) {
        Some(Capability::Memory)
    } else if any(&["pids", "processes"]) {
        Some(Capability::Pids)
    } else if any(&["cpu"]) {
        Some(Capability::Cpus)
    } else if any(&["storage", "quota"]) {
        Some(Capability::Disk)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use sandbox_core::Enforcement;

    use super::*;
    use crate::family::samples::TIER;

    fn report() -> EnforcementReport {
        let mut report = EnforcementReport::new();
        report
            .set(Capability::Memory, Enforcement::enforced("cgroup"))
            .set(Capability::Pids, Enforcement::unenforced("no cgroup"));
        report
    }

    #[test]
    fn discarded_limit_is_partial() {
        let mut report = report();
        let warnings = [
            "Your kernel does not support swap limit capabilities. Memory limited without swap.",
            "Your kernel does not support pids limit capabilities. PIDs limit discarded.",
            "The requested image's platform does not match the host's",
        ];
        apply_warnings(TIER, &mut report, &warnings.map(str::to_owned)).expect("noted");
        let memory = report.get(Capability::Memory).expect("an entry");
        assert_eq!(memory.status(), "partial");
        assert!(memory.to_string().contains("without swap"), "{memory}");
        assert_eq!(
            report.notes(),
            ["Docker warns: The requested image's platform does not match the host's"]
        );
        // Entries that are already weaker stay.
        let pids = report.get(Capability::Pids).map(Enforcement::status);
        assert_eq!(pids, Some("unenforced"));
    }

    #[test]
    fn discarded_option_is_refused() {
        let warnings = "Your kernel does not support Block I/O weight. Weight discarded.";
        let error =
            apply_warnings(TIER, &mut report(), &[warnings.to_owned()]).expect_err("discarded");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.context().contains("io_weight"), "{error}");
    }
}
