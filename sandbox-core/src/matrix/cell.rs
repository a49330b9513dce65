//! One cell of the matrix, computed from observations.

use std::fmt;

use serde::Serialize;

use super::{Observation, Verdict};
use crate::Enforcement;

/// The state of a cell, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Every conclusive probe found it enforced, and the backend declares it so (or it is a
    /// feature).
    Enforced,
    /// The backend declares a gap, or declares nothing although every probe found it enforced.
    Partial,
    /// The backend declares that it does not enforce it, and it does not.
    NotEnforced,
    /// The backend refuses a sandbox that demands it.
    Refused,
    /// The backend claims more than was measured, or permitted use does not work.
    Broken,
    /// No probe was conclusive.
    Unmeasured,
}

impl CellState {
    /// The text in tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial => "partial",
            Self::NotEnforced => "not enforced",
            Self::Refused => "refused",
            Self::Broken => "BROKEN",
            Self::Unmeasured => "not measured",
        }
    }
}

/// A capability or feature on a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The state.
    pub state: CellState,
    /// How many probes found it enforced.
    pub enforced: usize,
    /// How many probes were conclusive.
    pub measured: usize,
    /// How many probes there are.
    pub probes: usize,
    /// The distinct gaps and reasons that the backend declares, in the order of the probes.
    pub gaps: Vec<String>,
}

impl Cell {
    /// Computes a cell from all observations of its subject.
    #[must_use]
    pub fn derive(observations: &[&Observation]) -> Self {
        let count =
            |test: fn(&Observation) -> bool| observations.iter().filter(|o| test(o)).count();
        let enforced = count(|o| o.verdict == Verdict::Enforced);
        let measured = count(|o| o.verdict.is_measured());
        Self {
            state: state(observations, enforced, measured),
            enforced,
            measured,
            probes: observations.len(),
            gaps: gaps(observations),
        }
    }
}

fn state(observations: &[&Observation], enforced: usize, measured: usize) -> CellState {
    if measured == 0 {
        return CellState::Unmeasured;
    }
    if observations.iter().any(|o| is_broken(o)) {
        return CellState::Broken;
    }
    let declares_all = observations
        .iter()
        .filter(|o| o.verdict.is_measured())
        .all(|o| o.declared.as_ref().is_none_or(Enforcement::is_enforced));
    if enforced == measured {
        return if declares_all {
            CellState::Enforced
        } else {
            CellState::Partial
        };
    }
    if enforced > 0 {
        return CellState::Partial;
    }
    if observations.iter().any(|o| o.verdict == Verdict::Refused) {
        return CellState::Refused;
    }
    CellState::NotEnforced
}

fn is_broken(observation: &Observation) -> bool {
    match observation.verdict {
        Verdict::Overblocked | Verdict::Unexplained | Verdict::Flaky => true,
        Verdict::Leaked => observation
            .declared
            .as_ref()
            .is_none_or(Enforcement::is_enforced),
        Verdict::Enforced | Verdict::Inconclusive | Verdict::Refused | Verdict::NotRun => false,
    }
}

fn gaps(observations: &[&Observation]) -> Vec<String> {
    let mut gaps: Vec<String> = Vec::new();
    for observation in observations {
        let gap = match &observation.declared {
            Some(Enforcement::Partial { gap, .. }) => gap,
            Some(Enforcement::Unenforced { reason }) => reason,
            Some(Enforcement::Enforced { .. }) | None => continue,
        };
        if !gaps.contains(gap) {
            gaps.push(gap.clone());
        }
    }
    gaps
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            CellState::Unmeasured => f.write_str(self.state.as_str()),
            _ if self.measured == self.probes => {
                write!(
                    f,
                    "{} {}/{}",
                    self.state.as_str(),
                    self.enforced,
                    self.measured
                )
            }
            _ => {
                let open = self.probes - self.measured;
                write!(
                    f,
                    "{} {}/{} ({open} open)",
                    self.state.as_str(),
                    self.enforced,
                    self.measured
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capability;
    use crate::matrix::Subject;

    fn seen(verdict: Verdict, declared: Option<Enforcement>) -> Observation {
        Observation {
            subject: Subject::Capability(Capability::Memory),
            verdict,
            declared,
        }
    }

    fn derived(observations: &[Observation]) -> Cell {
        Cell::derive(&observations.iter().collect::<Vec<_>>())
    }

    #[test]
    fn one_leak_of_a_claim_makes_the_cell_broken() {
        let claimed = Some(Enforcement::enforced("cgroup"));
        let cell = derived(&[
            seen(Verdict::Enforced, claimed.clone()),
            seen(Verdict::Leaked, claimed),
        ]);
        assert_eq!(
            (cell.state, cell.enforced, cell.measured),
            (CellState::Broken, 1, 2)
        );
    }

    #[test]
    fn declared_gap_is_partial_and_listed() {
        let gap = Some(Enforcement::partial("rlimit", "sampled"));
        let cell = derived(&[
            seen(Verdict::Enforced, gap.clone()),
            seen(Verdict::Leaked, gap),
        ]);
        assert_eq!(
            (cell.state, cell.gaps),
            (CellState::Partial, vec!["sampled".to_owned()])
        );
    }

    #[test]
    fn unenforced_capability_is_not_enforced_or_refused() {
        let none = Some(Enforcement::unenforced("no cgroup"));
        assert_eq!(
            derived(&[seen(Verdict::Leaked, none.clone())]).state,
            CellState::NotEnforced
        );
        assert_eq!(
            derived(&[seen(Verdict::Refused, none)]).state,
            CellState::Refused
        );
    }

    #[test]
    fn inconclusive_probes_count_as_open() {
        assert_eq!(derived(&[]).state, CellState::Unmeasured);
        assert_eq!(
            derived(&[seen(Verdict::Inconclusive, None)]).state,
            CellState::Unmeasured
        );
        let claimed = Some(Enforcement::enforced("cgroup"));
        let cell = derived(&[
            seen(Verdict::Enforced, claimed),
            seen(Verdict::NotRun, None),
        ]);
        assert_eq!(cell.to_string(), "enforced 1/1 (1 open)");
    }

    #[test]
    fn unexplained_verdicts_make_the_cell_broken() {
        for verdict in [Verdict::Overblocked, Verdict::Unexplained, Verdict::Flaky] {
            assert_eq!(derived(&[seen(verdict, None)]).state, CellState::Broken);
        }
    }
}
