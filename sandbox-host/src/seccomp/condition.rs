//! Conditions on the arguments of a system call.

use std::fmt;

/// One of the six arguments of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Argument {
    /// The first.
    First,
    /// The second.
    Second,
    /// The third.
    Third,
    /// The fourth.
    Fourth,
    /// The fifth.
    Fifth,
    /// The sixth.
    Sixth,
}

impl Argument {
    /// The position among the arguments, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A condition on one argument: which of its bits count, and their values.
///
/// A filter sees integers and addresses, never the memory behind a pointer, which could change
/// between check and use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    argument: Argument,
    mask: u64,
    /// Whether the bits must equal one of `values` (`true`) or none of them.
    member: bool,
    values: Vec<u64>,
}

/// The bits of an argument that count, for building a [`Condition`].
#[derive(Debug, Clone, Copy)]
pub struct Bits {
    argument: Argument,
    mask: u64,
}

impl Condition {
    /// All 64 bits: `long`, `size_t`, addresses.
    #[must_use]
    pub fn long(argument: Argument) -> Bits {
        Bits {
            argument,
            mask: u64::MAX,
        }
    }

    /// The low 32 bits: `int`, `unsigned int`, `pid_t`. The kernel ignores the high half, so a
    /// filter that compared it could be bypassed by setting a bit there.
    #[must_use]
    pub fn int(argument: Argument) -> Bits {
        Bits {
            argument,
            mask: 0xffff_ffff,
        }
    }

    /// The bits of `mask`.
    #[must_use]
    pub fn masked(argument: Argument, mask: u64) -> Bits {
        Bits { argument, mask }
    }

    /// Whether these arguments satisfy the condition.
    #[must_use]
    pub fn holds(&self, arguments: &[u64; 6]) -> bool {
        let bits = arguments[self.argument.index()] & self.mask;
        self.values.contains(&bits) == self.member
    }

    pub(super) fn argument(&self) -> Argument {
        self.argument
    }

    pub(super) fn mask(&self) -> u64 {
        self.mask
    }

    pub(super) fn is_member(&self) -> bool {
        self.member
    }

    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }
}

impl Bits {
    /// The bits equal `value`.
    #[must_use]
    pub fn equals(self, value: u64) -> Condition {
        self.one_of([value])
    }

    /// The bits differ from `value`.
    #[must_use]
    pub fn differs_from(self, value: u64) -> Condition {
        self.none_of([value])
    }

    /// The bits equal one of `values`.
    #[must_use]
    pub fn one_of(self, values: impl IntoIterator<Item = u64>) -> Condition {
        self.condition(true, values)
    }

    /// The bits equal none of `values`.
    #[must_use]
    pub fn none_of(self, values: impl IntoIterator<Item = u64>) -> Condition {
        self.condition(false, values)
    }

    fn condition(self, member: bool, values: impl IntoIterator<Item = u64>) -> Condition {
        let Self { argument, mask } = self;
        Condition {
            argument,
            mask,
            member,
            values: values.into_iter().collect(),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.argument.index();
        match self.mask {
            u64::MAX => write!(f, "arg{index} as long")?,
            0xffff_ffff => write!(f, "arg{index}")?,
            mask => write!(f, "arg{index} & {mask:#x}")?,
        }
        match (self.member, self.values.as_slice()) {
            (true, [value]) => write!(f, " == {value:#x}"),
            (false, [value]) => write!(f, " != {value:#x}"),
            (member, values) => {
                let values = values
                    .iter()
                    .map(|value| format!("{value:#x}"))
                    .collect::<Vec<_>>();
                let word = if member { "in" } else { "not in" };
                write!(f, " {word} {{{}}}", values.join(", "))
            }
        }
    }
}
