//! A sandbox with the probe program in it.

use sandbox_core::spi::Source;
use sandbox_core::{Capability, Enforcement, Error, ExecRequest, ExecResult, SandboxHandle, Unmet};

use crate::program::{Call, Run};

/// A sandbox with the probe program in it.
#[derive(Debug)]
pub struct Sandbox {
    pub(super) handle: SandboxHandle,
    pub(super) program: String,
    pub(super) waived: Vec<Unmet>,
    pub(super) unkept: Vec<Unmet>,
    pub(super) has_roots: bool,
    pub(super) is_elsewhere: bool,
}

impl Sandbox {
    /// The handle.
    #[must_use]
    pub fn handle(&self) -> &SandboxHandle {
        &self.handle
    }

    /// The probe program's path inside.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The demands that had to be waived before the backend made it.
    #[must_use]
    pub fn waived(&self) -> &[Unmet] {
        &self.waived
    }

    /// Of these the ones that the backend had said it would meet.
    #[must_use]
    pub fn unkept(&self) -> &[Unmet] {
        &self.unkept
    }

    /// Whether folders of this host are granted in it.
    #[must_use]
    pub fn has_roots(&self) -> bool {
        self.has_roots
    }

    /// Whether it runs on another machine than this host, or may: then nothing of it is seen here.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// What the backend declares of a capability in this sandbox.
    #[must_use]
    pub fn declared(&self, capability: Capability) -> Option<Enforcement> {
        self.handle.enforcement().get(capability).cloned()
    }

    /// Runs the probe program.
    ///
    /// # Errors
    ///
    /// When the sandbox failed.
    pub async fn run(&self, call: &Call) -> Result<Run, Error> {
        self.execute(call).await.map(Run::from)
    }

    /// Runs the probe program, with everything that the sandbox tells about it.
    ///
    /// # Errors
    ///
    /// When the sandbox failed.
    pub async fn execute(&self, call: &Call) -> Result<ExecResult, Error> {
        let request = self.request(call);
        let stdin = call
            .stdin
            .clone()
            .map(|content| -> Source { Box::new(std::io::Cursor::new(content)) });
        self.handle.exec_with(&request, stdin, None).await
    }

    /// What runs the probe program, but for its standard input.
    #[must_use]
    pub fn request(&self, call: &Call) -> ExecRequest {
        let arguments = call.arguments_for(self.program.as_bytes());
        let mut request = ExecRequest::new(self.program.clone()).args(arguments);
        request.timeout = call.timeout;
        request
    }

    /// The handle alone, and the program's path inside; what is ended with it is for the caller to say.
    #[must_use]
    pub fn into_parts(self) -> (SandboxHandle, String) {
        (self.handle, self.program)
    }
}

impl From<ExecResult> for Run {
    fn from(result: ExecResult) -> Self {
        Self {
            outcome: result.outcome,
            stdout_total: result.stdout.total,
            stderr_total: result.stderr.total,
            stdout: result.stdout.bytes,
            stderr: result.stderr.bytes,
            duration: result.duration,
        }
    }
}
