//! A whole filter, and what it decides.

use std::fmt;

use super::{Action, Arch, Errno, Rule};

/// Bit 30 of a number marks a call of x86_64's x32 interface: the same call under another number, which rules that name
/// the ordinary number would not see.
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// The highest number that the rules of this crate were written with in view: `file_setattr` of Linux 6.17. From number 424
/// on the architectures share their numbers.
const REVIEWED: u32 = 469;

/// An ordered list of rules for one architecture.
///
/// For each system call the first rule counts whose conditions hold; without one it is allowed. Three things need no rule:
///
/// - Calls of another architecture's interface (32-bit programs, `int 0x80`) kill the process, because their numbers mean
///   other calls.
/// - Calls of the x32 interface fail with `ENOSYS`, as in a kernel without it. To kill would also punish programs that
///   probe for a call by an impossible number.
/// - Calls newer than the newest one that was reviewed fail with `ENOSYS`, as in an older kernel: programs have a way to
///   do without, and no new call is open only because nobody has thought about it yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    arch: Arch,
    rules: Vec<Rule>,
    reviewed: u32,
}

impl Filter {
    /// A filter of these rules. Rules of system calls that the architecture lacks are dropped.
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

    /// Sets the highest number that is not answered with `ENOSYS` as unknown.
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

    /// What happens to the system call `number` of this architecture's own interface with these arguments.
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

    /// What happens to a number that no rule is asked about.
    pub(super) fn beyond(&self, number: u32) -> Option<Action> {
        (number >= self.limit()).then_some(Action::Errno(Errno::ENOSYS))
    }

    /// The first number that no rule is asked about.
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
