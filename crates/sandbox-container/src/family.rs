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
    use super::{Family, Tier};
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
    };

    /// Its tier with the policy.
    pub(crate) const TIER: Tier = FAMILY.confined();
}
