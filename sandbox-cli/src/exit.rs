//! Exit codes of the command.

use sandbox::{ErrorKind, Outcome};

/// The exit code of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// It worked.
    pub const SUCCESS: Self = Self(0);
    /// `doctor`: no tier that was asked about can run the default policy.
    pub const NOTHING_RUNS: Self = Self(1);
    /// `scan`: a violation reaches the threshold.
    pub const UNSAFE: Self = Self(1);
    /// `check`: the policy would be refused here.
    pub const WOULD_BE_REFUSED: Self = Self(3);
    /// The time limit was reached.
    pub const TIMED_OUT: Self = Self(124);
    /// Refused, not set up, or the sandbox itself failed. Command lines that cannot be read too.
    pub const FAILED: Self = Self(125);
    /// The program cannot be executed.
    pub const CANNOT_EXECUTE: Self = Self(126);
    /// There is no such program.
    pub const NOT_FOUND: Self = Self(127);
    /// Killed: out of memory, or far more output than is kept.
    pub const KILLED: Self = Self(137);
    /// The reader of standard output is gone (128 + SIGPIPE).
    pub const BROKEN_PIPE: Self = Self(141);

    /// The number.
    pub fn code(self) -> u8 {
        self.0
    }

    /// The convention for a process that a signal ended: 128 and the signal's number.
    pub fn signal(signal: i32) -> Self {
        u8::try_from(signal)
            .ok()
            .and_then(|signal| signal.checked_add(128))
            .map_or(Self::FAILED, Self)
    }

    /// How an execution ended. An exit code that is missing is never 0.
    pub fn of_outcome(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Exited { code } => u8::try_from(*code).map_or(Self::FAILED, Self),
            Outcome::Signaled { signal } => Self::signal(*signal),
            Outcome::TimedOut => Self::TIMED_OUT,
            Outcome::OutOfMemory | Outcome::OutputLimit => Self::KILLED,
            _ => Self::FAILED,
        }
    }

    /// Why no execution could end.
    pub fn of_error(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ProgramNotFound => Self::NOT_FOUND,
            ErrorKind::NotExecutable => Self::CANNOT_EXECUTE,
            _ => Self::FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_match_documentation() {
        let of = |outcome| Exit::of_outcome(&outcome).code();
        assert_eq!(of(Outcome::Exited { code: 0 }), 0);
        assert_eq!(of(Outcome::Exited { code: 255 }), 255);
        assert_eq!(of(Outcome::Signaled { signal: 11 }), 139);
        assert_eq!(of(Outcome::TimedOut), 124);
        assert_eq!(of(Outcome::OutOfMemory), 137);
        assert_eq!(of(Outcome::OutputLimit), 137);
        assert_eq!(
            of(Outcome::Unknown {
                reason: "stream lost".into()
            }),
            125
        );
    }

    #[test]
    fn out_of_range_exit_codes_become_failures() {
        assert_eq!(
            Exit::of_outcome(&Outcome::Exited { code: 256 }),
            Exit::FAILED
        );
        assert_eq!(
            Exit::of_outcome(&Outcome::Exited { code: -1 }),
            Exit::FAILED
        );
        assert_eq!(Exit::signal(128), Exit::FAILED);
        assert_eq!(Exit::signal(-1), Exit::FAILED);
    }
}
