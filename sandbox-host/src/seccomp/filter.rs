//! Filters and their decisions.

use std::fmt;

use super::{Action, Arch, Errno, Rule};

/// Bit 30 of a number marks a call of x86_64's x32 interface. It is the same call under another
/// number, which rules for the ordinary number would miss.
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// The highest number that these rules were reviewed for: `file_setattr` of Linux 6.17.
/// Architectures share their numbers from 424.
const REVIEWED: u32 = 469;

/// An ordered list of rules for one architecture.
///
/// The first rule whose conditions hold decides; without one, the call is allowed. Three kinds of
/// calls need no rule:
///
/// - Calls of another architecture's interface (32-bit programs, `int 0x80`) kill the process,
///   because their numbers mean other calls.
/// - Calls of the x32 interface fail with `ENOSYS`, as in a kernel without it. Killing would also
///   hit programs that probe for a call with an impossible number.
/// - Calls newer than the last reviewed one fail with `ENOSYS`, as in an older kernel. Programs
///   have fallbacks, and new calls stay closed until they are reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    arch: Arch,
    rules: Vec<Rule>,
    reviewed: u32,
}

impl Filter {
    /// A filter with these rules. Rules for calls that the architecture lacks are dropped.
    #[must_use]
    pub fn new(arch: Arch, rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules = rules
            .into_iter()
            .filter(|rule| rule.syscall().number(arch).is_some());
        Self {
            arch,
            rules: rules.collect(),
            reviewed: REVIEWED,
        }
    }

    /// Sets the highest reviewed number. Higher numbers get `ENOSYS`.
    #[must_use]
    pub fn reviewed_up_to(mut self, number: u32) -> Self {
        self.reviewed = number;
        self
    }

    /// The architecture.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The rules, in order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The action for the system call `number` of this architecture's own interface with these
    /// arguments.
    #[must_use]
    pub fn decide(&self, number: u32, arguments: &[u64; 6]) -> Action {
        if let Some(action) = self.beyond(number) {
            return action;
        }
        self.rules
            .iter()
            .filter(|rule| rule.syscall().number(self.arch) == Some(number))
            .find(|rule| {
                rule.conditions()
                    .iter()
                    .all(|condition| condition.holds(arguments))
            })
            .map_or(Action::Allow, Rule::action)
    }

    /// The action for a number that no rule covers.
    pub(super) fn beyond(&self, number: u32) -> Option<Action> {
        (number >= self.limit()).then_some(Action::Errno(Errno::ENOSYS))
    }

    /// The first number that no rule covers.
    pub(super) fn limit(&self) -> u32 {
        let newer = self.reviewed.saturating_add(1);
        match self.arch {
            Arch::X86_64 => newer.min(X32_BIT),
            Arch::Aarch64 => newer,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            writeln!(f, "{rule}")?;
        }
        writeln!(f, "numbers from {} -> ENOSYS", self.limit())?;
        writeln!(f, "interfaces other than {} -> kill", self.arch)?;
        f.write_str("everything else -> allow\n")
    }
}
