//! The host features that the backend needs. Each is tried or read, never concluded from a version
//! number. This happens once per process, on first use.

pub(crate) mod cgroup;
mod findings;
mod idmapped_mounts;
mod mount_table;
mod namespace_trial;
mod paths;
mod plan_paths;
mod profile;
mod seccomp;
mod tasks;
mod user;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sandbox_host::lock;

use crate::spawn;
use crate::{LocalConfig, python_alias};

pub(crate) use cgroup::Cgroups;
use cgroup::Detection;
pub(crate) use findings::findings;
pub(crate) use mount_table::{mount_table, mounts_of};
pub(crate) use paths::platform_roots;
use paths::resolve;
pub(crate) use paths::{FileKind, OpenObject, PathRole, Root, Stamp};
pub(crate) use plan_paths::{MountedRoot, PlanPaths, ReservedPaths};
pub(crate) use profile::profile;
pub(crate) use seccomp::Seccomp;
pub(crate) use tasks::user_tasks;
pub(crate) use user::User;

/// Whether a feature is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It was tried and works.
    Present,
    /// It does not work.
    Missing {
        /// What was observed.
        reason: String,
        /// What would provide it; empty if nothing can.
        fix: String,
    },
}

impl Availability {
    pub(crate) fn is_present(&self) -> bool {
        matches!(self, Self::Present)
    }
}

/// The features of this host that change how a sandbox is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// The user of this process.
    pub(crate) user: User,
    /// New namespaces with mounts in them, as this user.
    pub(crate) namespaces: Availability,
    /// A new procfs in a new PID namespace, as this user.
    pub(crate) proc_mount: Availability,
    /// Id-mapped mounts.
    pub(crate) id_mapped_mounts: Availability,
    /// Control groups.
    pub(crate) cgroups: Cgroups,
    /// The Landlock ABI, or 0.
    pub(crate) landlock_abi: u32,
    /// Seccomp filters.
    pub(crate) seccomp: Seccomp,
    /// The `python3` of sandboxes, if they see no `python`.
    pub(crate) lone_python3: Option<PathBuf>,
}

/// The isolation mode of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Namespaces that belong to the host's root; code runs as a subordinate user in its own user
    /// namespace.
    Privileged,
    /// Namespaces that belong to the sandbox's user namespace; code runs as the caller.
    UserNamespace,
    /// No namespaces: Landlock, seccomp and limits only.
    Landlock,
}

impl Host {
    /// Detects the host once per process, then applies what `config` switches off.
    pub(crate) fn detect(config: &LocalConfig) -> Arc<Self> {
        // One entry with control groups and one without.
        static CACHE: Mutex<[Option<Arc<Host>>; 2]> = Mutex::new([None, None]);
        let mut cache = lock(&CACHE);
        let cache = &mut cache[usize::from(config.without_cgroups)];
        // Another process can stop a systemd scope.
        let known = cache.take().filter(|host| !host.cgroups.have_ended());
        let host = cache.insert(known.unwrap_or_else(|| Arc::new(Self::probe(config))));
        if !config.without_user_namespaces {
            return Arc::clone(host);
        }
        let mut host = Self::clone(host);
        let missing = Availability::Missing {
            reason: "switched off by the configuration".into(),
            fix: "do not set without_user_namespaces".into(),
        };
        host.namespaces = missing.clone();
        host.proc_mount = missing;
        Arc::new(host)
    }

    fn probe(config: &LocalConfig) -> Self {
        let user = User::current();
        let cgroups = (!config.without_cgroups).then(|| Detection::begin(user.id));
        let tried = user.clone();
        let trial = spawn::run_ahead(move || namespace_trial::run(&tried));
        // Read the rest in the meantime. The platform roots are needed next.
        platform_roots();
        let id_mapped_mounts = idmapped_mounts::detect();
        let landlock_abi = sandbox_agent::runtime::landlock::abi();
        let seccomp = Seccomp::detect();
        let cgroups = match cgroups {
            Some(detection) => detection.finish(),
            None => Cgroups::None {
                reason: "switched off by the configuration".into(),
                fix: "do not set without_cgroups".into(),
            },
        };
        let trial = trial();
        if let Some(child) = trial.child {
            // Reap it in the background.
            drop(spawn::run_ahead(move || {
                namespace_trial::NamespaceTrial::reap(child)
            }));
        }
        Self {
            namespaces: trial.namespaces,
            proc_mount: trial.proc_mount,
            id_mapped_mounts,
            cgroups,
            landlock_abi,
            seccomp,
            lone_python3: python_alias::lone_python3(sandbox_host::PATH),
            user,
        }
    }

    /// The isolation mode on this host. `None` if the host supports none.
    pub(crate) fn isolation(&self) -> Option<Isolation> {
        match (self.namespaces.is_present(), self.user.can_map_ids) {
            (true, true) => Some(Isolation::Privileged),
            (true, false) => Some(Isolation::UserNamespace),
            // Landlock alone does not contain code that runs as the host's root.
            (false, _) if self.user.id == 0 => None,
            (false, _) if self.landlock_abi > 0 && self.seccomp.filters => {
                Some(Isolation::Landlock)
            }
            (false, _) => None,
        }
    }
}
