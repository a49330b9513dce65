//! What a backend implements. Users see [`crate::SandboxClient`] and [`crate::SandboxHandle`] instead, so that the policy's
//! gate stands in one place and no backend can forget it.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncRead;

use crate::{
    ArtifactLimits, BuildRequest, Copied, EnforcementReport, Error, ErrorKind, ExecEnd,
    ExecRequest, Export, ImageInfo, ImagePattern, ImageProgress, ImageReference, Plan, PullPolicy,
    Result, SandboxInfo, Synced, WorkspaceCopies,
};

pub use crate::input::{Input, Order, Orders};

/// A byte stream that a backend reads from: standard input, the content of a file.
pub type Source = Box<dyn AsyncRead + Send + Unpin>;

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What the receiver of output wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Enough: kill the execution and report [`crate::Outcome::OutputLimit`].
    Stop,
}

/// Where output goes, piece by piece, as it comes. A receiver that takes its time slows the program down.
#[async_trait]
pub trait OutputSink: Send {
    /// Takes a piece of output.
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow;

    /// The program runs, or where that cannot be known, it was asked for. Comes before all output, and not where the program
    /// could not be started.
    async fn started(&mut self) {}
}

/// A thing that stands in a line of `sandbox doctor`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked for ("user namespaces").
    pub name: String,
    /// Whether it is there.
    pub present: bool,
    /// What was found, or why it is missing.
    pub detail: String,
    /// What would provide it, in one line; empty where it is there or nothing can.
    pub fix: String,
}

/// A detached sandbox that was found by its name.
pub struct Found {
    /// What was asked for when it was created.
    pub plan: Plan,
    /// The way into it.
    pub instance: Box<dyn Instance>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// A way to make isolated places.
///
/// # Behavior
///
/// - Everything is computed for this host, now; nothing is declared by constant.
/// - An engine that is not there is [`ErrorKind::SandboxUnavailable`] with the reason and the fix, in under 2 s.
/// - No fallback: what cannot be built is an error.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The tier's name, as registered.
    fn name(&self) -> &str;

    /// What this backend would enforce of a plan on this host.
    ///
    /// # Behavior
    ///
    /// - Has an entry for each demand of the plan.
    /// - Refuses with a typed error what it cannot build at all (an image on a backend without images).
    /// - Makes nothing. What would have to be tried out is told as partial: see [`Backend::measure`].
    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport>;

    /// As [`Backend::assess`], right before [`Backend::create`]: a backend may try out here what it can only say after a trial.
    ///
    /// # Behavior
    ///
    /// - Leaves nothing of a trial.
    async fn measure(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.assess(plan).await
    }

    /// Builds a sandbox.
    ///
    /// # Behavior
    ///
    /// - When it fails, or its future is dropped, nothing is left behind; nor where the process is killed meanwhile.
    /// - A detached sandbox belongs to nobody once this has returned. [`ErrorKind::AlreadyExists`] where its name is taken: of
    ///   several at the same time exactly one gets it.
    /// - [`Instance::enforcement`] tells what was really applied.
    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>>;

    /// Brings the image of a plan, where the plan or the configuration says that it is to be pulled. Comes before
    /// [`Backend::create`], which pulls nothing.
    ///
    /// # Behavior
    ///
    /// - Pulls nothing that the plan's `images` do not allow.
    /// - Typed errors: [`ErrorKind::ImageNotFound`], [`ErrorKind::ImageDenied`], [`ErrorKind::RegistryUnreachable`],
    ///   [`ErrorKind::ImageTimedOut`], [`ErrorKind::StorageFull`].
    async fn provide_image(&self, plan: &Plan, progress: &mut ImageProgress<'_>) -> Result<()> {
        let _ = (plan, progress);
        Ok(())
    }

    /// Pulls an image, or with [`PullPolicy::Missing`] sees whether the engine has it.
    ///
    /// # Behavior
    ///
    /// - As [`Backend::provide_image`]; a reference with a digest gives that image or an error.
    async fn pull_image(
        &self,
        reference: &ImageReference,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let _ = (reference, pull, progress);
        Err(unsupported("pull image", self.name()))
    }

    /// Builds an image.
    ///
    /// # Behavior
    ///
    /// - Without [`BuildRequest::network`] nothing of the Dockerfile reaches a network, the engine on its behalf neither.
    /// - Every image that the Dockerfile names is one that `allowed` names, if that names any.
    /// - [`ErrorKind::ImageBuildFailed`] has the failed step's last lines.
    async fn build_image(
        &self,
        request: &BuildRequest,
        allowed: Option<&[ImagePattern]>,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let _ = (request, allowed, progress);
        Err(unsupported("build image", self.name()))
    }

    /// The images that the engine has, sorted by name; those without a name only where this project has built them.
    async fn images(&self) -> Result<Vec<ImageInfo>> {
        Err(unsupported("list images", self.name()))
    }

    /// Removes an image, or only this name where it has others.
    ///
    /// # Behavior
    ///
    /// - [`ErrorKind::ImageNotFound`] where there is none. One that a container uses stays, and that is an error.
    async fn remove_image(&self, reference: &ImageReference) -> Result<()> {
        let _ = reference;
        Err(unsupported("remove image", self.name()))
    }

    /// What would be enforced of a plan in a container that somebody else has made.
    async fn assess_adopted(&self, container: &str, plan: &Plan) -> Result<EnforcementReport> {
        let _ = (container, plan);
        Err(unsupported("adopt container", self.name()))
    }

    /// Enters a container that runs and that somebody else has made, by its id or name.
    ///
    /// # Behavior
    ///
    /// - Never ends, removes or changes the container: the end of the instance ends what was started through it, and takes away
    ///   what was put there.
    /// - [`ErrorKind::SandboxNotFound`] where there is none, [`ErrorKind::SandboxEnded`] where it does not run.
    async fn adopt(&self, container: &str, plan: &Plan) -> Result<Box<dyn Instance>> {
        let _ = (container, plan);
        Err(unsupported("adopt container", self.name()))
    }

    /// What this host has and lacks for this backend.
    async fn diagnose(&self) -> Vec<Finding>;

    /// The profile's key: what of this host changes enforcement, in an order that stays.
    ///
    /// # Behavior
    ///
    /// - No host names, dates or paths: equal hosts have equal keys.
    async fn profile(&self) -> Result<Vec<(String, String)>>;

    /// Whether [`Backend::create`] takes plans of detached sandboxes.
    fn keeps_detached(&self) -> bool {
        false
    }

    /// A detached sandbox that runs, by its name.
    ///
    /// # Behavior
    ///
    /// - [`ErrorKind::SandboxNotFound`] where none of this tier has the name, [`ErrorKind::SandboxEnded`] where it has ended.
    /// - Its plan is the one that it was created with.
    async fn get(&self, name: &str) -> Result<Found> {
        let _ = name;
        Err(unsupported("get sandbox", self.name()))
    }

    /// The detached sandboxes of this tier, sorted by name.
    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        Err(unsupported("list sandboxes", self.name()))
    }

    /// Ends a detached sandbox and removes what it left.
    ///
    /// # Behavior
    ///
    /// - [`ErrorKind::SandboxNotFound`] where none of this tier has the name.
    /// - Ends no process that is not the sandbox's, whatever became of the numbers that were noted.
    async fn remove(&self, name: &str) -> Result<()> {
        let _ = name;
        Err(unsupported("remove sandbox", self.name()))
    }

    /// Removes what detached sandboxes of this tier left that have ended; those that run stay. Gives the names, sorted.
    async fn prune(&self) -> Result<Vec<String>> {
        Err(unsupported("prune sandboxes", self.name()))
    }

    /// Waits for what this process has dropped and the backend removes in the background. A backend that removes nothing in the
    /// background returns at once.
    async fn settle(&self) {}
}

/// A sandbox that runs.
///
/// # Behavior
///
/// - Dropping it kills every process of the sandbox; of a detached one, only the executions that it runs.
#[async_trait]
pub trait Instance: Send + Sync {
    /// What is enforced in this sandbox.
    fn enforcement(&self) -> &EnforcementReport;

    /// The sandbox's folder for temporary files: an absolute path inside of it that the code can write to and execute from.
    fn temporary_folder(&self) -> &str {
        "/tmp"
    }

    /// Runs a program to its end.
    ///
    /// # Behavior
    ///
    /// - `sink` is told of the start first: whoever started the program waits for that.
    /// - Output goes to `sink` as it comes, every byte once, each stream in its order, all of it before the end.
    /// - Standard input and orders are taken from `input` whatever `sink` does: a receiver that takes its time delays neither.
    /// - Orders never queue without a bound, however long the sandbox takes none: equal signals that wait may become one.
    /// - An order that comes after the end is dropped; [`Order::Kill`] ends as [`crate::Outcome::Signaled`] by SIGKILL.
    /// - The environment is the plan's and the request's, nothing else.
    /// - At `request.timeout` (never `None` here) the whole tree is killed: [`crate::Outcome::TimedOut`].
    /// - What outlives the program is killed; a process that holds its output open does not delay the end by more than a second.
    /// - A dropped future kills the execution.
    /// - Typed errors: [`ErrorKind::ProgramNotFound`], [`ErrorKind::NotExecutable`], [`ErrorKind::BadWorkdir`],
    ///   [`ErrorKind::SandboxEnded`].
    async fn exec(
        &self,
        request: &ExecRequest,
        input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd>;

    /// Whether this instance gives up by itself an execution that it cannot end, so that [`Instance::exec`] always returns.
    ///
    /// The core destroys a sandbox otherwise whose execution has not returned 4 s after its time limit. An instance knows better what
    /// counts as overtime: not the time in which the way to its sandbox was interrupted.
    fn bounds_executions(&self) -> bool {
        false
    }

    /// Writes a file inside of the sandbox; missing parents are made.
    async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()>;

    /// Reads a regular file inside of the sandbox into `sink` (as standard output). Links are not followed.
    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()>;

    /// Copies a file, or a folder with everything below it, of the host into the sandbox.
    ///
    /// # Behavior
    ///
    /// - Into `target` under its own name where that is a folder or ends with a slash, else as `target`; a source that ends with
    ///   `/.` is copied as what is in it. Missing parents are made, files are replaced, folders are merged.
    /// - Permission bits are kept; set-id and sticky bits are not.
    /// - Follows no link below `source`, and reads nothing outside of it, whoever changes it meanwhile. Links and special files
    ///   stand in [`Copied::skipped`].
    /// - On the way to `source`, refuses a link in a folder that the plan lets code write, and one that leaves its folder unless
    ///   [`Plan::follow_links`] is set.
    async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        let _ = (source, target);
        Err(unsupported("copy into sandbox", "this backend"))
    }

    /// Copies a file, or a folder with everything below it, out of the sandbox. As [`Instance::copy_in`], the other way round.
    ///
    /// # Behavior
    ///
    /// - Never writes outside of `target`, never follows a link below it or in the sandbox, never waits for a FIFO.
    /// - Refuses links on the way to `target` as [`Instance::copy_in`] does, a `target` that is a link itself, and links in and below
    ///   the working folder of this process.
    /// - The host's own file mode creation mask applies.
    /// - What goes beyond `limits` stands in [`Copied::skipped`].
    async fn copy_out(
        &self,
        source: &str,
        target: &Path,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        let _ = (source, target, limits);
        Err(unsupported("copy out of sandbox", "this backend"))
    }

    /// Copies what matches `paths` into `folder` of the host.
    ///
    /// # Behavior
    ///
    /// - Never writes outside of `folder`, never follows a link on either side, never waits for a FIFO.
    /// - Refuses links on the way to `folder` as [`Instance::copy_out`] does.
    /// - What was not copied stands in [`Export::skipped`] with its reason.
    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        limits: ArtifactLimits,
    ) -> Result<Export>;

    /// The last `tail` lines of what executions wrote (all that is kept for `None`), both streams in their order of arrival.
    async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>>;

    /// As [`Instance::logs`], then what is written from now on, as it comes, until `sink` says stop, the sandbox is stopped, or
    /// this future is dropped. The log's bytes come as standard output; a line on standard error says where some were
    /// overwritten before `sink` had taken them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxEnded`] when the sandbox ended otherwise, so that the last bytes may be missing;
    /// [`ErrorKind::Unsupported`] where the backend does not do that.
    async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        let _ = (tail, sink);
        Err(Error::new(
            ErrorKind::Unsupported,
            "follow the log",
            "this backend does not do that",
        ))
    }

    /// Makes an image of the sandbox's files as they are, under a name that no image has.
    ///
    /// # Behavior
    ///
    /// - Takes what code has written to the image's files, and nothing that lies on a mount.
    /// - The image is configured like the one that the sandbox was made of; nothing of ours is in it.
    /// - [`ErrorKind::AlreadyExists`] where the name is taken, and always for that of the sandbox's own image;
    ///   [`ErrorKind::InvalidRequest`] where the specification has no `writable_root`.
    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let _ = tag;
        Err(unsupported("commit sandbox", "this backend"))
    }

    /// Copies what the code has changed in the workspace to the host's folder, where the sandbox has it as a copy; `None` where it
    /// has none, or has the folder itself.
    ///
    /// # Behavior
    ///
    /// - Never writes outside of the host's folder, never follows a link on either side, removes nothing of the host's.
    /// - Replaces no file of the host's that was changed there since it was last copied: a [`crate::Conflict`].
    /// - Of a workspace that may only be read, nothing comes back.
    async fn sync(&self) -> Result<Option<Synced>> {
        Ok(None)
    }

    /// What was copied of the workspace so far; `None` where [`Instance::sync`] has nothing to copy.
    fn workspace(&self) -> Option<WorkspaceCopies> {
        None
    }

    /// Ends every execution with SIGTERM, after the grace with SIGKILL, then the sandbox. Harmless when it has ended.
    ///
    /// # Behavior
    ///
    /// - Does what [`Instance::sync`] does first. Where that fails the sandbox ends all the same, and the error says so.
    async fn stop(&self, grace: Duration) -> Result<()>;

    /// Ends the sandbox at once, with every process, and removes what it left on the host. Harmless when it has ended.
    async fn kill(&self) -> Result<()>;
}

/// The error of an operation that a backend does not have.
#[must_use]
pub fn unsupported(operation: &'static str, backend: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        operation,
        "this backend does not do that",
    )
    .on(backend)
    .with_fix("choose a tier that does")
}
