//! Rules of a filter.

use std::fmt;

use super::{Condition, Errno, Syscall};

/// The action for a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The call is executed.
    Allow,
    /// The call fails with this error and is not executed.
    Errno(Errno),
    /// The process is killed, as by `SIGSYS`.
    KillProcess,
}

impl Action {
    /// The kernel's `SECCOMP_RET_*` value.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Errno(Errno(number)) => 0x0005_0000 | u32::from(number),
            Self::KillProcess => 0x8000_0000,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.pad("allow"),
            Self::Errno(errno) => errno.fmt(f),
            Self::KillProcess => f.pad("kill"),
        }
    }
}

/// An action for a system call whose arguments satisfy all conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    syscall: Syscall,
    conditions: Vec<Condition>,
    action: Action,
}

impl Rule {
    /// A rule with this action for any arguments.
    #[must_use]
    pub fn new(syscall: Syscall, action: Action) -> Self {
        Self {
            syscall,
            conditions: Vec::new(),
            action,
        }
    }

    /// A rule that fails the call with this error for any arguments.
    #[must_use]
    pub fn refuse(syscall: Syscall, errno: Errno) -> Self {
        Self::new(syscall, Action::Errno(errno))
    }

    /// A rule that allows the call for any arguments: an exception from later rules.
    #[must_use]
    pub fn allow(syscall: Syscall) -> Self {
        Self::new(syscall, Action::Allow)
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// The system call.
    #[must_use]
    pub fn syscall(&self) -> Syscall {
        self.syscall
    }

    /// The conditions, all of which must hold.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The action if all conditions hold.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.syscall, self.action)?;
        for (place, condition) in self.conditions.iter().enumerate() {
            let word = if place == 0 { "if" } else { "and" };
            write!(f, " {word} {condition}")?;
        }
        Ok(())
    }
}
