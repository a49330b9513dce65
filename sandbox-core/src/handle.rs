//! A running sandbox, as its user holds it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::capture::Capture;
use crate::denial;
use crate::running::Running;
use crate::spi::{Flow, Instance, OutputSink, OutputStream, Source};
use crate::{
    ArtifactLimits, Copied, DenialKind, Denials, EnforcementReport, Error, ErrorKind, ExecRequest,
    ExecResult, Execution, Export, ImageInfo, ImageReference, Plan, Result, Stdin, Synced,
    WorkspaceCopies,
};

/// How long [`SandboxHandle::stop`] lets programs end by themselves.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// A running sandbox. Dropping it kills every process in it; the handle of a detached sandbox, only the executions that it
/// runs.
pub struct SandboxHandle {
    name: String,
    running: Arc<Running>,
    /// Tells executions of its drop.
    open: watch::Sender<()>,
}

impl std::fmt::Debug for SandboxHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxHandle")
            .field("name", &self.name)
            .field("tier", &self.running.tier)
            .finish_non_exhaustive()
    }
}

impl SandboxHandle {
    pub(crate) fn new(tier: String, plan: Arc<Plan>, instance: Box<dyn Instance>) -> Self {
        Self {
            name: plan.name.clone(),
            running: Arc::new(Running::new(tier, plan, instance)),
            open: watch::Sender::new(()),
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
        &self.running.tier
    }

    /// What is enforced in this sandbox.
    #[must_use]
    pub fn enforcement(&self) -> &EnforcementReport {
        self.running.instance.enforcement()
    }

    /// What was asked of the backend.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.running.plan
    }

    /// The sandbox's folder for temporary files, inside of the sandbox.
    #[must_use]
    pub fn temporary_folder(&self) -> &str {
        self.running.instance.temporary_folder()
    }

    /// Runs a program and keeps its output, up to the policy's caps.
    ///
    /// # Errors
    ///
    /// When the sandbox failed. A program that fails, is killed or times out is an [`crate::Outcome`].
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
        let plan = &self.running.plan;
        let capture = Capture::new(plan.stdout_max, plan.stderr_max);
        self.running.run(request, stdin.into(), capture, live).await
    }

    /// As [`SandboxHandle::exec`], with standard input out of `stdin`, and every piece of output given to `on_output` as it
    /// comes (whether or not it is kept). While the function runs, the program waits.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec`].
    pub async fn exec_live(
        &self,
        request: &ExecRequest,
        stdin: Option<Source>,
        on_output: impl FnMut(OutputStream, &[u8]) + Send,
    ) -> Result<ExecResult> {
        let mut callback = Callback(on_output);
        self.exec_with(request, stdin, Some(&mut callback)).await
    }

    /// Starts a program and leaves it to itself: its events, its standard input and its end belong to the [`Execution`]. Returns
    /// once the program runs. Needs a tokio runtime, and goes on for as long as that.
    ///
    /// # Errors
    ///
    /// When the sandbox failed, or there is no such program.
    pub async fn start(&self, request: &ExecRequest, stdin: Stdin) -> Result<Execution> {
        let running = Arc::clone(&self.running);
        Execution::start(running, self.open.subscribe(), request, stdin).await
    }

    /// Everything that was denied in this sandbox so far, to executions that have ended and to the operations of this handle: see
    /// [`crate::Denial`].
    #[must_use]
    pub fn denials(&self) -> Denials {
        self.running.denials.snapshot()
    }

    /// Adds to a failed file operation what was denied.
    fn denied_file(&self, error: Error, kind: DenialKind, path: &str) -> Error {
        let plan = &self.running.plan;
        let number = error.os_error().filter(|_| error.kind() == ErrorKind::Path);
        let denial = number.and_then(|number| denial::of_file_error(kind, path, number, plan));
        match denial {
            Some(denial) => {
                self.running.denials.push(denial.clone());
                error.with_denial(denial)
            }
            None => error,
        }
    }

    /// Writes a file inside of the sandbox, with these permission bits; missing parents are made.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] where the code in the sandbox may not write it.
    pub async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()> {
        absolute(path)?;
        let put = self.running.instance.put(path, mode, content).await;
        put.map_err(|error| self.denied_file(error, DenialKind::FileWrite, path))
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
        let fetched = self.running.instance.fetch(path, &mut sink).await;
        fetched.map_err(|error| self.denied_file(error, DenialKind::FileRead, path))?;
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
        let copied = self.running.instance.copy_in(source, target).await;
        copied.map_err(|error| self.denied_file(error, DenialKind::FileWrite, target))
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
        let copied = self.running.instance.copy_out(source, target, limits).await;
        copied.map_err(|error| self.denied_file(error, DenialKind::FileRead, source))
    }

    /// Copies what the policy's `artifact_export_paths` name into `folder` of the host.
    ///
    /// # Errors
    ///
    /// When the sandbox or the folder failed. What could not be exported stands in [`Export::skipped`].
    pub async fn export(&self, folder: &Path, limits: ArtifactLimits) -> Result<Export> {
        if self.running.plan.export_paths.is_empty() {
            return Ok(Export::default());
        }
        let plan = &self.running.plan;
        let exporting = self
            .running
            .instance
            .export(&plan.export_paths, folder, limits);
        let mut export = exporting.await?;
        let skipped = export.skipped.iter();
        export.denials = skipped
            .filter_map(|skipped| denial::of_artifact(skipped, limits, plan))
            .collect();
        self.running.denials.extend(&export.denials);
        Ok(export)
    }

    /// Makes an image of the sandbox's files as they are, under a name that no image has. The sandbox goes on.
    ///
    /// What lies on a mount is not part of it: the temporary folders, a workspace or root of the host. The image has the
    /// configuration of the one that the sandbox was made of. Files may be in the middle of a change while code runs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] where the specification has no `writable_root`, and for a name with a digest;
    /// [`ErrorKind::AlreadyExists`] where the name is taken, and always for that of the sandbox's own image;
    /// [`ErrorKind::PolicyExceeded`] for a name that is none of the policy's; [`ErrorKind::Unsupported`] on tiers without images.
    pub async fn commit(&self, tag: &str) -> Result<ImageInfo> {
        let tag = tag.parse::<ImageReference>()?;
        let bad = |why: &str, fix: &str| {
            let context = format!("{tag}: {why}");
            Error::new(ErrorKind::InvalidRequest, "commit sandbox", context)
                .on(self.tier())
                .with_fix(fix)
        };
        if tag.name().is_none() || tag.digest().is_some() {
            let why = "an image that is made cannot have its id or digest chosen";
            return Err(bad(why, "give it a name with a tag"));
        }
        self.plan().check_image(&tag)?;
        if !self.plan().writable_root {
            let why = "the image's files cannot be changed in this sandbox, so there is nothing to commit";
            return Err(bad(why, "create the sandbox with writable_root"));
        }
        self.running.instance.commit(&tag).await
    }

    /// The last `tail` lines of what executions wrote.
    ///
    /// # Errors
    ///
    /// When the sandbox has ended and kept no log.
    pub async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>> {
        self.running.instance.logs(tail).await
    }

    /// As [`SandboxHandle::logs`], then what is written from now on, until `sink` says stop or the sandbox is stopped.
    ///
    /// # Errors
    ///
    /// As [`Instance::follow_logs`].
    pub async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        self.running.instance.follow_logs(tail, sink).await
    }

    /// Copies what the code has changed in the workspace to the host's folder, on a tier whose sandboxes have a copy of it (pods);
    /// `None` where there is nothing to copy, since the sandbox has no workspace or the folder itself.
    ///
    /// Nothing of the host's is removed, and no file is replaced that was changed there meanwhile: see [`Synced`]. Files may be in the
    /// middle of a change while code runs. [`SandboxHandle::stop`] does this too; [`SandboxHandle::kill`] and a drop do not.
    ///
    /// # Errors
    ///
    /// When the sandbox or the folder failed. What was copied until then stays.
    pub async fn sync(&self) -> Result<Option<Synced>> {
        self.running.instance.sync().await
    }

    /// What was copied of the workspace so far; `None` where the sandbox has none, or the folder itself.
    #[must_use]
    pub fn workspace(&self) -> Option<WorkspaceCopies> {
        self.running.instance.workspace()
    }

    /// Copies what [`SandboxHandle::sync`] would, then ends every program with SIGTERM, after [`STOP_GRACE`] with SIGKILL, then the
    /// sandbox.
    ///
    /// # Errors
    ///
    /// When the workspace could not be copied back, though the sandbox has ended; when something could not be ended or removed. The
    /// error says what is left.
    pub async fn stop(&self) -> Result<()> {
        self.running.instance.stop(STOP_GRACE).await
    }

    /// Ends the sandbox at once, with every process.
    ///
    /// # Errors
    ///
    /// When something could not be ended or removed; the error says what is left.
    pub async fn kill(&self) -> Result<()> {
        self.running.instance.kill().await
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

/// Hands every piece of output to a function.
struct Callback<F>(F);

#[async_trait::async_trait]
impl<F: FnMut(OutputStream, &[u8]) + Send> OutputSink for Callback<F> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        (self.0)(stream, bytes);
        Flow::Continue
    }
}

struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

#[async_trait::async_trait]
impl OutputSink for Bounded {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        let room = self
            .limit
            .saturating_add(1)
            .saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        if self.bytes.len() > self.limit {
            Flow::Stop
        } else {
            Flow::Continue
        }
    }
}
