//! Code in a sandbox of its own.

use async_trait::async_trait;
use sandbox_core::spi::{create_one_shot, finish_one_shot};
use sandbox_core::{Artifact, Error, OneShot, Result, SandboxClient, SandboxSpec, SkippedArtifact};

use super::{CodeRequest, CodeResult, RunCode as _};

/// The result of running code in a sandbox of its own.
#[derive(Debug)]
#[non_exhaustive]
pub struct OneShotCode {
    /// What became of the code. Its denials include the export's.
    pub code: CodeResult,
    /// Files that were exported to [`OneShot::export_to`].
    pub artifacts: Vec<Artifact>,
    /// Export paths and entries that were not exported.
    pub skipped: Vec<SkippedArtifact>,
    /// Errors after the end of the program: of the export, of copying the workspace back, and of
    /// removing the sandbox.
    pub failures: Vec<Error>,
}

/// Runs code of a language in a new sandbox.
///
/// ```no_run
/// use sandbox_core::{OneShot, SandboxClient};
/// use sandbox_lang::{CodeRequest, RunCodeOnce};
///
/// # async fn example(client: SandboxClient) -> sandbox_core::Result<()> {
/// let request = CodeRequest::new("ruby", "puts 6 * 7");
/// let ended = client.run_code(request, OneShot::default()).await?;
/// assert_eq!(ended.code.check()?.stdout_text(), "42\n");
/// # Ok(()) }
/// ```
#[async_trait]
pub trait RunCodeOnce {
    /// Creates a sandbox, runs the code in it, exports artifacts, and always removes the sandbox.
    ///
    /// The request's libraries are installed first, if the policy allows them: see
    /// [`sandbox_core::SandboxSpec::packages`]. If the specification names no image, tiers with
    /// images use [`crate::Language::image`]. The shorter time limit of the request and `options`
    /// applies.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::run_python`] and [`super::RunCode::run_code`].
    async fn run_code(&self, request: CodeRequest, options: OneShot) -> Result<OneShotCode>;
}

impl CodeRequest {
    /// Adds to a specification what a new sandbox needs for this code: the libraries as packages,
    /// the names of secrets, and the image of the language if there is none on a tier with images.
    ///
    /// # Errors
    ///
    /// Those of [`RunCode::run_code`](super::RunCode::run_code) about the language and its
    /// libraries.
    pub fn complete_spec(&self, client: &SandboxClient, spec: &mut SandboxSpec) -> Result<()> {
        let language = self.language()?;
        for library in &self.libraries {
            spec.packages.push(language.library(library)?.to_string());
        }
        spec.secrets.extend(self.secrets.keys().cloned());
        if spec.image.is_none() && client.runs_images() {
            spec.image = language.image;
        }
        Ok(())
    }
}

#[async_trait]
impl RunCodeOnce for SandboxClient {
    async fn run_code(
        &self,
        mut request: CodeRequest,
        mut options: OneShot,
    ) -> Result<OneShotCode> {
        request.run_checks(&request.language()?)?;
        // Once is enough.
        request.checks.clear();
        request.complete_spec(self, &mut options.spec)?;
        let limits = request.timeout.into_iter().chain(options.timeout);
        request.timeout = limits.min();
        let sandbox = create_one_shot(self, &options, "code").await?;
        let mut compilation = None;
        let result = sandbox.run_code(request).await.map(|code| {
            let (last, done) = code.into_last();
            compilation = done;
            last
        });
        let ended = finish_one_shot(&sandbox, &options, result).await?;
        Ok(OneShotCode {
            code: CodeResult::from_last(ended.result, compilation),
            artifacts: ended.artifacts,
            skipped: ended.skipped,
            failures: ended.failures,
        })
    }
}
