//! One cell of the matrix, derived from observations.

use std::fmt;

use serde::Serialize;

use super::{Observation, Verdict};
use crate::Enforcement;

/// What a cell says, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Every probe that told something found it enforced, and the backend declares it so (or it is a feature).
    Enforced,
    /// The backend declares a gap, or declares nothing although every probe found it enforced.
    Partial,
    /// The backend says that it does not enforce it, and it does not.
    NotEnforced,
    /// The backend declines to run where it is demanded.
    Refused,
    /// The backend claims more than was measured, or what is permitted does not work.
    Broken,
    /// No probe told anything.
    Unmeasured,
}

impl CellState {
    /// The words in tables.
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
    /// What it says.
    pub state: CellState,
    /// How many probes found it enforced.
    pub enforced: usize,
    /// How many probes told something.
    pub measured: usize,
    /// How many probes there are.
    pub probes: usize,
    /// The gaps and reasons that the backend declares, each once, in the order of the probes.
    pub gaps: Vec<String>,
}

impl Cell {
    /// Derives a cell from everything that was observed of its subject.
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
    fn a_claim_that_leaks_is_broken_whatever_else_holds() {
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
    fn a_declared_gap_is_partial_and_named() {
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
    fn nothing_declared_and_nothing_enforced() {
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
    fn only_what_was_measured_counts() {
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
    fn what_explains_nothing_earns_nothing() {
        for verdict in [Verdict::Overblocked, Verdict::Unexplained, Verdict::Flaky] {
            assert_eq!(derived(&[seen(verdict, None)]).state, CellState::Broken);
        }
    }
}
