//! A running sandbox, as its user holds it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::capture::Capture;
use crate::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use crate::{
    ArtifactLimits, Copied, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, ExecResult,
    Export, Outcome, Plan, Result,
};

/// How long a backend may take beyond an execution's time limit before the sandbox is destroyed: the agent's bound for
/// killing a tree is 2 s.
const OVERTIME: Duration = Duration::from_secs(4);

/// How long [`SandboxHandle::stop`] lets programs end by themselves.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// A running sandbox. Dropping it kills every process in it; the handle of a detached sandbox, only the executions that it
/// runs.
pub struct SandboxHandle {
    name: String,
    tier: String,
    plan: Arc<Plan>,
    instance: Box<dyn Instance>,
}

impl std::fmt::Debug for SandboxHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxHandle")
            .field("name", &self.name)
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

impl SandboxHandle {
    pub(crate) fn new(tier: String, plan: Arc<Plan>, instance: Box<dyn Instance>) -> Self {
        Self {
            name: plan.name.clone(),
            tier,
            plan,
            instance,
        }
    }

    /// The sandbox's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tier that it runs on.
    #[must_use]
    pub fn tier(&self) -> &str {
        &self.tier
    }

    /// What is enforced in this sandbox.
    #[must_use]
    pub fn enforcement(&self) -> &EnforcementReport {
        self.instance.enforcement()
    }

    /// What was asked of the backend.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The sandbox's folder for temporary files, inside of the sandbox.
    #[must_use]
    pub fn temporary_folder(&self) -> &str {
        self.instance.temporary_folder()
    }

    /// Runs a program and keeps its output, up to the policy's caps.
    ///
    /// # Errors
    ///
    /// When the sandbox failed. A program that fails, is killed or times out is an [`Outcome`].
    pub async fn exec(&self, request: &ExecRequest) -> Result<ExecResult> {
        self.exec_with(request, None, None).await
    }

    /// Runs a script in the sandbox's `/bin/sh`.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec`].
    pub async fn shell(&self, script: impl Into<Vec<u8>>) -> Result<ExecResult> {
        self.exec(&ExecRequest::shell(script)).await
    }

    /// As [`SandboxHandle::exec`], with standard input out of `stdin`, and every piece of output handed to `live` as it comes
    /// (whether or not it is kept).
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec`].
    pub async fn exec_with(
        &self,
        request: &ExecRequest,
        stdin: Option<Source>,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        request.validate()?;
        let mut request = request.clone();
        let timeout = request
            .timeout
            .map_or(self.plan.timeout, |asked| asked.min(self.plan.timeout));
        request.timeout = Some(timeout);
        let mut sink = Tee {
            capture: Capture::new(self.plan.stdout_max, self.plan.stderr_max),
            live,
        };
        let start = Instant::now();
        let run = self.instance.exec(&request, stdin, &mut sink);
        let end = match tokio::time::timeout(timeout.saturating_add(OVERTIME), run).await {
            Ok(end) => end?,
            Err(_) => {
                self.instance.kill().await?;
                let mut end = ExecEnd::new(Outcome::TimedOut);
                end.incomplete = Some(
                    "the execution could not be ended alone: the sandbox was destroyed".into(),
                );
                end
            }
        };
        let (stdout, stderr) = sink.capture.finish();
        Ok(ExecResult::new(end, stdout, stderr, start.elapsed()))
    }

    /// Writes a file inside of the sandbox, with these permission bits; missing parents are made.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] where the code in the sandbox may not write it.
    pub async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()> {
        absolute(path)?;
        self.instance.put(path, mode, content).await
    }

    /// Reads a regular file inside of the sandbox, of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] where the code in the sandbox may not read it, where it is a link or no file, or larger than `limit`.
    pub async fn fetch(&self, path: &str, limit: usize) -> Result<Vec<u8>> {
        absolute(path)?;
        let mut sink = Bounded {
            bytes: Vec::new(),
            limit,
        };
        self.instance.fetch(path, &mut sink).await?;
        if sink.bytes.len() > limit {
            return Err(Error::new(
                ErrorKind::Path,
                "read file",
                format!("{path}: larger than {limit} bytes"),
            ));
        }
        Ok(sink.bytes)
    }

    /// Copies a file, or a folder with everything below it, of the host into the sandbox, as [`Instance::copy_in`] says.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] with the path on either side that is missing, a link, special or denied. What could not be copied
    /// of a folder without harm to the rest stands in [`Copied::skipped`].
    pub async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        absolute(target)?;
        self.instance.copy_in(source, target).await
    }

    /// Copies a file, or a folder with everything below it, out of the sandbox, as [`Instance::copy_out`] says.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::copy_in`].
    pub async fn copy_out(
        &self,
        source: &str,
        target: &Path,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        absolute(source)?;
        self.instance.copy_out(source, target, limits).await
    }

    /// Copies what the policy's `artifact_export_paths` name into `folder` of the host.
    ///
    /// # Errors
    ///
    /// When the sandbox or the folder failed. What could not be exported stands in [`Export::skipped`].
    pub async fn export(&self, folder: &Path, limits: ArtifactLimits) -> Result<Export> {
        if self.plan.export_paths.is_empty() {
            return Ok(Export::default());
        }
        self.instance
            .export(&self.plan.export_paths, folder, limits)
            .await
    }

    /// The last `tail` bytes of what executions wrote.
    ///
    /// # Errors
    ///
    /// When the sandbox has ended and kept no log.
    pub async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>> {
        self.instance.logs(tail).await
    }

    /// As [`SandboxHandle::logs`], then what is written from now on, until `sink` says stop or the sandbox is stopped.
    ///
    /// # Errors
    ///
    /// As [`Instance::follow_logs`].
    pub async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        self.instance.follow_logs(tail, sink).await
    }

    /// Ends every program with SIGTERM, after [`STOP_GRACE`] with SIGKILL, then the sandbox.
    ///
    /// # Errors
    ///
    /// When something could not be ended or removed; the error says what is left.
    pub async fn stop(&self) -> Result<()> {
        self.instance.stop(STOP_GRACE).await
    }

    /// Ends the sandbox at once, with every process.
    ///
    /// # Errors
    ///
    /// When something could not be ended or removed; the error says what is left.
    pub async fn kill(&self) -> Result<()> {
        self.instance.kill().await
    }
}

fn absolute(path: &str) -> Result<()> {
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Path,
        "name file",
        format!("{path:?} is not an absolute path inside of the sandbox without NUL"),
    ))
}

struct Tee<'a> {
    capture: Capture,
    live: Option<&'a mut dyn OutputSink>,
}

#[async_trait::async_trait]
impl OutputSink for Tee<'_> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        let kept = self.capture.take(stream, bytes);
        let live = match &mut self.live {
            Some(live) => live.write(stream, bytes).await,
            None => Flow::Continue,
        };
        if kept == Flow::Stop { kept } else { live }
    }
}

struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

#[async_trait::async_trait]
impl OutputSink for Bounded {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        let room = (self.limit + 1).saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        if self.bytes.len() > self.limit {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}
