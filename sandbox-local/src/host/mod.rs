//! What this host has of what the backend needs. Everything is tried or read, nothing is concluded from a version number,
//! and it is done once per process, at the first question.

pub(crate) mod cgroup;
mod findings;
mod landlock;
mod material;
mod mount_table;
mod mounts;
mod paths;
mod profile;
mod seccomp;
mod tasks;
mod trial;
mod user;

use std::sync::{Arc, Mutex, PoisonError};

use crate::LocalConfig;
use crate::spawn;

pub(crate) use cgroup::Cgroups;
use cgroup::Detection;
pub(crate) use findings::findings;
pub(crate) use material::{Material, Own};
pub(crate) use mount_table::{mount_table, mounts_of};
pub(crate) use paths::platform_roots;
use paths::resolve;
pub(crate) use paths::{Kind, Object, PathRole, Root, Stamp};
pub(crate) use profile::profile;
pub(crate) use seccomp::Seccomp;
pub(crate) use tasks::user_tasks;
pub(crate) use user::User;

/// Whether something is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Support {
    /// It was tried and works.
    Present,
    /// It does not.
    Missing {
        /// What was found instead.
        reason: String,
        /// What would provide it; empty where nothing can.
        fix: String,
    },
}

impl Support {
    pub(crate) fn is_present(&self) -> bool {
        matches!(self, Self::Present)
    }
}

/// What of this host changes how a sandbox is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// Who runs this process.
    pub(crate) user: User,
    /// New namespaces with mounts in them, as this user.
    pub(crate) namespaces: Support,
    /// A new procfs in a new process namespace, as this user.
    pub(crate) proc_mount: Support,
    /// Mounts with mapped identities.
    pub(crate) mapped_mounts: Support,
    /// Control groups.
    pub(crate) cgroups: Cgroups,
    /// The Landlock ABI, 0 without.
    pub(crate) landlock_abi: u32,
    /// Filters of system calls.
    pub(crate) seccomp: Seccomp,
}

/// How a sandbox is isolated here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Namespaces that belong to the host's root, code as a subordinate user of a user namespace of its own.
    Privileged,
    /// Namespaces that belong to the caller's user namespace, code as the caller.
    UserNamespace,
    /// No namespaces: Landlock, seccomp, limits.
    Landlock,
}

impl Host {
    /// The host as it is, with what `config` switches off.
    pub(crate) fn detect(config: &LocalConfig) -> Arc<Self> {
        // With control groups, and without.
        static SEEN: Mutex<[Option<Arc<Host>>; 2]> = Mutex::new([None, None]);
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = &mut seen[usize::from(config.without_cgroups)];
        // What systemd gives, somebody else can take.
        let known = seen.take().filter(|host| !host.cgroups.have_ended());
        let host = seen.insert(known.unwrap_or_else(|| Arc::new(Self::look(config))));
        if !config.without_user_namespaces {
            return Arc::clone(host);
        }
        let mut host = Self::clone(host);
        let missing = Support::Missing {
            reason: "switched off by the configuration".into(),
            fix: "do not set without_user_namespaces".into(),
        };
        host.namespaces = missing.clone();
        host.proc_mount = missing;
        Arc::new(host)
    }

    fn look(config: &LocalConfig) -> Self {
        let user = User::current();
        let cgroups = (!config.without_cgroups).then(|| Detection::begin(user.id));
        let tried = user.clone();
        let trial = spawn::ahead(move || trial::run(&tried));
        // Meanwhile, what is read and not tried. The paths are asked for next.
        platform_roots();
        let mapped_mounts = mounts::mapped();
        let landlock_abi = landlock::abi();
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
            // Nobody needs to know when.
            drop(spawn::ahead(move || trial::Trial::reap(child)));
        }
        Self {
            namespaces: trial.namespaces,
            proc_mount: trial.proc_mount,
            mapped_mounts,
            cgroups,
            landlock_abi,
            seccomp,
            user,
        }
    }

    /// How a sandbox is isolated here; `None` where the host offers nothing that may be called isolation.
    pub(crate) fn isolation(&self) -> Option<Isolation> {
        match (self.namespaces.is_present(), self.user.can_split) {
            (true, true) => Some(Isolation::Privileged),
            (true, false) => Some(Isolation::UserNamespace),
            // Code that runs as the host's root is not held by Landlock alone.
            (false, _) if self.user.id == 0 => None,
            (false, _) if self.landlock_abi > 0 && self.seccomp.filters => {
                Some(Isolation::Landlock)
            }
            (false, _) => None,
        }
    }
}
