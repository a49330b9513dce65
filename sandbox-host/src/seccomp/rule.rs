//! One line of a filter.

use std::fmt;

use super::{Condition, Errno, Syscall};

/// What happens to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// It is carried out.
    Allow,
    /// It fails with this error and is not carried out.
    Errno(Errno),
    /// The process dies, as from `SIGSYS`.
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

/// What happens to one system call when its arguments meet every condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    syscall: Syscall,
    conditions: Vec<Condition>,
    action: Action,
}

impl Rule {
    /// This action, whatever the arguments are.
    #[must_use]
    pub fn new(syscall: Syscall, action: Action) -> Self {
        Self {
            syscall,
            conditions: Vec::new(),
            action,
        }
    }

    /// Failure with this error, whatever the arguments are.
    #[must_use]
    pub fn refuse(syscall: Syscall, errno: Errno) -> Self {
        Self::new(syscall, Action::Errno(errno))
    }

    /// Allowed, whatever the arguments are: an exception from the rules that follow.
    #[must_use]
    pub fn allow(syscall: Syscall) -> Self {
        Self::new(syscall, Action::Allow)
    }

    /// Only when this holds too.
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

    /// What must hold of the arguments.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// What happens then.
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
