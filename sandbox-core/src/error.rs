//! One error type for every backend.

use std::error::Error as StdError;
use std::fmt;

use crate::{Denial, Unmet};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a program can tell it apart. Stable: variants do not depend on features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The specification contradicts itself or holds a value that no backend takes.
    InvalidSpec,
    /// The policy contradicts itself, names an unknown field or cannot be read.
    InvalidPolicy,
    /// The specification asks for more than the policy allows.
    PolicyExceeded,
    /// The backend cannot enforce on this host what is required; [`Error::unmet`] lists it.
    NotEnforceable,
    /// The backend's engine or kernel feature is not there.
    SandboxUnavailable,
    /// No backend of this name is linked.
    UnknownBackend,
    /// No sandbox of this name.
    SandboxNotFound,
    /// A sandbox of this name exists.
    AlreadyExists,
    /// The sandbox has ended.
    SandboxEnded,
    /// The image is not there and may not be pulled, the registry has none of this name, or it is another than its digest says.
    ImageNotFound,
    /// The registry does not give the image to whoever asks: credentials are missing or do not suffice.
    ImageDenied,
    /// A step of building an image failed.
    ImageBuildFailed,
    /// Pulling or building an image took longer than it may.
    ImageTimedOut,
    /// No such program inside of the sandbox.
    ProgramNotFound,
    /// The program exists inside of the sandbox and cannot be executed.
    NotExecutable,
    /// The working folder does not exist inside of the sandbox or may not be entered.
    BadWorkdir,
    /// A path inside of the sandbox: missing, of the wrong type, or denied.
    Path,
    /// The request itself: an empty command, a NUL inside of an argument, too large.
    InvalidRequest,
    /// A step of building the sandbox failed.
    SetupFailed,
    /// The registry has no package of this name, or none of this version, for the sandbox's Python.
    PackageNotFound,
    /// The package is there as source alone, and would have to be built.
    PackageNeedsBuild,
    /// The registry of packages or images cannot be reached, or refused to answer.
    RegistryUnreachable,
    /// Installing packages took longer than it may.
    InstallTimedOut,
    /// Packages are larger than they may be, or the disk of the host or the engine is full.
    StorageFull,
    /// Packages could not be installed for another reason: they contradict each other, or there is no installer.
    InstallFailed,
    /// The other side of the stream broke the protocol or vanished.
    Protocol,
    /// The backend does not do this.
    Unsupported,
    /// The operating system or engine refused an operation.
    Io,
}

impl ErrorKind {
    /// The name as it stands in JSON: `snake_case`.
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
            Self::ImageNotFound => "image_not_found",
            Self::ImageDenied => "image_denied",
            Self::ImageBuildFailed => "image_build_failed",
            Self::ImageTimedOut => "image_timed_out",
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

/// The sandbox failed. Code in the sandbox that fails is no error: see [`crate::Outcome`].
///
/// Displays as one line: what failed, on which backend, why, and what to do. The line includes the
/// text of [`Error::cause`], so [`source`](StdError::source) continues with the cause of that
/// cause: a report that prints the whole chain prints each text once.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
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
    /// An error of this kind: `operation` is a verb phrase ("create sandbox"), `context` says why it failed.
    pub fn new(kind: ErrorKind, operation: &'static str, context: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
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

    /// [`ErrorKind::SandboxUnavailable`]: the engine or kernel feature behind `backend` is not there, and how to get it.
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

    /// The same error for somebody else who asks: its cause has become text.
    pub(crate) fn again(&self) -> Self {
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

    /// Names the backend.
    #[must_use]
    pub fn on(mut self, backend: impl Into<String>) -> Self {
        self.inner.backend = Some(backend.into());
        self
    }

    /// Says what the user can do.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.inner.fix = Some(fix.into());
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Keeps the operating system's error number.
    #[must_use]
    pub fn with_os_error(mut self, number: i32) -> Self {
        self.inner.os_error = Some(number);
        self
    }

    pub(crate) fn with_denial(mut self, denial: Denial) -> Self {
        self.inner.denials.push(denial);
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// What was being done.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.inner.operation
    }

    /// On which backend, where one was involved.
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

    /// What the user can do, where that is known.
    #[must_use]
    pub fn fix(&self) -> Option<&str> {
        self.inner.fix.as_deref()
    }

    /// The demands that could not be met, for [`ErrorKind::NotEnforceable`].
    #[must_use]
    pub fn unmet(&self) -> &[Unmet] {
        &self.inner.unmet
    }

    /// What was denied by a rule, where that is why it failed: for [`ErrorKind::PolicyExceeded`],
    /// [`ErrorKind::NotEnforceable`], and files that may not be read or written.
    #[must_use]
    pub fn denials(&self) -> &[Denial] {
        &self.inner.denials
    }

    /// The operating system's error number, where one was the cause: of the host, or of the sandbox for files in it.
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
