//! The sandboxes of a run: for each setup one, or up to four where they are created quickly. They are
//! created when a probe first needs one.

mod adopted;
mod sandbox;
mod unshared;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use sandbox_core::spi::unique_name;
use sandbox_core::{
    Capability, CapabilityPolicy, Enforcement, Error, ErrorKind, HostMount, SandboxClient,
    SandboxHandle, SandboxSpec, Unmet,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::capacity::Capacity;
use crate::host_fixture::HostFixture;
use crate::leftovers::{self, RunId};
use crate::probe::SandboxSetup;
use crate::program::PROGRAM;
use crate::target::Target;

pub(crate) use adopted::Adopter;
pub use sandbox::{ProbeSandbox, request};

/// The time limit of creating a sandbox.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(60);

/// Local sandboxes take 10 to 50 ms to create, containers 300 ms and more.
const QUICK_BUILD_MS: u64 = 150;

/// What a scheduler reports for a pod that fits on no node. Other pods end, so it may fit later.
pub(crate) const UNSCHEDULABLE: &str = "Unschedulable";

/// The pause between two attempts to create an unschedulable sandbox.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Where folders appear that a policy allows to mount.
pub const MOUNTED: &str = "/mounted";

/// The sandboxes of a run.
#[derive(Debug)]
pub struct SandboxPool {
    target: Target,
    image: Option<String>,
    fixture: Arc<HostFixture>,
    shared: std::sync::Mutex<Vec<Arc<SandboxSlot>>>,
    capacity: Option<Capacity>,
    entries: AtomicU64,
    /// The shortest time in milliseconds that a sandbox took to create.
    build_time: AtomicU64,
}

/// A setup and its sandbox, once a probe needed it. One probe uses it at a time.
#[derive(Debug)]
pub struct SandboxSlot {
    setup: SandboxSetup,
    sandbox: Mutex<Option<Result<ProbeSandbox, CreateFailure>>>,
    /// The number of its last use. Higher is later.
    entered: AtomicU64,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateFailure {
    /// The backend refuses with a typed error, even with waivers.
    Refused(String),
    /// The backend cannot run on this host.
    Unavailable(String),
    /// Creating it failed.
    Failed(String),
}

impl SandboxPool {
    /// An empty pool.
    #[must_use]
    pub fn new(target: Target, image: Option<String>, fixture: Arc<HostFixture>) -> Self {
        Self {
            capacity: Capacity::of(target.name()),
            target,
            image,
            fixture,
            shared: std::sync::Mutex::default(),
            entries: AtomicU64::new(0),
            build_time: AtomicU64::new(u64::MAX),
        }
    }

    /// The measured tier.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the sandboxes run on a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.capacity.is_some()
    }

    /// A slot of a setup, which no other probe uses if there are enough. Later probes share it,
    /// unless the setup asks for its own sandbox.
    #[must_use]
    pub fn slot(&self, setup: SandboxSetup) -> Arc<SandboxSlot> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let same = shared.iter().filter(|slot| slot.setup == setup);
        let (count, same) = (
            same.clone().count(),
            same.min_by_key(|slot| Arc::strong_count(slot)),
        );
        if let Some(slot) = same
            && !setup.fresh
            // The pool itself has one reference.
            && (Arc::strong_count(slot) == 1 || count >= self.slots_of_setup())
        {
            return Arc::clone(slot);
        }
        let slot = Arc::new(SandboxSlot {
            setup,
            sandbox: Mutex::new(None),
            entered: AtomicU64::new(0),
        });
        shared.push(Arc::clone(&slot));
        slot
    }

    /// The most slots of one setup. A probe waits for the sandbox of another one beyond that.
    /// Where sandboxes take longer to create than most probes, more of them would cost more.
    fn slots_of_setup(&self) -> usize {
        match self.build_time.load(Ordering::Relaxed) {
            0..=QUICK_BUILD_MS => 4,
            _ => 1,
        }
    }

    /// The sandbox of a slot, locked while the guard lives.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot be created.
    pub async fn enter<'a>(&self, slot: &'a SandboxSlot) -> Result<SlotGuard<'a>, CreateFailure> {
        let mut guard = slot.sandbox.lock().await;
        let entry = self.entries.fetch_add(1, Ordering::Relaxed);
        slot.entered.store(entry, Ordering::Relaxed);
        if guard.is_none() {
            *guard = Some(self.build(&slot.setup).await);
        }
        match &*guard {
            Some(Err(declined)) => Err(declined.clone()),
            _ => Ok(SlotGuard(guard)),
        }
    }

    /// Ends every sandbox of the pool.
    ///
    /// # Errors
    ///
    /// The first error. The other sandboxes are ended anyway.
    pub async fn close(&self) -> Result<(), Error> {
        let slots =
            std::mem::take(&mut *self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for slot in slots {
            result = result.and(slot.end().await);
        }
        result
    }

    async fn build(&self, setup: &SandboxSetup) -> Result<ProbeSandbox, CreateFailure> {
        let start = Instant::now();
        let built = self.create_within_capacity(setup);
        match tokio::time::timeout(BUILD_LIMIT, built).await {
            Ok(Ok(built)) => {
                let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.build_time.fetch_min(took, Ordering::Relaxed);
                Ok(built)
            }
            Ok(Err(error)) => Err(declined(error)),
            Err(_) => Err(CreateFailure::Failed(format!(
                "no sandbox was created within {BUILD_LIMIT:?}"
            ))),
        }
    }

    async fn create_within_capacity(&self, setup: &SandboxSetup) -> Result<ProbeSandbox, Error> {
        if let Some(capacity) = self.capacity {
            self.evict_idle(capacity.sandboxes).await?;
        }
        self.create(setup, &|_| ()).await
    }

    /// Ends the least recently used idle sandbox, if there are `most` or more.
    async fn evict_idle(&self, most: usize) -> Result<(), Error> {
        let mut slots = self
            .shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // A locked slot is in use or being created.
        let is_there = |slot: &Arc<SandboxSlot>| {
            let sandbox = slot.sandbox.try_lock();
            sandbox.map_or(true, |sandbox| matches!(*sandbox, Some(Ok(_))))
        };
        slots.retain(is_there);
        if slots.len() < most {
            return Ok(());
        }
        slots.sort_by_key(|slot| slot.entered.load(Ordering::Relaxed));
        for slot in slots {
            let Ok(mut sandbox) = slot.sandbox.try_lock() else {
                continue;
            };
            if let Some(Ok(idle)) = sandbox.take() {
                return idle.handle.kill().await;
            }
        }
        Ok(())
    }

    async fn create(
        &self,
        setup: &SandboxSetup,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<ProbeSandbox, Error> {
        let (handle, waived, broken_claims) = match self.create_waiving(setup, change).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return match setup.without_roots() {
                    Some(setup) => Box::pin(self.create(&setup, change)).await,
                    None => Err(error),
                };
            }
            created => created?,
        };
        // A separate path for each: without isolation they share the host's /tmp.
        let program = format!("{}/{}", self.fixture.inside(), unique_name("probe"));
        handle.upload(&program, 0o755, PROGRAM).await?;
        let is_remote = self.capacity.is_some() && !runs_here(&handle).await;
        Ok(ProbeSandbox {
            handle,
            program,
            waived,
            broken_claims,
            has_roots: setup.policy.filesystem_read_roots.is_some(),
            is_remote,
        })
    }

    /// Creates a sandbox with this setup and waives the demands that the backend refuses. What is
    /// declared unenforced is measured anyway. Returns the waived demands, and among them
    /// those that the backend had assessed as enforced.
    async fn create_waiving(
        &self,
        setup: &SandboxSetup,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<(SandboxHandle, Vec<Unmet>, Vec<Unmet>), Error> {
        let attempt = |policy| self.attempt(policy, setup, change);
        match attempt(setup.policy.clone()).await {
            Err(error)
                if error.kind() == ErrorKind::NotEnforceable && !error.unmet().is_empty() =>
            {
                let unmet_at_assess = self.unmet_at_assess(setup, change).await?;
                let broken_claims =
                    |unmet: &&Unmet| !unmet_at_assess.contains(&unmet.demand.capability);
                let broken_claims = error
                    .unmet()
                    .iter()
                    .filter(broken_claims)
                    .cloned()
                    .collect();
                let policy = waive(setup.policy.clone(), error.unmet());
                Ok((
                    attempt(policy).await?,
                    error.unmet().to_vec(),
                    broken_claims,
                ))
            }
            created => Ok((created?, Vec::new(), Vec::new())),
        }
    }

    /// The demands that the backend assesses as unmet, before it creates anything.
    async fn unmet_at_assess(
        &self,
        setup: &SandboxSetup,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<Vec<Capability>, Error> {
        let client = self.target.client(setup.policy.clone())?;
        let support = client.check(&self.spec(setup, change)).await?;
        let unmet = support.unmet().iter();
        Ok(unmet.map(|unmet| unmet.demand.capability).collect())
    }

    /// Creates a detached sandbox with the policy of a slot, and with this lifetime in its
    /// specification. The pool does not end it.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot be created.
    pub async fn keep(
        &self,
        slot: &SandboxSlot,
        name: &str,
        lifetime: Option<Duration>,
    ) -> Result<ProbeSandbox, CreateFailure> {
        let change = |spec: &mut SandboxSpec| {
            spec.name = name.to_owned();
            spec.detached = true;
            spec.lifetime = lifetime;
            // The reaper finds it by this label if this process cannot remove it.
            let run = RunId::current().encode();
            spec.labels.insert(leftovers::LABEL.to_owned(), run);
        };
        let created = self.create(&slot.setup, &change).await;
        created.map_err(declined)
    }

    /// A client with the policy of a slot.
    ///
    /// # Errors
    ///
    /// As [`Target::client`].
    pub fn client(&self, slot: &SandboxSlot) -> Result<SandboxClient, Error> {
        self.target.client(slot.setup.policy.clone())
    }

    /// A client with the policy of a slot without these demands, and the slot's specification.
    ///
    /// # Errors
    ///
    /// As [`Target::client`].
    pub fn client_and_spec(
        &self,
        slot: &SandboxSlot,
        waived: &[Unmet],
    ) -> Result<(SandboxClient, SandboxSpec), Error> {
        let client = self
            .target
            .client(waive(slot.setup.policy.clone(), waived))?;
        Ok((client, self.spec(&slot.setup, &|_| ())))
    }

    /// Creates a sandbox with the policy of a slot, changed by `change`, and ends it.
    ///
    /// # Errors
    ///
    /// If creating or ending it fails.
    pub async fn create_and_kill(
        &self,
        slot: &SandboxSlot,
        change: impl FnOnce(&mut CapabilityPolicy),
    ) -> Result<(), Error> {
        let mut setup = slot.setup.clone();
        change(&mut setup.policy);
        // What this host cannot enforce is the subject of other probes.
        let (sandbox, _, _) = self.create_waiving(&setup, &|_| ()).await?;
        sandbox.kill().await
    }

    /// Creates a sandbox. While it fits on no node, ends idle ones and tries again.
    async fn attempt(
        &self,
        policy: CapabilityPolicy,
        setup: &SandboxSetup,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<SandboxHandle, Error> {
        let spec = self.spec(setup, change);
        let client = self.target.client(policy)?;
        let deadline = Instant::now() + BUILD_LIMIT;
        loop {
            match client.create(&spec).await {
                Err(error)
                    if self.is_cluster()
                        && error.to_string().contains(UNSCHEDULABLE)
                        && Instant::now() < deadline =>
                {
                    self.evict_idle(0).await?;
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    fn spec(
        &self,
        setup: &SandboxSetup,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> SandboxSpec {
        let mut spec = SandboxSpec::new(unique_name("conformance"));
        spec.env = setup.env.clone();
        spec.workspace = setup.workspace.clone();
        spec.egress.clone_from(&setup.egress);
        spec.image = self.image.clone();
        if let Some(capacity) = self.capacity {
            (spec.memory, spec.cpus) = capacity.sizes(setup);
        }
        // What the policy lets a specification name, it names.
        spec.secrets.clone_from(&setup.policy.secrets);
        let sources = setup.policy.mount_sources.iter().flatten();
        spec.mounts = sources
            .map(|source| match source.read_only {
                true => HostMount::read_only(&source.path, MOUNTED),
                false => HostMount::read_write(&source.path, MOUNTED),
            })
            .collect();
        change(&mut spec);
        spec
    }
}

fn waive(mut policy: CapabilityPolicy, unmet: &[Unmet]) -> CapabilityPolicy {
    for Unmet {
        demand,
        enforcement,
    } in unmet
    {
        // The policy's validation does not allow these two to be unenforced.
        let never = matches!(
            demand.capability,
            Capability::StdoutMaxBytes | Capability::StderrMaxBytes
        );
        let list = match enforcement {
            Enforcement::Partial { .. } => &mut policy.allow_partial,
            _ if never => continue,
            _ => &mut policy.allow_unenforced,
        };
        list.push(demand.capability);
    }
    policy
}

/// Whether the sandbox runs on this host's kernel, by the kernel's boot id.
async fn runs_here(handle: &SandboxHandle) -> bool {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    let (here, there) = (std::fs::read(BOOT), handle.read(BOOT).await);
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}

fn declined(error: Error) -> CreateFailure {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NotEnforceable
        | ErrorKind::PolicyExceeded
        | ErrorKind::Unsupported
        | ErrorKind::InvalidSpec
        | ErrorKind::InvalidPolicy => CreateFailure::Refused(text),
        ErrorKind::SandboxUnavailable | ErrorKind::ImageNotFound | ErrorKind::UnknownBackend => {
            CreateFailure::Unavailable(text)
        }
        _ => CreateFailure::Failed(text),
    }
}

impl SandboxSlot {
    /// The setup of the slot.
    #[must_use]
    pub fn setup(&self) -> &SandboxSetup {
        &self.setup
    }

    /// Ends the sandbox. The next probe gets a new one.
    ///
    /// # Errors
    ///
    /// If the backend cannot end it.
    pub async fn end(&self) -> Result<(), Error> {
        match self.sandbox.lock().await.take() {
            Some(Ok(sandbox)) => sandbox.handle.kill().await,
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Whether the setup asks for its own sandbox.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.setup.fresh
    }
}

/// A locked slot with a sandbox.
#[derive(Debug)]
pub struct SlotGuard<'a>(MutexGuard<'a, Option<Result<ProbeSandbox, CreateFailure>>>);

impl std::ops::Deref for SlotGuard<'_> {
    type Target = ProbeSandbox;

    fn deref(&self) -> &ProbeSandbox {
        match &*self.0 {
            Some(Ok(sandbox)) => sandbox,
            _ => unreachable!("a guard is only created over a sandbox, and locks it"),
        }
    }
}
