//! A running sandbox, as a backend implements it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::audit::Auditor;
use crate::policy::EgressRules;

use super::{Input, OutputSink, PlaceholderSecret, Source, TrustedCertificates, unsupported};
use crate::{
    ArtifactLimits, Copied, EnforcementReport, Error, ErrorKind, ExecEnd, ExecRequest, Export,
    FileEntry, Forward, ImageInfo, ImageReference, Result, SandboxStats, Synced, WorkspaceCopies,
};

/// A running sandbox.
///
/// # Behavior
///
/// - Dropping it kills every process of the sandbox. For a detached sandbox, it kills only the
///   executions that this instance started.
#[async_trait]
pub trait Instance: Send + Sync {
    /// What is enforced in this sandbox.
    fn enforcement(&self) -> &EnforcementReport;

    /// The folder for temporary files: an absolute path inside of the sandbox. Code can write to
    /// it and execute files from it.
    fn temporary_folder(&self) -> &str {
        "/tmp"
    }

    /// Runs a program until it ends.
    ///
    /// # Behavior
    ///
    /// - Calls [`OutputSink::started`] first. The caller may be waiting for it.
    /// - Passes all output to `sink` as it arrives: every byte once, each stream in order, and
    ///   before this returns.
    /// - Takes standard input and control requests from `input` even while `sink` is slow.
    /// - Waiting requests are bounded, even if the sandbox takes none. Equal signals that wait may
    ///   be merged.
    /// - Drops requests that arrive after the end. [`super::ControlRequest::Kill`] ends the execution as
    ///   [`crate::Outcome::Signaled`] by SIGKILL.
    /// - The environment consists of the plan's variables and the request's.
    /// - Kills all processes of the execution at `request.timeout`, which is never `None` here:
    ///   [`crate::Outcome::TimedOut`].
    /// - Kills processes that outlive the program. One that holds the output open delays the end
    ///   by at most a second.
    /// - Dropping the future kills the execution.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ProgramNotFound`], [`ErrorKind::NotExecutable`], [`ErrorKind::BadWorkdir`]
    /// and [`ErrorKind::SandboxEnded`].
    async fn exec(
        &self,
        request: &ExecRequest,
        input: Input,
        sink: &mut dyn OutputSink,
    ) -> Result<ExecEnd>;

    /// Whether [`Instance::exec`] always returns, even if an execution cannot be ended.
    ///
    /// If `false`, the core destroys the sandbox when an execution has not returned 4 s after its
    /// time limit. An instance can measure this better: it can exclude the time in which the
    /// connection to its sandbox was interrupted.
    fn bounds_executions(&self) -> bool {
        false
    }

    /// Whether [`Instance::exec`] takes requests with a terminal. Otherwise the core refuses them.
    ///
    /// If `true`, and the sandbox turns out to have no terminals, `exec` fails with
    /// [`ErrorKind::Unsupported`].
    fn has_terminals(&self) -> bool {
        false
    }

    /// Whether a program that runs as this user, and this group if one is named, is another user
    /// than the sandbox's own. [`Instance::exec`] is called only with users that this accepts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] with the reason for a user that programs cannot have.
    fn check_user(&self, user: (u32, Option<u32>)) -> Result<bool> {
        let _ = user;
        Err(unsupported("run as another user", "this backend"))
    }

    /// Writes a file inside of the sandbox. Creates missing parent folders.
    async fn put(&self, path: &str, mode: u32, content: Source) -> Result<()>;

    /// Reads a regular file inside of the sandbox into `sink`, as standard output. Does not follow
    /// links.
    async fn fetch(&self, path: &str, sink: &mut dyn OutputSink) -> Result<()>;

    /// The file or folder at `path`, without following a link; `None` if there is none.
    async fn stat(&self, path: &str) -> Result<Option<FileEntry>> {
        let _ = path;
        Err(unsupported("look at a file", "this backend"))
    }

    /// What is directly in the folder `path`, sorted by path.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Path`] for anything but a folder, and for more entries than fit in a list.
    async fn list_dir(&self, path: &str) -> Result<Vec<FileEntry>> {
        let _ = path;
        Err(unsupported("list folder", "this backend"))
    }

    /// Makes a folder with these permission bits, and its missing parents. An existing folder is
    /// not an error.
    async fn make_dir(&self, path: &str, mode: u32) -> Result<()> {
        let _ = (path, mode);
        Err(unsupported("make folder", "this backend"))
    }

    /// Removes a file, or a folder with all its content. Does not follow links.
    async fn remove(&self, path: &str) -> Result<()> {
        let _ = path;
        Err(unsupported("remove file", "this backend"))
    }

    /// Copies a file or a folder of the host into the sandbox.
    ///
    /// # Behavior
    ///
    /// - If `target` is a folder or ends with a slash, copies into it under the source's name;
    ///   otherwise copies to `target`. A source that ends with `/.` stands for its content.
    ///   Creates missing parents, replaces files and merges folders.
    /// - Keeps permission bits, except set-id and sticky bits.
    /// - Follows no link below `source` and reads nothing outside of it, even if it is changed
    ///   meanwhile. Lists links and special files in [`Copied::skipped`].
    /// - On the path to `source`, refuses links in folders that the plan lets code write. Refuses
    ///   a link that leaves its folder unless [`crate::Plan::follow_links`] is set.
    async fn copy_in(&self, source: &Path, target: &str) -> Result<Copied> {
        let _ = (source, target);
        Err(unsupported("copy into sandbox", "this backend"))
    }

    /// Copies a file or a folder of the sandbox to the host, like [`Instance::copy_in`].
    ///
    /// # Behavior
    ///
    /// - Never writes outside of `target`, never follows a link below it or in the sandbox, and
    ///   never waits for a FIFO.
    /// - Refuses links on the path to `target` like [`Instance::copy_in`], a `target` that is a
    ///   link, and links in and below the working folder of this process.
    /// - Applies the umask of this process.
    /// - Lists what exceeds `limits` in [`Copied::skipped`].
    async fn copy_out(
        &self,
        source: &str,
        target: &Path,
        limits: ArtifactLimits,
    ) -> Result<Copied> {
        let _ = (source, target, limits);
        Err(unsupported("copy out of sandbox", "this backend"))
    }

    /// Copies everything that matches `paths` into `folder` on the host.
    ///
    /// # Behavior
    ///
    /// - Never writes outside of `folder`, never follows a link on either side, and never waits
    ///   for a FIFO.
    /// - Refuses links on the path to `folder` like [`Instance::copy_out`].
    /// - Lists each file that it does not copy in [`Export::skipped`], with the reason.
    async fn export(
        &self,
        paths: &[String],
        folder: &Path,
        limits: ArtifactLimits,
    ) -> Result<Export>;

    /// The last `tail` lines that executions wrote, or everything that is kept for `None`. Both
    /// streams are interleaved in order of arrival.
    async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>>;

    /// Writes the output of [`Instance::logs`] to `sink`, and then new output as it arrives. Ends
    /// when `sink` stops it, the sandbox is stopped, or the future is dropped.
    ///
    /// The log arrives as standard output. If bytes were overwritten before `sink` took them, a
    /// line on standard error says so.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxEnded`] if the sandbox ended in another way, so that the last bytes may
    /// be missing. [`ErrorKind::Unsupported`] if the backend cannot follow the log.
    async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        let _ = (tail, sink);
        Err(Error::new(
            ErrorKind::Unsupported,
            "follow the log",
            "this backend does not do that",
        ))
    }

    /// The rules for connections out of the sandbox that are in force.
    ///
    /// Fails with [`ErrorKind::NotCarried`] if the sandbox is detached and no process carries its
    /// connections.
    async fn egress_rules(&self) -> Result<EgressRules> {
        Err(unsupported("read egress rules", "this backend"))
    }

    /// Makes this process the carrier of a detached sandbox's connections, until this instance is
    /// dropped. `rules` replace those of the plan.
    ///
    /// # Behavior
    ///
    /// - Other clients of the sandbox can ask the carrier for its rules and change them.
    /// - Only changes the rules, if this process carries the connections already.
    /// - Fails with [`ErrorKind::AlreadyExists`] if another process does, and as
    ///   [`Instance::set_egress`].
    async fn carry_egress(&self, rules: Option<EgressRules>) -> Result<()> {
        let _ = rules;
        Err(unsupported("carry connections", "this backend"))
    }

    /// Waits until the sandbox has ended, or this client has lost it. Returns the reason.
    async fn ended(&self) -> Result<String> {
        Err(unsupported("wait for the sandbox's end", "this backend"))
    }

    /// Replaces the rules for connections out of the sandbox, within [`crate::Plan::network_ceiling`].
    ///
    /// # Behavior
    ///
    /// - Returns when the new rules are in force, and when each connection that they do not allow
    ///   has been reset. Other connections live on.
    /// - Changes nothing on an error of kind [`ErrorKind::PolicyExceeded`] or
    ///   [`ErrorKind::InvalidPolicy`].
    async fn set_egress(&self, rules: EgressRules) -> Result<()> {
        let _ = rules;
        Err(unsupported("change egress rules", "this backend"))
    }

    /// The certificates that code must trust, so that rules at level `http` work: those of the
    /// sandbox's own authority, and the host's public ones. `None` if no rule of the sandbox can be
    /// at this level.
    async fn trusted_certificates(&self) -> Result<Option<TrustedCertificates>> {
        Ok(None)
    }

    /// Makes a text that stands for a secret in requests of code at level `http`, until
    /// [`Instance::remove_placeholder`]. Returns the text.
    ///
    /// Fails with [`ErrorKind::InvalidRequest`] if no rule at this level allows one of its hosts.
    async fn add_placeholder(&self, secret: PlaceholderSecret) -> Result<String> {
        let _ = secret;
        Err(unsupported("use secret for hosts", "this backend"))
    }

    /// Forgets a secret. The text then stands for itself.
    fn remove_placeholder(&self, text: &str) {
        let _ = text;
    }

    /// Tells `auditor` of the connections of code: [`crate::audit::AuditEvent::Connection`] and
    /// [`crate::audit::AuditEvent::Unreachable`]. Called at most once, before any code runs.
    fn audit(&self, auditor: Auditor) {
        let _ = auditor;
    }

    /// Listens on `address` of the host and connects each client to `port` of the sandbox's own
    /// loopback.
    ///
    /// # Behavior
    ///
    /// - Tries `127.0.0.1` and then `::1`, for each connection anew. A connection that the
    ///   sandbox refuses is reset.
    /// - Each direction ends on its own.
    /// - Needs no network of the sandbox.
    /// - Dropping the [`Forward`] closes the listener and resets the connections.
    async fn forward(&self, address: SocketAddr, port: u16) -> Result<Forward> {
        let _ = (address, port);
        Err(unsupported("forward port", "this backend"))
    }

    /// Creates an image from the current files of the sandbox, under an unused name.
    ///
    /// # Behavior
    ///
    /// - Contains the changes that code made to the image's files, and nothing from mounts.
    /// - Has the configuration of the sandbox's image, and nothing that this library added.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`] if the name is taken; the name of the sandbox's own image
    /// always is. [`ErrorKind::InvalidRequest`] if the specification has no `writable_root`.
    async fn commit(&self, tag: &ImageReference) -> Result<ImageInfo> {
        let _ = tag;
        Err(unsupported("commit sandbox", "this backend"))
    }

    /// Copies changes in the workspace to the host's folder, if the sandbox has a copy of it.
    /// Returns `None` if it has no workspace or uses the folder itself.
    ///
    /// # Behavior
    ///
    /// - Never writes outside of the host's folder, never follows a link on either side, and
    ///   removes nothing on the host.
    /// - Does not replace a file that was changed on the host since the last copy, but reports a
    ///   [`crate::Conflict`].
    /// - Copies nothing from a read-only workspace.
    async fn sync(&self) -> Result<Option<Synced>> {
        Ok(None)
    }

    /// What was copied of the workspace so far. `None` if [`Instance::sync`] has nothing to copy.
    fn workspace(&self) -> Option<WorkspaceCopies> {
        None
    }

    /// What the sandbox has used, as far as this host can measure it.
    ///
    /// # Behavior
    ///
    /// - What code or the agent says is no measurement.
    async fn stats(&self) -> Result<SandboxStats> {
        Ok(SandboxStats::default())
    }

    /// Ends every execution with SIGTERM, after `grace` with SIGKILL, and then the sandbox. Does
    /// nothing if it has ended.
    ///
    /// # Behavior
    ///
    /// - Calls [`Instance::sync`] first. If that fails, the sandbox ends anyway, and the
    ///   error is returned.
    async fn stop(&self, grace: Duration) -> Result<()>;

    /// Ends the sandbox and all its processes at once, and removes what it left on the host. Does
    /// nothing if it has ended.
    async fn kill(&self) -> Result<()>;
}

/// What connections out of a sandbox have carried since it was created, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressTraffic {
    /// From code to servers.
    pub sent: u64,
    /// From servers to code.
    pub received: u64,
}
