//! The way in: a backend, a policy, and the gate between them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::admission;
use crate::registry::{self, Settings};
use crate::spi::{Backend, Finding, Found, Instance};
use crate::{
    BuildRequest, Capability, CapabilityPolicy, EnforcementReport, Error, ErrorKind, ImageInfo,
    ImageProgress, ImageReference, ImageRetention, Plan, PullPolicy, Result, SandboxHandle,
    SandboxInfo, SandboxSpec, plan,
};

/// Creates sandboxes on one backend under one policy.
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
}

impl std::fmt::Debug for SandboxClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxClient")
            .field("tier", &self.backend.name())
            .finish_non_exhaustive()
    }
}

impl SandboxClient {
    /// A client of the linked tier of this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownBackend`] where no such tier is linked, [`ErrorKind::InvalidPolicy`], and what opening the
    /// backend finds.
    pub fn open(tier: &str, policy: CapabilityPolicy) -> Result<Self> {
        Self::open_with(tier, policy, &Settings::new())
    }

    /// As [`SandboxClient::open`], under settings of the tier.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::open`], and [`ErrorKind::InvalidSpec`] for a setting that the tier does not have.
    pub fn open_with(tier: &str, policy: CapabilityPolicy, settings: &Settings) -> Result<Self> {
        policy.validate()?;
        let registration = registry::tier(tier)?;
        Ok(Self {
            backend: registration.opened(settings)?,
            policy: Arc::new(policy),
            applies_policy: registration.applies_policy,
        })
    }

    /// A client of a backend that the caller made.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`].
    pub fn with_backend(backend: Arc<dyn Backend>, policy: CapabilityPolicy) -> Result<Self> {
        policy.validate()?;
        Ok(Self {
            backend,
            policy: Arc::new(policy),
            applies_policy: true,
        })
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

    /// Whether the tier applies the policy; an `*_unsafe` one does not.
    pub(crate) fn applies_policy(&self) -> bool {
        self.applies_policy
    }

    /// What of this host changes enforcement.
    pub(crate) async fn profile(&self) -> Result<crate::matrix::ProfileKey> {
        self.backend.profile().await
    }

    /// What would be enforced of this specification, and what is required and would not be. Makes nothing: what a tier can only tell
    /// after a trial is partial here, and says so.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`], except for what is not enforced: that is the answer.
    pub async fn check(
        &self,
        spec: &SandboxSpec,
    ) -> Result<(Plan, EnforcementReport, Vec<crate::Unmet>)> {
        let plan = self.resolve(spec)?;
        let report = self.backend.assess(&plan).await?;
        let unmet = if self.applies_policy {
            admission::unmet(&plan, &self.policy, &report)
        } else {
            Vec::new()
        };
        Ok((plan, report, unmet))
    }

    fn resolve(&self, spec: &SandboxSpec) -> Result<Plan> {
        let plan = Plan::resolve(spec, &self.policy)?;
        if plan.detached && !self.backend.keeps_detached() {
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

    /// Creates a sandbox. Dropping its handle ends it, unless the specification says that it is detached.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`], [`ErrorKind::NotEnforceable`], [`ErrorKind::SandboxUnavailable`],
    /// [`ErrorKind::AlreadyExists`] for a detached one whose name is taken, and what building it finds. Nothing is left behind.
    pub async fn create(&self, spec: &SandboxSpec) -> Result<SandboxHandle> {
        self.create_with_progress(spec, &mut |_| {}).await
    }

    /// As [`SandboxClient::create`], and tells `progress` of an image that is pulled for it.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`].
    pub async fn create_with_progress(
        &self,
        spec: &SandboxSpec,
        progress: &mut ImageProgress<'_>,
    ) -> Result<SandboxHandle> {
        let plan = self.resolve(spec)?;
        if self.applies_policy {
            let report = self.backend.measure(&plan).await?;
            admission::admit(self.tier(), &plan, &self.policy, &report)?;
        } else {
            warn_once(self.tier());
        }
        self.backend.provide_image(&plan, progress).await?;
        let instance = self.backend.create(&plan).await?;
        self.admitted(plan, instance).await
    }

    /// The handle of what was built, unless that enforces less than was promised.
    async fn admitted(&self, plan: Plan, instance: Box<dyn Instance>) -> Result<SandboxHandle> {
        if self.applies_policy
            && let Err(refused) =
                admission::admit(self.tier(), &plan, &self.policy, instance.enforcement())
        {
            return Err(match instance.kill().await {
                Ok(()) => refused,
                Err(left) => refused.with_source(left),
            });
        }
        Ok(SandboxHandle::new(
            self.tier().to_owned(),
            Arc::new(plan),
            instance,
        ))
    }

    /// Enters a container that runs and that somebody else has made, by its id or name.
    ///
    /// Dropping the handle ends what was started through it. The container is never stopped, changed or removed, and what was put
    /// there to enter it is taken away. Little is enforced in it, and what is was decided by whoever has made it: the same gate
    /// stands here as before [`SandboxClient::create`], so the policy has to say what may go unenforced.
    ///
    /// Of the specification, the name is the handle's; environment, working folder, user, memory and cpus count. Unless it names a
    /// user, code runs as the container's own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotEnforceable`], [`ErrorKind::SandboxNotFound`], [`ErrorKind::SandboxEnded`] where it does not run,
    /// [`ErrorKind::InvalidSpec`] for fields that only a new sandbox can have, [`ErrorKind::Unsupported`] on tiers without
    /// containers.
    pub async fn adopt(&self, container: &str, spec: &SandboxSpec) -> Result<SandboxHandle> {
        check_adoptable(spec)?;
        let plan = self.resolve(spec)?;
        if self.applies_policy {
            let report = self.backend.assess_adopted(container, &plan).await?;
            admission::admit(self.tier(), &plan, &self.policy, &report)?;
        } else {
            warn_once(self.tier());
        }
        let instance = self.backend.adopt(container, &plan).await?;
        self.admitted(plan, instance).await
    }

    /// Pulls an image, or with [`PullPolicy::Missing`] sees whether the engine has it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`] for an image that is none of the policy's, [`ErrorKind::ImageNotFound`],
    /// [`ErrorKind::ImageDenied`], [`ErrorKind::RegistryUnreachable`], [`ErrorKind::ImageTimedOut`],
    /// [`ErrorKind::StorageFull`], and [`ErrorKind::InvalidSpec`] for what is no reference.
    pub async fn pull_image(
        &self,
        reference: &str,
        pull: PullPolicy,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        let reference = self.allowed_image(reference)?;
        self.backend.pull_image(&reference, pull, progress).await
    }

    /// Builds an image from a Dockerfile: see [`BuildRequest`] for what then runs where.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ImageBuildFailed`] with the failed step's last lines, [`ErrorKind::PolicyExceeded`] for an image that is none
    /// of the policy's and for links that it does not follow, [`ErrorKind::AlreadyExists`] for a name that another image has, and those of
    /// [`SandboxClient::pull_image`].
    pub async fn build_image(
        &self,
        request: &BuildRequest,
        progress: &mut ImageProgress<'_>,
    ) -> Result<ImageInfo> {
        if let Some(tag) = &request.tag {
            self.allowed_image(tag)?;
        }
        let allowed = self.policy.image_patterns()?;
        let follows = self.policy.follow_links;
        if request.follow_links && follows == Some(false) {
            let context = "follow_links: asked for true, the policy says false";
            let error = Error::new(ErrorKind::PolicyExceeded, "build image", context);
            return Err(error.on(self.tier()).with_fix("name the folder itself"));
        }
        let mut request = request.clone();
        request.follow_links |= follows.unwrap_or(false);
        self.backend
            .build_image(&request, allowed.as_deref(), progress)
            .await
    }

    /// The images that the engine has, sorted by name; those without a name only where this project has built them.
    ///
    /// # Errors
    ///
    /// What the backend finds.
    pub async fn images(&self) -> Result<Vec<ImageInfo>> {
        self.backend.images().await
    }

    /// Removes an image, or only this name where it has others.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ImageNotFound`], and where a container uses it.
    pub async fn remove_image(&self, reference: &str) -> Result<()> {
        self.backend.remove_image(&reference.parse()?).await
    }

    /// The image of this name, where the policy allows it.
    fn allowed_image(&self, reference: &str) -> Result<ImageReference> {
        let reference = reference.parse()?;
        plan::check_image(self.policy.image_patterns()?.as_deref(), &reference)?;
        Ok(reference)
    }

    /// A detached sandbox that runs, by its name: the handle of one more client, whose drop ends only its own executions.
    ///
    /// The plan that the sandbox was created with governs. This client's policy can only shorten the time limit and lower the
    /// output caps of what it executes there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxNotFound`], [`ErrorKind::SandboxEnded`].
    pub async fn get(&self, name: &str) -> Result<SandboxHandle> {
        SandboxSpec::new(name).validate()?;
        let Found { plan, instance } = self.backend.get(name).await?;
        Ok(SandboxHandle::new(
            self.tier().to_owned(),
            Arc::new(plan.tightened(&self.policy)),
            instance,
        ))
    }

    /// The detached sandboxes of this tier, sorted by name.
    ///
    /// # Errors
    ///
    /// What the backend finds.
    pub async fn list(&self) -> Result<Vec<SandboxInfo>> {
        self.backend.list().await
    }

    /// Ends a detached sandbox and removes what it left.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SandboxNotFound`], and what could not be removed.
    pub async fn remove(&self, name: &str) -> Result<()> {
        SandboxSpec::new(name).validate()?;
        self.backend.remove(name).await
    }

    /// Removes what detached sandboxes of this tier left that have ended; those that run stay. Gives their names, sorted.
    ///
    /// # Errors
    ///
    /// What could not be removed.
    pub async fn prune(&self) -> Result<Vec<String>> {
        self.backend.prune().await
    }

    /// Waits until the sandboxes are gone whose handles this process has dropped: a drop ends its sandbox, but what the backend keeps
    /// of it may go a moment later. For a program that is about to end. What cannot be removed within a minute is given up and logged;
    /// a later client removes it.
    pub async fn settle(&self) {
        self.backend.settle().await;
    }

    /// What this host has and lacks for the backend.
    pub async fn diagnose(&self) -> Vec<Finding> {
        self.backend.diagnose().await
    }

    /// Capabilities that this backend enforces on this host under this client's policy (the seed's name).
    ///
    /// # Errors
    ///
    /// What the backend finds.
    pub async fn enforced_capabilities(&self) -> Result<Vec<Capability>> {
        let (_, report, _) = self.check(&SandboxSpec::new("question")).await?;
        Ok(report.enforced_capabilities())
    }

    /// Capabilities that this backend does not enforce, or with a gap, on this host under this client's policy (the seed's
    /// name).
    ///
    /// # Errors
    ///
    /// What the backend finds.
    pub async fn unenforced_capabilities(&self) -> Result<Vec<Capability>> {
        let (_, report, _) = self.check(&SandboxSpec::new("question")).await?;
        Ok(report.unenforced_capabilities())
    }
}

/// A name that no other sandbox has: a random number of this process and a counter. A process id would not do, since
/// processes of several containers may share an engine.
#[must_use]
pub fn unique_name(prefix: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<u64> =
        LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:012x}-{count}", *PROCESS >> 16)
}

/// Refuses what a container that is there already cannot be given any more.
fn check_adoptable(spec: &SandboxSpec) -> Result<()> {
    let asked = [
        ("image", spec.image.is_some()),
        ("pull", spec.pull.is_some()),
        (
            "image_retention",
            spec.image_retention != ImageRetention::Keep,
        ),
        ("writable_root", spec.writable_root),
        ("workspace", spec.workspace.is_some()),
        ("secrets", !spec.secrets.is_empty()),
        ("egress", !spec.egress.is_empty()),
        ("labels", !spec.labels.is_empty()),
        ("detached", spec.detached),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((field, _)) => Err(Error::new(
            ErrorKind::InvalidSpec,
            "adopt container",
            format!("{field}: a container that somebody else has made is taken as it is"),
        )
        .with_fix(format!("leave {field} out, or create a sandbox"))),
    }
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
