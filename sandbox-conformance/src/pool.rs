//! The sandboxes of a run: one for each setting, made when a probe first needs it.

mod once;
mod sandbox;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sandbox_core::spi::Source;
use sandbox_core::{
    Capability, CapabilityPolicy, Enforcement, Error, ErrorKind, SandboxHandle, SandboxSpec, Unmet,
    unique_name,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::grounds::Grounds;
use crate::probe::Setting;
use crate::program::PROGRAM;
use crate::remains::{self, RunId};
use crate::room::Room;
use crate::target::Target;

pub use sandbox::Sandbox;

/// The longest that building a sandbox may take.
const BUILD_LIMIT: Duration = Duration::from_secs(60);

/// What a cluster's scheduler calls a pod that no node has room for: others' pods end, too.
const NO_ROOM: &str = "Unschedulable";

/// Between two attempts of a sandbox that nobody has room for.
const PAUSE: Duration = Duration::from_secs(1);

/// The sandboxes of a run.
#[derive(Debug)]
pub struct Pool {
    target: Target,
    image: Option<String>,
    grounds: Arc<Grounds>,
    shared: std::sync::Mutex<Vec<Arc<Place>>>,
    room: Option<Room>,
    entries: AtomicU64,
}

/// A setting and, once a probe needed it, its sandbox. One probe uses it at a time.
#[derive(Debug)]
pub struct Place {
    setting: Setting,
    sandbox: Mutex<Option<Result<Sandbox, Declined>>>,
    /// When it was last entered, as a number that grows.
    entered: AtomicU64,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// The backend refuses with a typed error, whatever is waived.
    Refused(String),
    /// The backend cannot run on this host.
    Unavailable(String),
    /// Building it failed.
    Failed(String),
}

impl Pool {
    /// No sandboxes yet.
    #[must_use]
    pub fn new(target: Target, image: Option<String>, grounds: Arc<Grounds>) -> Self {
        Self {
            room: Room::of(target.name()),
            target,
            image,
            grounds,
            shared: std::sync::Mutex::default(),
            entries: AtomicU64::new(0),
        }
    }

    /// What is measured.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether sandboxes are a cluster's.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.room.is_some()
    }

    /// The place of a setting: the one that others use too, unless the setting wants its own.
    #[must_use]
    pub fn place(&self, setting: Setting) -> Arc<Place> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = shared
            .iter()
            .find(|place| place.setting == setting && !setting.fresh)
        {
            return Arc::clone(place);
        }
        let place = Arc::new(Place {
            setting,
            sandbox: Mutex::new(None),
            entered: AtomicU64::new(0),
        });
        shared.push(Arc::clone(&place));
        place
    }

    /// The sandbox of a place, for as long as the guard lives.
    ///
    /// # Errors
    ///
    /// [`Declined`].
    pub async fn enter<'a>(&self, place: &'a Place) -> Result<Guard<'a>, Declined> {
        let mut guard = place.sandbox.lock().await;
        let entry = self.entries.fetch_add(1, Ordering::Relaxed);
        place.entered.store(entry, Ordering::Relaxed);
        if guard.is_none() {
            *guard = Some(self.build(&place.setting).await);
        }
        match &*guard {
            Some(Err(declined)) => Err(declined.clone()),
            _ => Ok(Guard(guard)),
        }
    }

    /// Ends every sandbox that was made.
    ///
    /// # Errors
    ///
    /// The first that could not be ended; the others are ended all the same.
    pub async fn close(&self) -> Result<(), Error> {
        let places =
            std::mem::take(&mut *self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for place in places {
            result = result.and(place.end().await);
        }
        result
    }

    async fn build(&self, setting: &Setting) -> Result<Sandbox, Declined> {
        let built = self.create_where_there_is_room(setting);
        match tokio::time::timeout(BUILD_LIMIT, built).await {
            Ok(built) => built.map_err(declined),
            Err(_) => Err(Declined::Failed(format!(
                "no sandbox after {BUILD_LIMIT:?}"
            ))),
        }
    }

    async fn create_where_there_is_room(&self, setting: &Setting) -> Result<Sandbox, Error> {
        let Some(room) = self.room else {
            return self.create(setting, &|_| ()).await;
        };
        self.make_way(room.sandboxes).await?;
        loop {
            match self.create(setting, &|_| ()).await {
                Err(error) if error.to_string().contains(NO_ROOM) => {
                    self.make_way(0).await?;
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Ends the sandbox that nobody has used for longest, where there are as many as this.
    async fn make_way(&self, most: usize) -> Result<(), Error> {
        let mut places = self
            .shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // One that is in use, or being made.
        let is_there = |place: &Arc<Place>| {
            let sandbox = place.sandbox.try_lock();
            sandbox.map_or(true, |sandbox| matches!(*sandbox, Some(Ok(_))))
        };
        places.retain(is_there);
        if places.len() < most {
            return Ok(());
        }
        places.sort_by_key(|place| place.entered.load(Ordering::Relaxed));
        for place in places {
            let Ok(mut sandbox) = place.sandbox.try_lock() else {
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
        setting: &Setting,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<Sandbox, Error> {
        let (handle, waived, unkept) = match self.create_waiving(setting, change).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return match setting.without_roots() {
                    Some(setting) => Box::pin(self.create(&setting, change)).await,
                    None => Err(error),
                };
            }
            created => created?,
        };
        // A path of its own for each: without isolation they all share the host's /tmp.
        let program = format!("{}/{}", self.grounds.inside(), unique_name("probe"));
        let content: Source = Box::new(PROGRAM);
        handle.put(&program, 0o755, content).await?;
        let is_elsewhere = self.room.is_some() && !runs_here(&handle).await;
        Ok(Sandbox {
            handle,
            program,
            waived,
            unkept,
            has_roots: setting.policy.filesystem_read_roots.is_some(),
            is_elsewhere,
        })
    }

    /// A sandbox of this setting, and the demands that had to be waived for it: what is declared unenforced is measured all the
    /// same. Of these, also the ones that the backend had said it would meet before it made anything.
    async fn create_waiving(
        &self,
        setting: &Setting,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<(SandboxHandle, Vec<Unmet>, Vec<Unmet>), Error> {
        let attempt = |policy| self.attempt(policy, setting, change);
        match attempt(setting.policy.clone()).await {
            Err(error)
                if error.kind() == ErrorKind::NotEnforceable && !error.unmet().is_empty() =>
            {
                let foreseen = self.foreseen(setting, change).await?;
                let unkept = |unmet: &&Unmet| !foreseen.contains(&unmet.demand.capability);
                let unkept = error.unmet().iter().filter(unkept).cloned().collect();
                let policy = waive(setting.policy.clone(), error.unmet());
                Ok((attempt(policy).await?, error.unmet().to_vec(), unkept))
            }
            created => Ok((created?, Vec::new(), Vec::new())),
        }
    }

    /// What the backend says that it would not meet, before it makes anything.
    async fn foreseen(
        &self,
        setting: &Setting,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<Vec<Capability>, Error> {
        let client = self.target.client(setting.policy.clone())?;
        let (_, _, unmet) = client.check(&self.spec(setting, change)).await?;
        Ok(unmet.iter().map(|unmet| unmet.demand.capability).collect())
    }

    /// Creates a detached sandbox with the policy of a place, which lives as long as this at most and which no pool ends. Its
    /// program is put where other sandboxes have theirs.
    ///
    /// # Errors
    ///
    /// [`Declined`].
    pub async fn keep(
        &self,
        place: &Place,
        name: &str,
        lifetime: Duration,
    ) -> Result<Sandbox, Declined> {
        let change = |spec: &mut SandboxSpec| {
            spec.name = name.to_owned();
            spec.detached = true;
            spec.lifetime = Some(lifetime);
            // By which it is found where this process cannot remove it.
            let run = RunId::current().encode();
            spec.labels.insert(remains::LABEL.to_owned(), run);
        };
        let created = self.create(&place.setting, &change).await;
        created.map_err(declined)
    }

    /// A client like the one that made the sandbox of a place.
    ///
    /// # Errors
    ///
    /// As [`Target::client`].
    pub fn client(&self, place: &Place) -> Result<sandbox_core::SandboxClient, Error> {
        self.target.client(place.setting.policy.clone())
    }

    /// Creates a sandbox of its own with the policy of a place, changed, and ends it.
    ///
    /// # Errors
    ///
    /// What creating and ending it finds.
    pub async fn create_other(
        &self,
        place: &Place,
        change: impl FnOnce(&mut CapabilityPolicy),
    ) -> Result<(), Error> {
        let mut policy = place.setting.policy.clone();
        change(&mut policy);
        self.attempt(policy, &place.setting, &|_| ())
            .await?
            .kill()
            .await
    }

    async fn attempt(
        &self,
        policy: CapabilityPolicy,
        setting: &Setting,
        change: &(dyn Fn(&mut SandboxSpec) + Sync),
    ) -> Result<SandboxHandle, Error> {
        let spec = self.spec(setting, change);
        self.target.client(policy)?.create(&spec).await
    }

    fn spec(&self, setting: &Setting, change: &(dyn Fn(&mut SandboxSpec) + Sync)) -> SandboxSpec {
        let mut spec = SandboxSpec::new(unique_name("conformance"));
        spec.env = setting.env.clone();
        spec.workspace = setting.workspace.clone();
        spec.image = self.image.clone();
        if let Some(room) = self.room {
            (spec.memory, spec.cpus) = room.sizes(setting);
        }
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
        // The policy's own check says that these two cannot go unenforced.
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

/// Whether the sandbox's kernel is this host's, by what names each start of a kernel.
async fn runs_here(handle: &SandboxHandle) -> bool {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    let (here, there) = (std::fs::read(BOOT), handle.fetch(BOOT, 64).await);
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}

fn declined(error: Error) -> Declined {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NotEnforceable
        | ErrorKind::PolicyExceeded
        | ErrorKind::Unsupported
        | ErrorKind::InvalidSpec
        | ErrorKind::InvalidPolicy => Declined::Refused(text),
        ErrorKind::SandboxUnavailable | ErrorKind::ImageNotFound | ErrorKind::UnknownBackend => {
            Declined::Unavailable(text)
        }
        _ => Declined::Failed(text),
    }
}

impl Place {
    /// What was asked for.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Ends the sandbox, so that the next probe gets a new one.
    ///
    /// # Errors
    ///
    /// What the backend finds.
    pub async fn end(&self) -> Result<(), Error> {
        match self.sandbox.lock().await.take() {
            Some(Ok(sandbox)) => sandbox.handle.kill().await,
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Whether the setting wants a sandbox of its own.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.setting.fresh
    }
}

/// A sandbox in use.
#[derive(Debug)]
pub struct Guard<'a>(MutexGuard<'a, Option<Result<Sandbox, Declined>>>);

impl std::ops::Deref for Guard<'_> {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        match &*self.0 {
            Some(Ok(sandbox)) => sandbox,
            _ => unreachable!("a guard is only made over a sandbox, and nobody else can change it"),
        }
    }
}
