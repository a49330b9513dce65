//! What became of code.

use sandbox_core::spi::escape;
use sandbox_core::{Error, ErrorKind, ExecResult, Result};

/// The longest beginning of the compiler's errors in an error, in bytes.
const MAX_STDERR: usize = 1024;

/// The result of running code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeResult {
    /// The program ran. It may have failed.
    Ran {
        /// The program's result.
        result: ExecResult,
        /// Whether the code was compiled for this run.
        compilation: Compilation,
    },
    /// The code did not compile, so nothing ran.
    CompileFailed {
        /// The compiler's result: its exit code, and its errors in standard error.
        compiler: ExecResult,
    },
}

/// Whether code was compiled for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compilation {
    /// The language is interpreted.
    None,
    /// It was compiled; with the compiler's result, which may contain warnings.
    Compiled(Box<ExecResult>),
    /// It was compiled in this sandbox before.
    Cached,
}

impl CodeResult {
    /// The program's result; `None` if the code did not compile.
    #[must_use]
    pub fn ran(&self) -> Option<&ExecResult> {
        match self {
            Self::Ran { result, .. } => Some(result),
            Self::CompileFailed { .. } => None,
        }
    }

    /// Whether the program ran and exited with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.ran().is_some_and(ExecResult::success)
    }

    /// Returns an error unless the program ran and exited with code 0.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::CompileFailed`] with the beginning of the compiler's errors, and
    /// [`ErrorKind::ProgramFailed`] as [`ExecResult::check`].
    pub fn check(&self) -> Result<&ExecResult> {
        match self {
            Self::Ran { result, .. } => result.check(),
            Self::CompileFailed { compiler } => {
                let stderr = &compiler.stderr.bytes;
                let start = &stderr[..stderr.len().min(MAX_STDERR)];
                let start = String::from_utf8_lossy(start);
                let context = match start.trim() {
                    "" => compiler.outcome.to_string(),
                    start => format!("{}: {}", compiler.outcome, escape(start)),
                };
                Err(Error::new(
                    ErrorKind::CompileFailed,
                    "compile code",
                    context,
                ))
            }
        }
    }

    /// The result that ended the run: the program's or the compiler's.
    pub(crate) fn into_last(self) -> (ExecResult, Option<Compilation>) {
        match self {
            Self::Ran {
                result,
                compilation,
            } => (result, Some(compilation)),
            Self::CompileFailed { compiler } => (compiler, None),
        }
    }

    pub(crate) fn from_last(last: ExecResult, compilation: Option<Compilation>) -> Self {
        match compilation {
            Some(compilation) => Self::Ran {
                result: last,
                compilation,
            },
            None => Self::CompileFailed { compiler: last },
        }
    }
}
