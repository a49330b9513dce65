//! A sandbox that contains the probe program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use sandbox_core::{
    Capability, Enforcement, Error, ExecRequest, ExecResult, SandboxHandle, Stdin, Unmet,
};

use crate::program::{Call, Run};

/// A sandbox that contains the probe program.
#[derive(Debug)]
pub struct ProbeSandbox {
    pub(super) handle: SandboxHandle,
    pub(super) program: String,
    pub(super) waived: Vec<Unmet>,
    pub(super) broken_claims: Vec<Unmet>,
    pub(super) has_roots: bool,
    pub(super) is_remote: bool,
}

impl ProbeSandbox {
    /// The handle.
    #[must_use]
    pub fn handle(&self) -> &SandboxHandle {
        &self.handle
    }

    /// The path of the probe program inside.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The demands that were waived to create it.
    #[must_use]
    pub fn waived(&self) -> &[Unmet] {
        &self.waived
    }

    /// The waived demands that the backend had assessed as enforced.
    #[must_use]
    pub fn broken_claims(&self) -> &[Unmet] {
        &self.broken_claims
    }

    /// Whether it has folders of this host as roots.
    #[must_use]
    pub fn has_roots(&self) -> bool {
        self.has_roots
    }

    /// Whether it runs, or may run, on another machine. This host then shows nothing of it.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// The enforcement that the backend declares for a capability in this sandbox.
    #[must_use]
    pub fn declared(&self, capability: Capability) -> Option<Enforcement> {
        self.handle.enforcement().get(capability).cloned()
    }

    /// Runs the probe program.
    ///
    /// # Errors
    ///
    /// If the sandbox fails.
    pub async fn run(&self, call: &Call) -> Result<Run, Error> {
        self.execute(call).await.map(Run::from)
    }

    /// Runs the probe program and returns the whole result.
    ///
    /// # Errors
    ///
    /// If the sandbox fails.
    pub async fn execute(&self, call: &Call) -> Result<ExecResult, Error> {
        let request = self.request(call);
        let stdin = call.stdin.clone().map_or(Stdin::Null, Stdin::from_bytes);
        self.handle.exec_with(&request, stdin, |_, _| {}).await
    }

    /// The request that runs the probe program, without standard input.
    #[must_use]
    pub fn request(&self, call: &Call) -> ExecRequest {
        request(&self.program, call)
    }

    /// The handle and the program's path inside. The caller ends the sandbox.
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

/// The request that runs the probe program at this path, without standard input.
#[must_use]
pub fn request(program: &str, call: &Call) -> ExecRequest {
    let arguments = call
        .arguments_for(program.as_bytes())
        .map(OsStr::from_bytes);
    let mut request = ExecRequest::new(program).args(arguments);
    request.timeout = call.timeout;
    request
}
