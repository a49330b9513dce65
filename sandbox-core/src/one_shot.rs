//! Sandboxes for one program: create, run, export, remove.

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::unique_name::unique_name;
use crate::{
    Artifact, ArtifactLimits, Error, ErrorKind, ExecRequest, ExecResult, Result, SandboxClient,
    SandboxHandle, SandboxSpec, SkippedArtifact,
};

/// Options of [`SandboxClient::run_python`] and [`SandboxClient::run_shell`].
///
/// ```
/// use sandbox_core::{OneShot, SandboxSpec};
/// use std::time::Duration;
///
/// let options = OneShot::new(SandboxSpec::new("grader").env("LANG", "C.UTF-8"))
///     .timeout(Duration::from_secs(5))
///     .export_to("artifacts");
/// assert!(options.export_to.is_some());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OneShot {
    /// The sandbox to create. A unique name replaces its name.
    pub spec: SandboxSpec,
    /// Time limit. A policy's shorter limit takes precedence.
    pub timeout: Option<Duration>,
    /// Folder of the host for the policy's `artifact_export_paths`. Required if it has any.
    pub export_to: Option<PathBuf>,
    /// Limits of the export.
    pub artifact_limits: ArtifactLimits,
}

impl Default for OneShot {
    fn default() -> Self {
        Self::new(SandboxSpec::new("one-shot"))
    }
}

impl OneShot {
    /// Runs in a sandbox with this specification.
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

    /// Exports artifacts into this folder of the host before the sandbox is removed.
    #[must_use]
    pub fn export_to(mut self, folder: impl AsRef<Path>) -> Self {
        self.export_to = Some(folder.as_ref().to_owned());
        self
    }

    /// Sets the limits of the export.
    #[must_use]
    pub fn artifact_limits(mut self, limits: ArtifactLimits) -> Self {
        self.artifact_limits = limits;
        self
    }
}

/// The result of a one-shot run. Dereferences to the [`ExecResult`] of the program.
///
/// The program's result is valid even if a later step failed: see [`OneShotResult::failures`].
#[derive(Debug)]
#[non_exhaustive]
pub struct OneShotResult {
    /// The result of the program. Its denials include the export's.
    pub result: ExecResult,
    /// Files that were exported to [`OneShot::export_to`].
    pub artifacts: Vec<Artifact>,
    /// Export paths and entries that were not exported.
    pub skipped: Vec<SkippedArtifact>,
    /// Errors after the end of the program: of the export, of copying the workspace back, and of
    /// removing the sandbox.
    pub failures: Vec<Error>,
}

impl Deref for OneShotResult {
    type Target = ExecResult;

    fn deref(&self) -> &ExecResult {
        &self.result
    }
}

impl SandboxClient {
    /// Runs Python code in a new sandbox with its `python3`, or its `python` if there is no
    /// `python3`. Exports artifacts, and always removes the sandbox.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`] and [`SandboxHandle::exec`]. [`ErrorKind::InvalidRequest`] if
    /// the policy has `artifact_export_paths` and [`OneShot::export_to`] is not set. Errors after
    /// the end of the program are in [`OneShotResult::failures`].
    pub async fn run_python(
        &self,
        code: impl AsRef<OsStr>,
        options: OneShot,
    ) -> Result<OneShotResult> {
        let request = |program: &str| ExecRequest::new(program).arg("-c").arg(&code);
        let sandbox = create_one_shot(self, &options, "py").await?;
        let result = match sandbox.exec(&limited(request("python3"), &options)).await {
            Err(error) if error.kind() == ErrorKind::ProgramNotFound => {
                sandbox.exec(&limited(request("python"), &options)).await
            }
            result => result,
        };
        finish_one_shot(&sandbox, &options, result).await
    }

    /// Runs a shell script in a new sandbox. Exports artifacts, and always removes the sandbox.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::run_python`].
    pub async fn run_shell(
        &self,
        script: impl AsRef<OsStr>,
        options: OneShot,
    ) -> Result<OneShotResult> {
        let sandbox = create_one_shot(self, &options, "sh").await?;
        let result = sandbox
            .exec(&limited(ExecRequest::shell(script), &options))
            .await;
        finish_one_shot(&sandbox, &options, result).await
    }
}

/// Creates the sandbox of a one-shot run, for packages with other ways to run code. Its name starts
/// with `prefix`.
///
/// # Errors
///
/// As [`SandboxClient::run_python`].
pub async fn create_one_shot(
    client: &SandboxClient,
    options: &OneShot,
    prefix: &str,
) -> Result<SandboxHandle> {
    let mut spec = options.spec.clone();
    spec.name = unique_name(prefix);
    if options.export_to.is_none() && !client.policy().artifact_export_paths.is_empty() {
        let context = "the policy has artifact_export_paths, and there is no folder for them";
        return Err(
            Error::new(ErrorKind::InvalidRequest, "run one-shot", context)
                .on(client.tier())
                .with_fix("set OneShot::export_to, or use a policy without these paths"),
        );
    }
    client.create(&spec).await
}

fn limited(mut request: ExecRequest, options: &OneShot) -> ExecRequest {
    request.timeout = options.timeout;
    request
}

/// Ends the sandbox of [`create_one_shot`]: exports artifacts unless the run failed, and copies the
/// workspace back if it is a copy.
///
/// # Errors
///
/// Those of `result`. Others are in [`OneShotResult::failures`].
pub async fn finish_one_shot(
    sandbox: &SandboxHandle,
    options: &OneShot,
    result: Result<ExecResult>,
) -> Result<OneShotResult> {
    let mut failures = Vec::new();
    let export = match (&options.export_to, &result) {
        (Some(folder), Ok(_)) => Some(sandbox.export_with(folder, options.artifact_limits).await),
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
