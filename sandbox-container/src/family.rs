//! What the engines of one family have in common and others do not.

use std::fmt;

use async_trait::async_trait;
use sandbox_core::Result;

use crate::engine::{Candidates, Endpoint, EngineFacts, Listed};

/// A family of engines: what of it is not the same for all engines with Docker's API. Facts and few functions; everything else is
/// shared.
#[derive(Debug)]
pub struct Family {
    /// The tier that applies the policy.
    pub tier: &'static str,
    /// The tier that applies none.
    pub unsafe_tier: &'static str,
    /// The engine's name, for people ("Docker").
    pub engine: &'static str,
    /// The engine's command, for what a user is told to do ("docker").
    pub command: &'static str,
    /// What a user does when no engine answers.
    pub start: &'static str,
    /// What a user does whom every engine that is there refuses.
    pub denied: &'static str,
    /// Whether an engine is of this family, by the names of the components that it says it is made of.
    pub is_ours: fn(components: &[&str]) -> bool,
    /// Where to look for the engine when the configuration names none.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` on the given tier, where what names the engine cannot be used.
    pub candidates: fn(tier: &str) -> Result<Candidates>,
    /// Paths in the hierarchy of control groups at which the engine puts a container whose id stands for `{id}`. A container that
    /// is elsewhere is found through its first process, which costs a request.
    pub cgroups: &'static [&'static str],
    /// Folders that the engine makes writable, and as large as memory, under a root that it was told to make read-only, unless
    /// something else is mounted there.
    pub writable_folders: &'static [&'static str],
    /// How a build is told that it gets no network: an engine takes what it does not know for its default.
    pub no_network_in_builds: &'static str,
    /// Whether an engine without root can let its user have its own number in a container (`keep-id`).
    pub keeps_ids: bool,
    /// Whether a tmpfs of a container takes an owner and a bound on its inodes. Else it takes a size and permission bits, covers with
    /// the image's content unless it is told otherwise, and belongs to root: the agent then gives it to the code.
    pub full_tmpfs: bool,
    /// How the engine takes a seccomp profile.
    pub profile_form: ProfileForm,
    /// How the engine takes paths to hide and to make read-only.
    pub path_options: PathOptions,
    /// Whether a container can be given a runtime other than the engine's default. Where not, the engine would silently take its own.
    pub chooses_runtime: bool,
    /// Whether a container can be given users of its own on the host (`--userns=auto`).
    pub private_users: bool,
    /// What is asked of the engine over an API of its own.
    pub native: Option<&'static dyn Native>,
}

/// Corrects what an engine said of itself over Docker's API.
pub type Correction = Box<dyn FnOnce(&mut EngineFacts) + Send>;

/// How an engine takes a seccomp profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileForm {
    /// Its text in the request.
    Text,
    /// The name of a file of the engine's host, which the engine reads.
    File,
}

/// How an engine takes paths to hide and to make read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOptions {
    /// Whole lists in place of its own.
    Lists,
    /// More paths to hide, as a security option; none to make read-only.
    Masks,
}

/// What is asked of an engine over an API of its own, because Docker's says it wrongly or not at all.
#[async_trait]
pub trait Native: fmt::Debug + Send + Sync {
    /// Asks the engine for what it says wrongly of itself over Docker's API.
    ///
    /// # Errors
    ///
    /// Why the engine cannot be asked, for people.
    async fn ask(&self, endpoint: &Endpoint) -> Result<Correction, String>;

    /// The containers that have all of these labels (`name` or `name=value`), whatever their state.
    ///
    /// # Errors
    ///
    /// Why the engine cannot be asked, for people.
    async fn list(&self, endpoint: &Endpoint, labels: &[String]) -> Result<Vec<Listed>, String>;

    /// The id of the image that a user of the engine's own command means by `reference`; `None` where there is none.
    ///
    /// # Errors
    ///
    /// Why the engine cannot be asked, for people.
    async fn image(&self, endpoint: &Endpoint, reference: &str) -> Result<Option<String>, String>;
}

/// A family as a type, so that each one's backend is a type of its own.
pub trait OfFamily: fmt::Debug + Send + Sync + 'static {
    /// The family.
    const FAMILY: &'static Family;
}

/// A tier of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tier {
    pub name: &'static str,
    pub family: &'static Family,
}

impl Family {
    /// The tier that applies the policy.
    pub(crate) const fn confined(&'static self) -> Tier {
        Tier {
            name: self.tier,
            family: self,
        }
    }

    /// The tier that applies none.
    pub(crate) const fn unconfined(&'static self) -> Tier {
        Tier {
            name: self.unsafe_tier,
            family: self,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl From<Tier> for String {
    fn from(tier: Tier) -> Self {
        tier.name.to_owned()
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::{Family, PathOptions, ProfileForm, Tier};
    use crate::engine::Candidates;

    /// A family to test with.
    pub(crate) const FAMILY: &Family = &Family {
        tier: "docker",
        unsafe_tier: "docker_unsafe",
        engine: "Docker",
        command: "docker",
        start: "start Docker",
        denied: "use a rootless engine",
        is_ours: |_| true,
        candidates: |_| Ok(Candidates::usual([])),
        cgroups: &["/docker/{id}", "/system.slice/docker-{id}.scope"],
        writable_folders: &[],
        no_network_in_builds: "none",
        keeps_ids: false,
        full_tmpfs: true,
        profile_form: ProfileForm::Text,
        path_options: PathOptions::Lists,
        chooses_runtime: true,
        private_users: false,
        native: None,
    };

    /// One that differs in every fact.
    pub(crate) const OTHER: &Family = &Family {
        tier: "podman",
        unsafe_tier: "podman_unsafe",
        engine: "Podman",
        command: "podman",
        writable_folders: &["/run", "/tmp", "/var/tmp"],
        no_network_in_builds: "NetworkDisabled",
        keeps_ids: true,
        full_tmpfs: false,
        profile_form: ProfileForm::File,
        path_options: PathOptions::Masks,
        chooses_runtime: false,
        private_users: true,
        ..*FAMILY
    };

    /// Its tier with the policy.
    pub(crate) const TIER: Tier = FAMILY.confined();
}
