//! The short matrix: one row for each group of capabilities, one column for each tier.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{CellState, CompatibilityMatrix, Profile, Subject};
use crate::Capability::{self, *};

/// The rows. Each capability is in exactly one of them, so the table has the same length whatever
/// is measured.
const ROWS: &[(&str, &[Capability])] = &[
    ("files", &[FilesystemReadRoots, FilesystemWriteRoots]),
    ("network", &[NetworkAccess, Egress]),
    ("environment and secrets", &[EnvVarAccess, Secrets]),
    ("processes and privileges", &[Processes, Privileges]),
    ("child processes", &[SubprocessExecution]),
    ("time limit", &[Timeout, Lifetime]),
    ("output limit", &[StdoutMaxBytes, StderrMaxBytes]),
    ("memory", &[Memory]),
    ("processor time", &[Cpus]),
    ("number of processes", &[Pids]),
    ("storage and open files", &[Disk, OpenFiles]),
    ("artifacts", &[ArtifactExportPaths]),
    ("packages", &[PackageInstallation, Packages]),
];

/// From best to worst, the order in which a cell lists several states.
const STATES: &[CellState] = &[
    CellState::Enforced,
    CellState::Partial,
    CellState::Refused,
    CellState::NotEnforced,
    CellState::Broken,
    CellState::Unmeasured,
];

const LEGEND: &str = "
More than one word in a cell: the result depends on the host, or on the capability.
";

impl CompatibilityMatrix {
    /// A short matrix as Markdown: at most 15 lines of table, without features, counts and gaps.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.profiles().is_empty() {
            return "Nothing has been measured yet.\n".into();
        }
        let profiles = self.profiles().iter().map(|(_, profile)| profile);
        let tiers: BTreeSet<&str> = profiles.map(|profile| profile.tier.as_str()).collect();
        let columns: Vec<&str> = tiers.iter().copied().collect();
        let mut text = format!("| | {} |\n", columns.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
        for (title, capabilities) in ROWS {
            let _ = write!(text, "| {title} |");
            for tier in &columns {
                let _ = write!(text, " {} |", self.states(tier, capabilities));
            }
            text.push('\n');
        }
        text + LEGEND
    }

    /// The distinct states of these capabilities on all measured hosts of a tier, best first.
    fn states(&self, tier: &str, capabilities: &[Capability]) -> String {
        let mut found = Vec::new();
        for (name, profile) in self.profiles() {
            if profile.tier != tier {
                continue;
            }
            let probed = |capability: &&Capability| is_probed(profile, **capability);
            for capability in capabilities.iter().filter(probed) {
                let cell = self.cell(name, Subject::Capability(*capability));
                found.extend(cell.map(|cell| cell.state));
            }
        }
        let listed = STATES.iter().filter(|state| found.contains(state));
        let words: Vec<_> = listed.map(|state| state.as_str()).collect();
        match words.is_empty() {
            true => CellState::Unmeasured.as_str().to_owned(),
            false => words.join(", "),
        }
    }
}

/// Whether the suite has a probe for the capability. No probe is about `secrets`, for example.
fn is_probed(profile: &Profile, capability: Capability) -> bool {
    let subject = Subject::Capability(capability);
    profile
        .probes
        .values()
        .any(|probe| probe.subject == subject)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Enforcement;
    use crate::matrix::{Observation, Verdict};

    fn profile(tier: &str, probes: &[(Capability, Verdict)]) -> Profile {
        let probes = probes.iter().map(|(capability, verdict)| {
            let observation = Observation {
                subject: Subject::Capability(*capability),
                verdict: *verdict,
                declared: Some(Enforcement::enforced("a mechanism")),
            };
            (format!("{capability}::a"), observation)
        });
        Profile {
            tier: tier.into(),
            suite: "s".into(),
            key: Vec::new(),
            probes: probes.collect::<BTreeMap<_, _>>(),
        }
    }

    #[test]
    fn each_capability_has_one_row_and_the_table_fits_15_lines() {
        let listed = ROWS.iter().flat_map(|(_, capabilities)| *capabilities);
        let mut listed: Vec<Capability> = listed.copied().collect();
        listed.sort();
        let mut all = Capability::ALL.to_vec();
        all.sort();
        assert_eq!(listed, all);
        let matrix = CompatibilityMatrix::new(vec![("toy".into(), profile("toy", &[]))]);
        let summary = matrix.summary();
        let table = summary.lines().filter(|line| line.starts_with('|'));
        assert!(table.count() <= 15, "{summary}");
    }

    #[test]
    fn cell_lists_the_distinct_states_of_all_hosts_best_first() {
        let matrix = CompatibilityMatrix::new(vec![
            (
                "toy-a".into(),
                profile("toy", &[(Memory, Verdict::Refused)]),
            ),
            (
                "toy-b".into(),
                profile(
                    "toy",
                    &[(Memory, Verdict::Enforced), (Egress, Verdict::NotRun)],
                ),
            ),
            (
                "other".into(),
                profile("other", &[(Memory, Verdict::Enforced)]),
            ),
        ]);
        let text = matrix.summary();
        assert!(
            text.starts_with("| | other | toy |\n|---|---|---|\n"),
            "{text}"
        );
        assert!(
            text.contains("| memory | enforced | enforced, refused |"),
            "{text}"
        );
        assert!(
            text.contains("| network | not measured | not measured |"),
            "{text}"
        );
    }
}
