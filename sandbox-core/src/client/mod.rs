//! The client: one backend, one policy, and admission between them.

mod adopt;
mod find;
mod images;
mod own_sandboxes;

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::admission;
use crate::audit::{Audit, AuditEvent, Auditor};
use crate::matrix::ProfileKey;
use crate::registry::{self, Settings};
use crate::running::Running;
use crate::spi::{Backend, Detached, Finding, Instance, unsupported};
use crate::trust;
use crate::{
    Capability, CapabilityPolicy, EnforcementReport, Error, ErrorKind, ImageProgress, Plan,
    ProvidedFolder, Result, SandboxHandle, SandboxSpec,
};
use own_sandboxes::OwnSandboxes;

/// Creates sandboxes on one backend under one policy.
///
/// A clone is the same client.
///
/// ```no_run
/// # async fn example() -> sandbox_core::Result<()> {
/// use sandbox_core::{CapabilityPolicy, OneShot, SandboxClient};
///
/// let client = SandboxClient::open("local", CapabilityPolicy::new())?;
/// let result = client.run_python("print(6 * 7)", OneShot::default()).await?;
/// assert_eq!(result.stdout_text(), "42\n");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SandboxClient {
    backend: Arc<dyn Backend>,
    policy: Arc<CapabilityPolicy>,
    applies_policy: bool,
    own: Arc<OwnSandboxes>,
    audit: Option<Arc<dyn Audit>>,
}

impl fmt::Debug for SandboxClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxClient")
            .field("tier", &self.backend.name())
            .finish_non_exhaustive()
    }
}

impl SandboxClient {
    /// Opens the linked tier with this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownBackend`] if no such tier is linked, [`ErrorKind::InvalidPolicy`], and
    /// errors of the backend.
    pub fn open(tier: &str, policy: CapabilityPolicy) -> Result<Self> {
        Self::open_with(tier, policy, &Settings::new())
    }

    /// Like [`SandboxClient::open`], with settings of the tier.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::open`], and [`ErrorKind::InvalidSpec`] if the tier has no such setting.
    pub fn open_with(tier: &str, policy: CapabilityPolicy, settings: &Settings) -> Result<Self> {
        policy.validate()?;
        let registration = registry::tier(tier)?;
        let backend = registration.opened(settings)?;
        Ok(Self::new(backend, policy, registration.applies_policy))
    }

    /// Uses a backend that the caller has configured.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`].
    pub fn with_backend(backend: Arc<dyn Backend>, policy: CapabilityPolicy) -> Result<Self> {
        policy.validate()?;
        Ok(Self::new(backend, policy, true))
    }

    fn new(backend: Arc<dyn Backend>, policy: CapabilityPolicy, applies_policy: bool) -> Self {
        Self {
            backend,
            policy: Arc::new(policy),
            applies_policy,
            own: Arc::default(),
            audit: None,
        }
    }

    /// Tells `audit` what happens in the sandboxes of this client and of its later clones.
    #[must_use]
    pub fn audited(mut self, audit: Arc<dyn Audit>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// The tier's name.
    #[must_use]
    pub fn tier(&self) -> &str {
        self.backend.name()
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &CapabilityPolicy {
        &self.policy
    }

    /// Whether the tier's sandboxes are made from images.
    #[must_use]
    pub fn runs_images(&self) -> bool {
        self.backend.runs_images()
    }

    /// Whether the tier applies the policy; an `*_unsafe` tier does not.
    pub(crate) fn applies_policy(&self) -> bool {
        self.applies_policy
    }

    /// Everything on this host that changes enforcement.
    pub(crate) async fn profile(&self) -> Result<ProfileKey> {
        self.backend.profile().await
    }

    /// What the backend would enforce for a plan.
    pub(crate) async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.backend.assess(plan).await
    }

    /// The detached sandboxes of the backend, or the error for a backend without them.
    fn detached(&self, operation: &'static str) -> Result<&dyn Detached> {
        let detached = self.backend.detached();
        detached.ok_or_else(|| unsupported(operation, self.tier()))
    }

    /// The plan that [`SandboxClient::create`] would create a sandbox from: the specification
    /// combined with the policy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`], [`ErrorKind::PolicyExceeded`], and [`ErrorKind::Unsupported`] for
    /// a detached sandbox on a tier that has none.
    pub fn plan(&self, spec: &SandboxSpec) -> Result<Plan> {
        let plan = Plan::resolve(spec, &self.policy)?;
        if plan.detached && self.backend.detached().is_none() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "create sandbox",
                "this backend has no detached sandboxes",
            )
            .on(self.tier())
            .with_fix("use another tier, or keep the sandbox's handle"));
        }
        Ok(plan)
    }

    /// Creates a sandbox. Dropping its handle ends it, unless it is detached.
    ///
    /// If this fails, nothing is left behind.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`], [`ErrorKind::NotEnforceable`],
    /// [`ErrorKind::SandboxUnavailable`], [`ErrorKind::AlreadyExists`] if the name of a detached
    /// sandbox is taken, and errors of the backend.
    pub async fn create(&self, spec: &SandboxSpec) -> Result<SandboxHandle> {
        self.create_with_progress(spec, &mut |_| {}).await
    }

    /// Like [`SandboxClient::create`]. Reports the progress of pulling its image to `progress`.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`].
    pub async fn create_with_progress(
        &self,
        spec: &SandboxSpec,
        progress: &mut ImageProgress<'_>,
    ) -> Result<SandboxHandle> {
        let auditor = self.auditor(spec);
        let created = self.create_audited(spec, None, progress, &auditor).await;
        created.inspect_err(|error| not_created(&auditor, error))
    }

    /// As [`SandboxClient::create`], with a folder of the host that code sees read-only.
    pub(crate) async fn create_with_folder(
        &self,
        spec: &SandboxSpec,
        folder: ProvidedFolder,
    ) -> Result<SandboxHandle> {
        let auditor = self.auditor(spec);
        let created = self
            .create_audited(spec, Some(folder), &mut |_| {}, &auditor)
            .await;
        created.inspect_err(|error| not_created(&auditor, error))
    }

    async fn create_audited(
        &self,
        spec: &SandboxSpec,
        folder: Option<ProvidedFolder>,
        progress: &mut ImageProgress<'_>,
        auditor: &Auditor,
    ) -> Result<SandboxHandle> {
        let mut plan = self.plan(spec)?;
        plan.provided_folders.extend(folder);
        if self.applies_policy {
            let report = self.backend.measure(&plan).await?;
            admission::admit(self.tier(), &plan, &self.policy, &report)?;
            auditor.tell(|| AuditEvent::Admitted {
                enforcement: report,
            });
        } else {
            warn_once(self.tier());
        }
        if let Some(images) = self.backend.images() {
            images.provide_image(&plan, progress).await?;
        }
        let instance = self.backend.create(&plan).await?;
        let running = self.admitted(plan, instance).await?;
        if !running.plan.detached {
            self.own.add(&running);
        }
        Ok(SandboxHandle::new(running))
    }

    /// Admits a new sandbox by what it enforces, and places the certificates that its rules need. Ends
    /// it if either fails.
    async fn admitted(&self, plan: Plan, instance: Box<dyn Instance>) -> Result<Arc<Running>> {
        if self.applies_policy
            && let Err(refused) =
                admission::admit(self.tier(), &plan, &self.policy, instance.enforcement())
        {
            return Err(match instance.kill().await {
                Ok(()) => refused,
                Err(left) => refused.with_source(left),
            });
        }
        if let Err(error) = trust::place_certificates(&plan, &*instance).await {
            return Err(match instance.kill().await {
                Ok(()) => error.on(self.tier()),
                Err(left) => error.on(self.tier()).with_source(left),
            });
        }
        let running = self.running(plan, instance);
        running.auditor.tell(|| AuditEvent::Created {
            enforcement: running.instance.enforcement().clone(),
        });
        Ok(running)
    }

    fn running(&self, plan: Plan, instance: Box<dyn Instance>) -> Arc<Running> {
        let tier = self.tier().to_owned();
        let auditor = Auditor::of_plan(self.audit.as_ref(), &tier, &plan);
        Arc::new(Running::new(tier, Arc::new(plan), instance, auditor))
    }

    fn auditor(&self, spec: &SandboxSpec) -> Auditor {
        Auditor::new(self.audit.as_ref(), self.tier(), &spec.name, &spec.labels)
    }

    /// Waits until the backend has removed the sandboxes whose handles this process has dropped.
    ///
    /// A drop ends its sandbox at once, but the backend may remove what is left a moment later. A
    /// program calls this before it exits. What cannot be removed within a minute is logged, and
    /// left to a later client.
    pub async fn settle(&self) {
        self.backend.settle().await;
    }

    /// Lets the next sandbox try to install packages that failed to install. Otherwise a set that
    /// failed fails at once for a minute in the same client.
    pub fn clear_failed_packages(&self) {
        self.backend.clear_failed_packages();
    }

    /// What this host has and lacks for the backend.
    pub async fn diagnose(&self) -> Vec<Finding> {
        self.backend.diagnose().await
    }

    /// The capabilities that are enforced on this host under this policy.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn enforced_capabilities(&self) -> Result<Vec<Capability>> {
        let support = self.check(&SandboxSpec::new("question")).await?;
        Ok(support.report.enforced_capabilities())
    }

    /// The capabilities that are enforced with a gap, or not at all, on this host under this
    /// policy.
    ///
    /// # Errors
    ///
    /// Errors of the backend.
    pub async fn unenforced_capabilities(&self) -> Result<Vec<Capability>> {
        let support = self.check(&SandboxSpec::new("question")).await?;
        Ok(support.report.unenforced_capabilities())
    }
}

fn not_created(auditor: &Auditor, error: &Error) {
    auditor.tell(|| AuditEvent::NotCreated {
        kind: error.kind().as_str().to_owned(),
        reason: error.to_string(),
    });
}

fn warn_once(tier: &str) {
    static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut warned = WARNED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if !warned.iter().any(|name| name == tier) {
        warned.push(tier.to_owned());
        tracing::warn!(
            tier,
            "no policy is applied on this tier: every capability is unenforced"
        );
    }
}
