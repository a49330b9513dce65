//! A running sandbox, as its user holds it.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::audit::AuditEvent;
use crate::capture::Capture;
use crate::policy::EgressRules;
use crate::running::Running;
use crate::spi::{Flow, OutputSink, OutputStream};
use crate::trust;
use crate::{
    Denials, EnforcementReport, Error, ErrorKind, ExecRequest, ExecResult, Execution, Forward,
    ImageInfo, ImageReference, Plan, Result, SandboxStats, Stdin, Synced, WorkspaceCopies,
};

/// How long [`SandboxHandle::stop`] waits between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// A running sandbox.
///
/// Dropping the last handle of an attached sandbox kills every process in it. Dropping the handle
/// of a detached sandbox kills only the executions that were started through this handle.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # use std::sync::Arc;
/// # use sandbox_core::fake::{FakeAnswer, FakeBackend};
/// use sandbox_core::{CapabilityPolicy, ExecRequest, SandboxClient, SandboxSpec};
///
/// # let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("42\n")));
/// # let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
/// let sandbox = client.create(&SandboxSpec::new("example")).await?;
/// let result = sandbox.exec(&ExecRequest::new("python3").args(["-c", "print(6 * 7)"])).await?;
/// assert_eq!(result.check()?.stdout_text(), "42\n");
/// sandbox.kill().await?;
/// # Ok::<(), sandbox_core::Error>(()) }).unwrap();
/// ```
pub struct SandboxHandle {
    name: String,
    pub(crate) running: Arc<Running>,
    /// Closes when the handle is dropped, which ends its executions.
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
    pub(crate) fn new(running: Arc<Running>) -> Self {
        Self {
            name: running.plan.name.clone(),
            running,
            open: watch::Sender::new(()),
        }
    }

    /// Closes when the handle is dropped.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.open.subscribe()
    }

    /// Returns the sandbox's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tier that the sandbox runs on.
    #[must_use]
    pub fn tier(&self) -> &str {
        &self.running.tier
    }

    /// Returns what is enforced in this sandbox.
    #[must_use]
    pub fn enforcement(&self) -> &EnforcementReport {
        self.running.instance.enforcement()
    }

    /// Returns the plan that the backend applied.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.running.plan
    }

    /// Returns the folder for temporary files, as an absolute path inside the sandbox.
    #[must_use]
    pub fn temporary_folder(&self) -> &str {
        self.running.instance.temporary_folder()
    }

    /// Returns the value of this type that a package keeps with the sandbox in this process. The
    /// first call creates it.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # fn example(sandbox: &sandbox_core::SandboxHandle) {
    /// #[derive(Default)]
    /// struct Runs(AtomicU32);
    ///
    /// sandbox.extension::<Runs>().0.fetch_add(1, Ordering::Relaxed);
    /// # }
    /// ```
    #[must_use]
    pub fn extension<T: std::any::Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.running.extensions.get()
    }

    /// Runs a program to its end and captures its output, up to the policy's limits.
    ///
    /// # Errors
    ///
    /// If the sandbox failed. A program that fails, is killed or times out is not an error: see
    /// [`ExecResult::outcome`] and [`ExecResult::check`].
    pub async fn exec(&self, request: &ExecRequest) -> Result<ExecResult> {
        self.run(request, Stdin::Null, None).await
    }

    /// Runs a script with the sandbox's `/bin/sh`.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec`].
    pub async fn shell(&self, script: impl AsRef<OsStr>) -> Result<ExecResult> {
        self.exec(&ExecRequest::shell(script)).await
    }

    /// As [`SandboxHandle::exec`], with standard input from `stdin`. Calls `on_output` with each
    /// piece of output as it arrives, including output beyond the limits of the capture.
    ///
    /// The program waits while the function runs.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec`]. [`ErrorKind::InvalidRequest`] for [`Stdin::Piped`], which needs
    /// [`SandboxHandle::start`].
    pub async fn exec_with(
        &self,
        request: &ExecRequest,
        stdin: Stdin,
        on_output: impl FnMut(OutputStream, &[u8]) + Send,
    ) -> Result<ExecResult> {
        self.run(request, stdin, Some(&mut FnSink(on_output))).await
    }

    /// As [`SandboxHandle::exec_with`], for a receiver that waits or that ends the execution.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::exec_with`].
    pub async fn exec_to(
        &self,
        request: &ExecRequest,
        stdin: Stdin,
        output: &mut dyn OutputSink,
    ) -> Result<ExecResult> {
        self.run(request, stdin, Some(output)).await
    }

    async fn run(
        &self,
        request: &ExecRequest,
        stdin: Stdin,
        live: Option<&mut dyn OutputSink>,
    ) -> Result<ExecResult> {
        let stdin = stdin.into_reader()?;
        let plan = &self.running.plan;
        let capture = Capture::new(plan.stdout_max, plan.stderr_max);
        self.running.run(request, stdin.into(), capture, live).await
    }

    /// Starts a program and returns once it runs. The [`Execution`] gives its output as a stream
    /// of events, takes its standard input and ends it.
    ///
    /// Needs a tokio runtime, and ends with it.
    ///
    /// # Errors
    ///
    /// If the sandbox failed, or there is no such program.
    pub async fn start(&self, request: &ExecRequest, stdin: Stdin) -> Result<Execution> {
        let running = Arc::clone(&self.running);
        Execution::start(running, self.open.subscribe(), request, stdin).await
    }

    /// Returns what was denied so far to executions that have ended and to operations of this
    /// handle: see [`crate::Denial`].
    #[must_use]
    pub fn denials(&self) -> Denials {
        self.running.denials.snapshot()
    }

    /// Replaces the rules for connections out of the sandbox. They can allow at most what the policy
    /// allows, and no rules deny everything.
    ///
    /// When it returns, the new rules are in force, and the connections that they do not allow have
    /// been reset. Others live on. Names keep their addresses inside.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::PolicyExceeded`] for more than the policy allows; nothing has changed.
    /// - [`ErrorKind::Unsupported`] for a sandbox that was created without rules, and on backends
    ///   that enforce none.
    /// - [`ErrorKind::NotCarried`] for a detached sandbox whose connections no process carries.
    pub async fn set_egress(&self, rules: EgressRules) -> Result<()> {
        let changed = self.running.instance.set_egress(rules.clone()).await;
        changed.map_err(|error| error.on(self.tier()))?;
        let auditor = &self.running.auditor;
        auditor.tell(|| AuditEvent::RulesChanged {
            rules: rules.into_rules(),
        });
        Ok(())
    }

    /// The rules for connections out of the sandbox that are in force.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] and [`ErrorKind::NotCarried`], as [`SandboxHandle::set_egress`].
    pub async fn egress_rules(&self) -> Result<EgressRules> {
        let rules = self.running.instance.egress_rules().await;
        rules.map_err(|error| error.on(self.tier()))
    }

    /// Makes this process carry the connections of a detached sandbox with rules, as long as the
    /// handle or a clone of it lives. `rules` replace those that the sandbox was created with.
    ///
    /// Rules take a process on the host that dials. For an attached sandbox it is the owner. The
    /// process that creates a detached one starts with it, and another one can follow when that
    /// handle is dropped. Without a carrier, each connection is reset. Handles of other processes
    /// ask the carrier: [`SandboxHandle::set_egress`] changes its rules.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::AlreadyExists`] if another process carries the connections.
    /// - [`ErrorKind::PolicyExceeded`] and [`ErrorKind::Unsupported`], as
    ///   [`SandboxHandle::set_egress`].
    pub async fn carry_egress(&self, rules: Option<EgressRules>) -> Result<()> {
        let instance = &*self.running.instance;
        let carried = instance.carry_egress(rules.clone()).await;
        carried.map_err(|error| error.on(self.tier()))?;
        // The certificates of this process replace those of an earlier carrier.
        let placed = trust::place_certificates(&self.running.plan, instance).await;
        placed.map_err(|error| error.on(self.tier()))?;
        if let Some(rules) = rules {
            let auditor = &self.running.auditor;
            auditor.tell(|| AuditEvent::RulesChanged {
                rules: rules.into_rules(),
            });
        }
        Ok(())
    }

    /// Waits until the sandbox has ended, or this handle has lost it. Returns the reason.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] on backends without an agent.
    pub async fn ended(&self) -> Result<String> {
        let ended = self.running.instance.ended().await;
        ended.map_err(|error| error.on(self.tier()))
    }

    /// Opens a port of the host's loopback that leads to `port` inside the sandbox. The kernel
    /// chooses the port: see [`Forward::address`]. It works without a network too.
    ///
    /// A program inside must listen on its loopback or on all addresses. Until one does,
    /// connections are reset.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidRequest`] for port 0.
    /// - [`ErrorKind::Io`] if the host does not open the port.
    /// - [`ErrorKind::Unsupported`] on backends without an agent.
    pub async fn forward(&self, port: u16) -> Result<Forward> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.forward_at(any, port).await
    }

    /// As [`SandboxHandle::forward`], with an address of the host to listen on. Whoever reaches
    /// the address can connect to the sandbox.
    ///
    /// # Errors
    ///
    /// As [`SandboxHandle::forward`].
    pub async fn forward_at(&self, address: SocketAddr, port: u16) -> Result<Forward> {
        let opened = self.running.instance.forward(address, port).await;
        let opened = opened.map_err(|error| error.on(self.tier()))?;
        let address = opened.address();
        let auditor = &self.running.auditor;
        auditor.tell(|| AuditEvent::Forwarded { address, port });
        Ok(opened)
    }

    /// Creates an image from the sandbox's current files. The sandbox continues to run.
    ///
    /// The image excludes mounts: temporary folders, a workspace or a root of the host. It keeps
    /// the configuration of the sandbox's own image. Files may change while the image is made.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidRequest`] if the specification has no `writable_root`, and for a tag
    ///   with a digest.
    /// - [`ErrorKind::AlreadyExists`] if an image has the tag, and always for the tag of the
    ///   sandbox's own image.
    /// - [`ErrorKind::PolicyExceeded`] if the policy does not allow the tag.
    /// - [`ErrorKind::Unsupported`] on tiers without images.
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

    /// Returns the last `tail` lines of the executions' output, or all lines for `None`.
    ///
    /// # Errors
    ///
    /// If the sandbox has ended and kept no log.
    pub async fn logs(&self, tail: Option<u32>) -> Result<Vec<u8>> {
        self.running.instance.logs(tail).await
    }

    /// As [`SandboxHandle::logs`], followed by new output, until `sink` returns [`Flow::Stop`] or
    /// the sandbox is stopped.
    ///
    /// # Errors
    ///
    /// As [`crate::spi::Instance::follow_logs`].
    pub async fn follow_logs(&self, tail: Option<u32>, sink: &mut dyn OutputSink) -> Result<()> {
        self.running.instance.follow_logs(tail, sink).await
    }

    /// Measures what the sandbox has used so far. What this host cannot measure is `None`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxEnded`] if the sandbox has ended.
    pub async fn stats(&self) -> Result<SandboxStats> {
        let stats = self.running.instance.stats().await;
        stats.map_err(|error| error.on(self.tier()))
    }

    /// Copies files that the code changed in the workspace back to the host, on tiers whose
    /// sandboxes have a copy of it (pods). Returns `None` if the sandbox has no copy.
    ///
    /// It removes no file of the host and replaces none that changed on the host too: see
    /// [`Synced`]. Files may change while they are copied. [`SandboxHandle::stop`] syncs too;
    /// [`SandboxHandle::kill`] and dropping the handle do not.
    ///
    /// # Errors
    ///
    /// If the sandbox or the folder failed. Files that were already copied stay.
    pub async fn sync(&self) -> Result<Option<Synced>> {
        self.running.instance.sync().await
    }

    /// Returns what was copied of the workspace so far; `None` if the sandbox has no copy of it.
    #[must_use]
    pub fn workspace(&self) -> Option<WorkspaceCopies> {
        self.running.instance.workspace()
    }

    /// Syncs the workspace as [`SandboxHandle::sync`] does and ends the sandbox. Programs get
    /// SIGTERM, and SIGKILL after two seconds.
    ///
    /// # Errors
    ///
    /// If the workspace could not be copied back (the sandbox has ended even then), or if
    /// something could not be ended or removed. The error names what is left.
    pub async fn stop(&self) -> Result<()> {
        self.running.stop(STOP_GRACE).await
    }

    /// Ends the sandbox and all its processes at once.
    ///
    /// # Errors
    ///
    /// If something could not be ended or removed. The error names what is left.
    pub async fn kill(&self) -> Result<()> {
        self.running.kill().await
    }
}

/// Calls a function with each piece of output.
struct FnSink<F>(F);

#[async_trait::async_trait]
impl<F: FnMut(OutputStream, &[u8]) + Send> OutputSink for FnSink<F> {
    async fn write(&mut self, stream: OutputStream, bytes: &[u8]) -> Flow {
        (self.0)(stream, bytes);
        Flow::Continue
    }
}
