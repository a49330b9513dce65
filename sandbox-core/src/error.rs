//! One error type for all backends.

use std::error::Error as StdError;
use std::fmt;

use crate::{Denial, Unmet};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for programs. The variants are stable and do not depend on features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The specification contradicts itself or contains a value that no backend takes.
    InvalidSpec,
    /// The policy contradicts itself, contains an unknown field or cannot be read.
    InvalidPolicy,
    /// The specification asks for more than the policy allows.
    PolicyExceeded,
    /// The backend cannot enforce a required demand on this host; [`Error::unmet`] lists them.
    NotEnforceable,
    /// The backend's engine or kernel feature is missing.
    SandboxUnavailable,
    /// No backend with this name is linked.
    UnknownBackend,
    /// No sandbox with this name exists.
    SandboxNotFound,
    /// A sandbox with this name exists already.
    AlreadyExists,
    /// The sandbox has ended.
    SandboxEnded,
    /// The session of an interpreter has ended: it was closed, or reached a time limit.
    SessionEnded,
    /// A pool has as many sandboxes as allowed, and all are in use.
    PoolExhausted,
    /// The sandbox is attached to another client, which alone can use it.
    SandboxAttached,
    /// The sandbox is detached, and no process carries its connections: see
    /// [`crate::SandboxHandle::carry_egress`].
    NotCarried,
    /// The image is missing and may not be pulled, the registry does not have it, or it does not
    /// match its digest.
    ImageNotFound,
    /// The registry denies access to the image: credentials are missing or insufficient.
    ImageDenied,
    /// A step of building an image failed.
    ImageBuildFailed,
    /// Pulling or building an image exceeded its time limit.
    ImageTimedOut,
    /// The program did not exit with code 0: only from [`crate::ExecResult::check`].
    ProgramFailed,
    /// The code did not compile, so nothing ran: only from `CodeResult::check` of `sandbox-lang`.
    CompileFailed,
    /// A check of the code refused it, so nothing ran.
    CodeRefused,
    /// There is no such language, or the sandbox's version of it is too old.
    LanguageNotSupported,
    /// No libraries can be installed for the language.
    LibrariesNotSupported,
    /// The language has no library that draws plots.
    PlotsNotSupported,
    /// The program does not exist in the sandbox.
    ProgramNotFound,
    /// The program exists in the sandbox and cannot be executed.
    NotExecutable,
    /// The working folder does not exist in the sandbox or cannot be entered.
    BadWorkdir,
    /// A path in the sandbox is missing, has the wrong type, or is denied.
    Path,
    /// The request is invalid: an empty command, a NUL in an argument, or too large.
    InvalidRequest,
    /// A step of creating the sandbox failed.
    SetupFailed,
    /// The registry does not have the package, or this version of it, for the sandbox's Python.
    PackageNotFound,
    /// The package exists only as source and would have to be built.
    PackageNeedsBuild,
    /// The registry of packages or images cannot be reached, or does not answer.
    RegistryUnreachable,
    /// Installing packages exceeded its time limit.
    InstallTimedOut,
    /// The packages exceed their size limit, or the disk of the host or the engine is full.
    StorageFull,
    /// Packages could not be installed for another reason: they contradict each other, or there is
    /// no installer.
    InstallFailed,
    /// The peer of the stream violated the protocol or disconnected.
    Protocol,
    /// The backend does not support the operation.
    Unsupported,
    /// The operating system or engine refused an operation.
    Io,
}

impl ErrorKind {
    /// The name in JSON: `snake_case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "invalid_spec",
            Self::InvalidPolicy => "invalid_policy",
            Self::PolicyExceeded => "policy_exceeded",
            Self::NotEnforceable => "not_enforceable",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::UnknownBackend => "unknown_backend",
            Self::SandboxNotFound => "sandbox_not_found",
            Self::AlreadyExists => "already_exists",
            Self::SandboxEnded => "sandbox_ended",
            Self::SessionEnded => "session_ended",
            Self::PoolExhausted => "pool_exhausted",
            Self::SandboxAttached => "sandbox_attached",
            Self::NotCarried => "not_carried",
            Self::ImageNotFound => "image_not_found",
            Self::ImageDenied => "image_denied",
            Self::ImageBuildFailed => "image_build_failed",
            Self::ImageTimedOut => "image_timed_out",
            Self::ProgramFailed => "program_failed",
            Self::CompileFailed => "compile_failed",
            Self::CodeRefused => "code_refused",
            Self::LanguageNotSupported => "language_not_supported",
            Self::LibrariesNotSupported => "libraries_not_supported",
            Self::PlotsNotSupported => "plots_not_supported",
            Self::ProgramNotFound => "program_not_found",
            Self::NotExecutable => "not_executable",
            Self::BadWorkdir => "bad_workdir",
            Self::Path => "path",
            Self::InvalidRequest => "invalid_request",
            Self::SetupFailed => "setup_failed",
            Self::PackageNotFound => "package_not_found",
            Self::PackageNeedsBuild => "package_needs_build",
            Self::RegistryUnreachable => "registry_unreachable",
            Self::InstallTimedOut => "install_timed_out",
            Self::StorageFull => "storage_full",
            Self::InstallFailed => "install_failed",
            Self::Protocol => "protocol",
            Self::Unsupported => "unsupported",
            Self::Io => "io",
        }
    }
}

/// A failure of the sandbox. Code that fails in the sandbox is not an error: see
/// [`crate::Outcome`].
///
/// Displays as one line: what failed, on which backend, why, and what to do. The line includes the
/// text of [`Error::cause`], so [`source`](StdError::source) continues with the cause of that
/// cause: a report that prints the whole chain prints each text once.
#[derive(Debug)]
pub struct Error {
    inner: Box<ErrorDetails>,
}

#[derive(Debug)]
struct ErrorDetails {
    kind: ErrorKind,
    operation: &'static str,
    backend: Option<String>,
    context: String,
    fix: Option<String>,
    unmet: Vec<Unmet>,
    denials: Vec<Denial>,
    os_error: Option<i32>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error of this kind. `operation` is a verb phrase ("create sandbox"), and
    /// `context` says why it failed.
    pub fn new(kind: ErrorKind, operation: &'static str, context: impl Into<String>) -> Self {
        Self {
            inner: Box::new(ErrorDetails {
                kind,
                operation,
                backend: None,
                context: context.into(),
                fix: None,
                unmet: Vec::new(),
                denials: Vec::new(),
                os_error: None,
                source: None,
            }),
        }
    }

    /// [`ErrorKind::SandboxUnavailable`]: the engine or kernel feature of `backend` is missing.
    /// `fix` says how to get it.
    pub fn unavailable(
        backend: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(
            ErrorKind::SandboxUnavailable,
            "reach the sandbox backend",
            reason,
        )
        .on(backend)
        .with_fix(fix)
    }

    /// [`ErrorKind::NotEnforceable`] for these demands.
    pub(crate) fn not_enforceable(backend: &str, unmet: Vec<Unmet>) -> Self {
        let context = unmet
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        let mut error = Self::new(ErrorKind::NotEnforceable, "create sandbox", context).on(backend);
        error.inner.denials = unmet.iter().map(crate::denial::of_unmet).collect();
        error.inner.unmet = unmet;
        error
    }

    /// A copy of the error for another caller. Its cause becomes text.
    #[must_use]
    pub fn again(&self) -> Self {
        let mut again = Self::new(self.kind(), self.operation(), self.context());
        if let Some(source) = &self.inner.source {
            again.inner.context += &format!(": {source}");
        }
        again.inner.backend.clone_from(&self.inner.backend);
        again.inner.fix.clone_from(&self.inner.fix);
        again.inner.unmet.clone_from(&self.inner.unmet);
        again.inner.denials.clone_from(&self.inner.denials);
        again.inner.os_error = self.inner.os_error;
        again
    }

    /// Sets the backend.
    #[must_use]
    pub fn on(mut self, backend: impl Into<String>) -> Self {
        self.inner.backend = Some(backend.into());
        self
    }

    /// Sets what the user can do.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.inner.fix = Some(fix.into());
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Sets the operating system's error number.
    #[must_use]
    pub fn with_os_error(mut self, number: i32) -> Self {
        self.inner.os_error = Some(number);
        self
    }

    pub(crate) fn with_denial(mut self, denial: Denial) -> Self {
        self.inner.denials.push(denial);
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The operation that failed.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.inner.operation
    }

    /// The backend, if one was involved.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.inner.backend.as_deref()
    }

    /// Why it failed.
    #[must_use]
    pub fn context(&self) -> &str {
        &self.inner.context
    }

    /// The error that caused this one. Its text is part of the displayed line.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }

    /// What the user can do, if known.
    #[must_use]
    pub fn fix(&self) -> Option<&str> {
        self.inner.fix.as_deref()
    }

    /// The unmet demands of [`ErrorKind::NotEnforceable`].
    #[must_use]
    pub fn unmet(&self) -> &[Unmet] {
        &self.inner.unmet
    }

    /// The denials that caused it: for [`ErrorKind::PolicyExceeded`],
    /// [`ErrorKind::NotEnforceable`], and files that may not be read or written.
    #[must_use]
    pub fn denials(&self) -> &[Denial] {
        &self.inner.denials
    }

    /// The operating system's error number, if one was the cause. For files in a sandbox it is the
    /// sandbox's.
    #[must_use]
    pub fn os_error(&self) -> Option<i32> {
        self.inner.os_error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(f, "{} failed", inner.operation)?;
        if let Some(backend) = &inner.backend {
            write!(f, " on {backend}")?;
        }
        write!(f, ": {}", inner.context)?;
        if let Some(source) = &inner.source {
            write!(f, ": {source}")?;
        }
        if let Some(fix) = &inner.fix {
            write!(f, " (fix: {fix})")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause()?.source()
    }
}
