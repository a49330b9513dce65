//! The tier `local`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once};

use async_trait::async_trait;
use sandbox_core::policy::NetworkPolicy;
use sandbox_core::spi::{Backend, Detached, Finding, Found, Instance, RecordedSandbox};
use sandbox_core::{EnforcementReport, Error, Plan, Result, SandboxInfo};
use sandbox_host::egress::ENDS_TLS;
use sandbox_host::lock;
use sandbox_host::state::resolved;
use sandbox_lang::packages::{FailedPackages, ProvisionNetwork};

use crate::LocalConfig;
use crate::attached;
use crate::detached::{self, DetachedSandboxes};
use crate::error;
use crate::host::{
    Availability, Host, Isolation, PlanPaths, ReservedPaths, Root, findings, platform_roots,
    profile,
};
use crate::lower::{LocalPlan, LoweringContext, lower};
use crate::spawn::Network;
use crate::start::{self, CreationRequest};
use crate::{packages, state, sweep};

/// The name of the tier.
pub(crate) const TIER: &str = "local";

/// Sandboxes on the kernel of this machine.
///
/// As root (with the capabilities to mount and to map ids), code runs as its reserved subordinate user.
/// As an ordinary user, code runs in a user namespace as the caller. Where user namespaces are
/// denied, code runs in the host's namespaces under Landlock and seccomp; the report lists the
/// gaps.
#[derive(Debug)]
pub struct LocalBackend {
    config: LocalConfig,
    detached: DetachedSandboxes,
    /// The last lowered plan: callers usually ask for the same one again.
    last: Mutex<Option<CachedLowering>>,
    /// The network namespace of the next sandbox, once a plan has been assessed.
    network: Mutex<Option<Network>>,
    /// Whether the first `list` has removed leftovers already.
    swept: Once,
    /// The sets of packages that failed to install.
    failed_packages: FailedPackages,
}

#[derive(Debug)]
struct CachedLowering {
    plan: Plan,
    /// The host state that the lowering used.
    host: Arc<Host>,
    /// The platform roots that the lowering used.
    platform: Arc<[Root]>,
    lowered: Arc<LocalPlan>,
}

impl Default for LocalBackend {
    fn default() -> Self {
        Self::new(LocalConfig::default())
    }
}

impl LocalBackend {
    /// A backend with these settings. Does no I/O.
    #[must_use]
    pub fn new(config: LocalConfig) -> Self {
        Self {
            detached: DetachedSandboxes::new(TIER, config.clone()),
            config,
            last: Mutex::new(None),
            network: Mutex::new(None),
            swept: Once::new(),
            failed_packages: FailedPackages::default(),
        }
    }

    /// Starts to create the network namespace of the next sandbox while this host is examined, which
    /// takes as long. The namespace goes unused on a host with another kind of isolation.
    fn begin_network(&self, plan: &Plan) {
        let mut network = lock(&self.network);
        // After a fork, the other process has it.
        let is_needed = !network.as_ref().is_some_and(Network::is_of_this_process)
            && rustix::process::geteuid().is_root()
            && plan.packages.is_empty()
            && !matches!(plan.network, NetworkPolicy::Full);
        if is_needed {
            // A failure is reported where the namespace turns out to be needed.
            *network = Network::begin().ok();
        }
    }

    fn lower(&self, plan: &Plan) -> Result<Arc<LocalPlan>> {
        let mut plan = plan.clone();
        // These fields do not affect what is built.
        plan.name.clear();
        plan.labels.clear();
        plan.lifetime = None;
        // With egress rules it does: a process must stay to carry the connections.
        plan.detached &= matches!(plan.network, NetworkPolicy::Allow(_));
        // Folders of the host can change between two calls.
        let cacheable = plan.read_roots.is_empty()
            && plan.write_roots.is_empty()
            && plan.workspace.is_none()
            && plan.mounts.is_empty()
            && plan.provided_folders.is_empty()
            && !matches!(plan.network, NetworkPolicy::Full);
        // Detecting the host also reads the platform roots, so they come second.
        let host = Host::detect(&self.config);
        let platform = platform_roots();
        let mut last = lock(&self.last);
        if let Some(cached) = &*last
            && cacheable
            && cached.plan == plan
            && cached.host == host
            && Arc::ptr_eq(&cached.platform, &platform)
        {
            return Ok(Arc::clone(&cached.lowered));
        }
        let lowered = Arc::new(self.lower_uncached(&plan, &host)?);
        if !cacheable {
            // The plan holds folders of the host open.
            return Ok(lowered);
        }
        *last = Some(CachedLowering {
            plan,
            host,
            platform,
            lowered: Arc::clone(&lowered),
        });
        Ok(lowered)
    }

    fn lower_uncached(&self, plan: &Plan, host: &Host) -> Result<LocalPlan> {
        let isolation = isolation(host)?;
        let state = self.state_folder(host);
        let packages = sandbox_lang::packages::writable_cache(plan, &self.config.packages)
            .map_err(|error| error.on(TIER))?;
        let reserved = ReservedPaths {
            state: &state,
            packages: packages.as_deref(),
            #[cfg(feature = "mutants")]
            any_link: self.config.mutation == Some(crate::LocalMutation::FollowLinks),
            #[cfg(not(feature = "mutants"))]
            any_link: false,
        };
        let host_paths = PlanPaths::open(TIER, plan, &reserved)?;
        let provision = match isolation {
            _ if plan.packages.is_empty() => ProvisionNetwork::Full,
            // There are no rules without a network namespace.
            Isolation::Landlock => ProvisionNetwork::Full,
            _ => ProvisionNetwork::by_rules(plan, &self.config.packages, ENDS_TLS),
        };
        let lowered = lower(
            plan,
            &LoweringContext {
                tier: TIER,
                host,
                isolation,
                host_paths: &host_paths,
                state: &state,
                private: &state.join("private"),
                agent: 1,
                user_tasks: 0,
                provision: &provision,
            },
        )?;
        #[cfg(feature = "mutants")]
        let lowered = match self.config.mutation {
            Some(mutation) => mutation.of(lowered),
            None => lowered,
        };
        Ok(lowered)
    }

    /// The absolute state folder with links resolved, whether or not it exists.
    fn state_folder(&self, host: &Host) -> PathBuf {
        resolved(state::folder(&self.config, host.user.id))
    }
}

fn isolation(host: &Host) -> Result<Isolation> {
    host.isolation().ok_or_else(|| {
        let (reason, fix) = match &host.namespaces {
            Availability::Missing { reason, fix } => (reason.clone(), fix.clone()),
            Availability::Present => (String::new(), String::new()),
        };
        let instead = if host.user.id == 0 {
            "root is not held by Landlock alone: run as an ordinary user"
        } else {
            "the kernel has no Landlock or no seccomp filters to use instead"
        };
        Error::unavailable(
            TIER,
            format!("no namespaces ({reason}), and {instead}"),
            fix,
        )
    })
}

#[async_trait]
impl Backend for LocalBackend {
    fn name(&self) -> &str {
        TIER
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.begin_network(plan);
        Ok(self.lower(plan)?.report.clone())
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        self.begin_network(plan);
        let network = lock(&self.network).take();
        let host = Host::detect(&self.config);
        let folder = state::folder(&self.config, host.user.id);
        state::prepare(TIER, &folder, host.user.id)?;
        let state = self.state_folder(&host);
        let (provided, notes);
        let plan = match plan.packages.is_empty() {
            true => {
                notes = Vec::new();
                plan
            }
            false => {
                let isolation = isolation(&host)?;
                let packages = packages::provide(
                    self,
                    &self.config,
                    &self.failed_packages,
                    (&host, isolation),
                    &state,
                    plan,
                );
                (provided, notes) = packages.await?;
                &provided
            }
        };
        let lowered = self.lower(plan)?;
        let request = CreationRequest {
            tier: TIER,
            plan,
            host: &host,
            state: &state,
            lowered: &lowered,
            network: network.as_ref(),
            egress: self.config.egress(),
        };
        let mut instance = match plan.detached {
            true => detached::start(&request).await?,
            false => start::start(&request).await?,
        };
        if !notes.is_empty() {
            let mut report = instance.enforcement().clone();
            for note in notes {
                report.note(note);
            }
            instance.set_enforcement(report);
        }
        Ok(Box::new(instance))
    }

    fn clear_failed_packages(&self) {
        self.failed_packages.clear();
    }

    async fn diagnose(&self) -> Vec<Finding> {
        findings(&Host::detect(&self.config))
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        Ok(profile(TIER, &Host::detect(&self.config)))
    }

    async fn attached(&self) -> Result<Vec<SandboxInfo>> {
        attached::list_found(TIER, &self.config)
    }

    fn detached(&self) -> Option<&dyn Detached> {
        Some(self)
    }
}

#[async_trait]
impl Detached for LocalBackend {
    async fn get(&self, name: &str) -> Result<Found> {
        self.detached.get(name).await
    }

    async fn list(&self) -> Result<Vec<SandboxInfo>> {
        // Once per client, so that a program which only lists also removes what killed processes
        // left.
        self.swept.call_once(|| {
            let host = Host::detect(&self.config);
            sweep::sweep_soon(&host.cgroups, &self.state_folder(&host));
        });
        self.detached.list().await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.detached.remove(name).await
    }

    fn recorded(&self) -> Result<Vec<RecordedSandbox>> {
        self.detached.recorded()
    }

    async fn prune(&self) -> Result<Vec<String>> {
        let host = Host::detect(&self.config);
        let state = self.state_folder(&host);
        let swept = tokio::task::spawn_blocking(move || sweep::sweep_all(&host.cgroups, &state));
        let left = swept
            .await
            .map_err(|panicked| error::destroy(TIER, panicked.to_string()))?;
        let pruned = self.detached.prune().await?;
        if left.is_empty() {
            return Ok(pruned);
        }
        let left = format!(
            "these leftovers of killed processes could not be removed: {}",
            left.join("; ")
        );
        Err(error::destroy(TIER, left))
    }
}
