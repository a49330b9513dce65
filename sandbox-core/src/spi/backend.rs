//! The trait that every backend implements.

use async_trait::async_trait;

use super::{Adopt, Detached, Images, Instance};
use crate::{EnforcementReport, Plan, Result, SandboxInfo};

/// Creates sandboxes on one kind of isolation: a kernel, an engine, a cluster.
///
/// # Behavior
///
/// - Every answer is about this host, now. Nothing is a constant that could be wrong here.
/// - A missing engine is [`crate::ErrorKind::SandboxUnavailable`] with the reason and a fix, within
///   2 s. So is one that accepts a connection and does not answer, within some seconds.
/// - There is no fallback: what cannot be created as planned is an error.
///
/// # Example
///
/// ```
/// use async_trait::async_trait;
/// use sandbox_core::spi::{Backend, Finding, Instance, unsupported};
/// use sandbox_core::{EnforcementReport, Plan, Result};
///
/// /// Enforces nothing and creates nothing.
/// struct EmptyBackend;
///
/// #[async_trait]
/// impl Backend for EmptyBackend {
///     fn name(&self) -> &str {
///         "empty"
///     }
///     async fn assess(&self, _plan: &Plan) -> Result<EnforcementReport> {
///         Ok(EnforcementReport::nothing("this backend is empty"))
///     }
///     async fn create(&self, _plan: &Plan) -> Result<Box<dyn Instance>> {
///         Err(unsupported("create sandbox", self.name()))
///     }
///     async fn diagnose(&self) -> Vec<Finding> {
///         Vec::new()
///     }
///     async fn profile(&self) -> Result<Vec<(String, String)>> {
///         Ok(vec![("backend".into(), "empty".into())])
///     }
/// }
/// assert!(EmptyBackend.images().is_none());
/// ```
#[async_trait]
pub trait Backend: Send + Sync {
    /// The name of the tier, as registered.
    fn name(&self) -> &str;

    /// Reports what would be enforced for a plan on this host.
    ///
    /// # Behavior
    ///
    /// - The report has an entry for each demand of the plan.
    /// - Leaves nothing on the host that outlives this client. What only a trial can show is reported
    ///   as partial; see [`Backend::measure`].
    ///
    /// # Errors
    ///
    /// A typed error for what the backend cannot create at all, for example an image on a backend
    /// without images.
    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport>;

    /// Like [`Backend::assess`], but may run trials. The client calls it right before
    /// [`Backend::create`].
    ///
    /// # Behavior
    ///
    /// - A trial leaves nothing behind.
    async fn measure(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.assess(plan).await
    }

    /// Creates a sandbox.
    ///
    /// # Behavior
    ///
    /// - Nothing is left behind if this fails, its future is dropped, or the process is killed.
    /// - Once this has returned, a detached sandbox does not depend on this process. If several
    ///   processes create one name at the same time, exactly one succeeds.
    /// - [`Instance::enforcement`] reports what was applied.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::AlreadyExists`] if the name of a detached sandbox is taken.
    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>>;

    /// What this host has and lacks for this backend.
    async fn diagnose(&self) -> Vec<Finding>;

    /// The key of this host's profile: everything that changes enforcement, in a fixed order.
    ///
    /// # Behavior
    ///
    /// - Contains no host names, dates or paths. Equal hosts have equal keys.
    async fn profile(&self) -> Result<Vec<(String, String)>>;

    /// Waits for background removal of sandboxes that this process has dropped. Returns at once
    /// if the backend removes nothing in the background.
    async fn settle(&self) {}

    /// Forgets which sets of packages failed to install, so that the next request tries again. A
    /// backend that installs packages lets a set that failed fail at once for a minute.
    fn clear_failed_packages(&self) {}

    /// The running attached sandboxes of this tier with their owners, of all clients that are
    /// visible from here. Empty if the backend does not record them.
    async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        Ok(Vec::new())
    }

    /// The images of this backend; `None` if it has none.
    fn images(&self) -> Option<&dyn Images> {
        None
    }

    /// Whether its sandboxes are made from images.
    fn runs_images(&self) -> bool {
        self.images().is_some()
    }

    /// The detached sandboxes of this backend; `None` if it has none.
    fn detached(&self) -> Option<&dyn Detached> {
        None
    }

    /// Adoption of existing containers; `None` if this backend cannot adopt.
    fn adoption(&self) -> Option<&dyn Adopt> {
        None
    }
}

/// One line of `sandbox doctor`: something that a backend needs or uses.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked for, for example "user namespaces".
    pub name: String,
    /// Whether it is available.
    pub present: bool,
    /// Details of what was found, or why it is missing.
    pub detail: String,
    /// What would make it available, in one line. Empty if it is available or cannot be.
    pub fix: String,
}
