//! What the engines of one family have in common and others do not.

use std::fmt;

use sandbox_core::Result;

use crate::engine::Candidates;

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
    /// Where to look for the engine when the configuration names none.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` on the given tier, where what names the engine cannot be used.
    pub candidates: fn(tier: &str) -> Result<Candidates>,
    /// Paths in the hierarchy of control groups at which the engine puts a container whose id stands for `{id}`. A container that
    /// is elsewhere is found through its first process, which costs a request.
    pub cgroups: &'static [&'static str],
    /// How the engine takes a seccomp profile.
    pub profile_form: ProfileForm,
    /// How the engine takes paths to hide and to make read-only.
    pub path_options: PathOptions,
    /// Whether a container can be given a runtime other than the engine's default. Where not, the engine would silently take its own.
    pub chooses_runtime: bool,
    /// Whether a container can be given users of its own on the host (`--userns=auto`).
    pub private_users: bool,
}

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
        candidates: |_| Ok(Candidates::usual([])),
        cgroups: &["/docker/{id}", "/system.slice/docker-{id}.scope"],
        profile_form: ProfileForm::Text,
        path_options: PathOptions::Lists,
        chooses_runtime: true,
        private_users: false,
    };

    /// A family that differs in everything.
    pub(crate) const OTHER: &Family = &Family {
        tier: "podman",
        unsafe_tier: "podman_unsafe",
        engine: "Podman",
        command: "podman",
        start: "start Podman",
        candidates: |_| Ok(Candidates::usual([])),
        cgroups: &["/libpod_parent/libpod-{id}"],
        profile_form: ProfileForm::File,
        path_options: PathOptions::Masks,
        chooses_runtime: false,
        private_users: true,
    };

    /// Its tier with the policy.
    pub(crate) const TIER: Tier = FAMILY.confined();
}
