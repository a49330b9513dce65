//! Sandboxes for a single program: created, run, exported, torn down.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    Artifact, ArtifactLimits, Error, ErrorKind, ExecRequest, ExecResult, Result, SandboxClient,
    SandboxHandle, SandboxSpec, SkippedArtifact, unique_name,
};

/// Options of a one-shot run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OneShot {
    /// The sandbox to make; its name is replaced by a unique one.
    pub spec: SandboxSpec,
    /// Time limit, if shorter than the policy's.
    pub timeout: Option<Duration>,
    /// Folder of the host that receives what the policy's `artifact_export_paths` name. Required where they name anything.
    pub export_to: Option<PathBuf>,
    /// What may come out at most.
    pub artifact_limits: ArtifactLimits,
}

impl Default for OneShot {
    fn default() -> Self {
        Self::new(SandboxSpec::new("one-shot"))
    }
}

impl OneShot {
    /// Runs in a sandbox like this one.
    #[must_use]
    pub fn new(spec: SandboxSpec) -> Self {
        Self {
            spec,
            timeout: None,
            export_to: None,
            artifact_limits: ArtifactLimits::default(),
        }
    }

    /// Sets a time limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Exports artifacts into this folder of the host before the sandbox is torn down.
    #[must_use]
    pub fn export_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.export_to = Some(folder.into());
        self
    }
}

/// The result of a one-shot run. Dereferences to the [`ExecResult`] of the program.
///
/// [`OneShotResult::failures`] is part of it: the program has run, and its result is valid, even where something failed afterwards.
#[derive(Debug)]
#[non_exhaustive]
pub struct OneShotResult {
    /// The result of the program. Its denials include those of the export.
    pub result: ExecResult,
    /// Files that were exported to [`OneShot::export_to`].
    pub artifacts: Vec<Artifact>,
    /// Export paths and files that were not exported, and why.
    pub skipped: Vec<SkippedArtifact>,
    /// Steps that failed after the program had ended: the export, copying the workspace back, the tear-down. Empty in a run that
    /// left nothing behind.
    pub failures: Vec<Error>,
}

impl Deref for OneShotResult {
    type Target = ExecResult;

    fn deref(&self) -> &ExecResult {
        &self.result
    }
}

impl SandboxClient {
    /// Runs Python code in a sandbox of its own: created, run with the sandbox's `python3` (or else `python`), exported, always torn
    /// down.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`] and [`SandboxHandle::exec`]; [`ErrorKind::InvalidRequest`] where the policy has
    /// `artifact_export_paths` and [`OneShot::export_to`] is not set. What fails after the program has ended is no error of this
    /// call: see [`OneShotResult::failures`].
    pub async fn run_python(
        &self,
        code: impl Into<Vec<u8>>,
        options: OneShot,
    ) -> Result<OneShotResult> {
        let code = code.into();
        let request = |program: &str| ExecRequest::new(program).arg("-c").arg(code.clone());
        let sandbox = self.create_one_shot(&options, "py").await?;
        let result = match sandbox.exec(&limited(request("python3"), &options)).await {
            Err(error) if error.kind() == ErrorKind::ProgramNotFound => {
                sandbox.exec(&limited(request("python"), &options)).await
            }
            result => result,
        };
        finish(&sandbox, &options, result).await
    }

    /// Runs a shell script in a sandbox of its own: created, run, exported, always torn down.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::run_python`].
    pub async fn run_shell(
        &self,
        script: impl Into<Vec<u8>>,
        options: OneShot,
    ) -> Result<OneShotResult> {
        let sandbox = self.create_one_shot(&options, "sh").await?;
        let result = sandbox
            .exec(&limited(ExecRequest::shell(script), &options))
            .await;
        finish(&sandbox, &options, result).await
    }

    async fn create_one_shot(&self, options: &OneShot, prefix: &str) -> Result<SandboxHandle> {
        let mut spec = options.spec.clone();
        spec.name = unique_name(prefix);
        if options.export_to.is_none() && !self.policy().artifact_export_paths.is_empty() {
            let context = "the policy has artifact_export_paths, and there is no folder for them";
            return Err(
                Error::new(ErrorKind::InvalidRequest, "run one-shot", context)
                    .on(self.tier())
                    .with_fix("set OneShot::export_to, or use a policy without these paths"),
            );
        }
        self.create(&spec).await
    }
}

fn limited(mut request: ExecRequest, options: &OneShot) -> ExecRequest {
    request.timeout = options.timeout;
    request
}

/// Exports, copies the workspace back where the sandbox has a copy of it, and ends the sandbox.
async fn finish(
    sandbox: &SandboxHandle,
    options: &OneShot,
    result: Result<ExecResult>,
) -> Result<OneShotResult> {
    let mut failures = Vec::new();
    let export = match (&options.export_to, &result) {
        (Some(folder), Ok(_)) => Some(sandbox.export(folder, options.artifact_limits).await),
        _ => None,
    };
    let export = export
        .transpose()
        .unwrap_or_else(|error| {
            failures.push(error);
            None
        })
        .unwrap_or_default();
    failures.extend(sandbox.sync().await.err());
    failures.extend(sandbox.kill().await.err());
    match result {
        Ok(mut result) => {
            result.denials.extend(&export.denials);
            Ok(OneShotResult {
                result,
                artifacts: export.artifacts,
                skipped: export.skipped,
                failures,
            })
        }
        Err(error) => {
            for left in failures {
                tracing::error!(%left, "after a one-shot run that failed");
            }
            Err(error)
        }
    }
}
