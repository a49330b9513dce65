//! The differences between families of engines.

use std::fmt;

use async_trait::async_trait;
use sandbox_core::Result;

use crate::engine::{Candidates, Endpoint, EngineFacts, ListedContainer};

/// A family of engines with Docker's API, such as Docker or Podman. Describes only what differs
/// between families.
#[derive(Debug)]
pub struct Family {
    /// The tier that applies the policy.
    pub tier: &'static str,
    /// The tier without a policy.
    pub unsafe_tier: &'static str,
    /// The engine's display name ("Docker").
    pub engine: &'static str,
    /// The engine's command, used in fixes ("docker").
    pub command: &'static str,
    /// The fix if no engine answers.
    pub start: &'static str,
    /// The fix if an engine refuses the connection.
    pub denied: &'static str,
    /// Whether an engine belongs to this family, by the component names that it reports.
    pub is_member: fn(components: &[&str]) -> bool,
    /// Where to search for the engine if the configuration names none.
    ///
    /// # Errors
    ///
    /// `SandboxUnavailable` on the given tier if the configured address cannot be used.
    pub candidates: fn(tier: &str) -> Result<Candidates>,
    /// Usual cgroup paths of a container; `{id}` stands for its id. Containers elsewhere are found
    /// through their first process, which costs one more request.
    pub cgroups: &'static [&'static str],
    /// Folders that the engine keeps writable under a read-only root, without a size limit, unless
    /// something is mounted there.
    pub writable_folders: &'static [&'static str],
    /// Network mode for builds without network. Engines ignore unknown modes and use their default.
    pub no_network_in_builds: &'static str,
    /// Whether a container without a network can do without the engine's set-up of one
    /// (`NetworkDisabled`).
    pub skips_network: bool,
    /// Whether a rootless engine supports `keep-id`: its user keeps its uid in the container.
    pub keeps_ids: bool,
    /// Whether a tmpfs option can set owner and inode limit. If not, only size and mode can be set,
    /// the image's content is copied in unless disabled, and root owns it. The agent then changes
    /// the owner.
    pub full_tmpfs: bool,
    /// How the engine takes a seccomp profile.
    pub profile_form: ProfileForm,
    /// How the engine takes paths to hide and to make read-only.
    pub path_options: PathOptions,
    /// Whether a request can choose the OCI runtime. If not, the engine silently uses its default.
    pub chooses_runtime: bool,
    /// Whether a container can get its own range of host users (`--userns=auto`).
    pub private_users: bool,
    /// Queries over the engine's own API.
    pub native: Option<&'static dyn NativeApi>,
}

/// Corrects facts that the engine reports wrongly over Docker's API.
pub type FactsCorrection = Box<dyn FnOnce(&mut EngineFacts) + Send>;

/// How an engine takes a seccomp profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileForm {
    /// As text in the request.
    Text,
    /// As the name of a file on the engine's host.
    File,
}

/// How an engine takes paths to hide and to make read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOptions {
    /// As complete lists that replace the engine's own.
    Lists,
    /// As additional paths to hide, in a security option. Read-only paths are not supported.
    Masks,
}

/// Queries over an engine's own API, for facts that Docker's API reports wrongly or not at all.
#[async_trait]
pub trait NativeApi: fmt::Debug + Send + Sync {
    /// Queries the facts that Docker's API reports wrongly.
    ///
    /// # Errors
    ///
    /// A message that says why the engine could not be queried.
    async fn ask(&self, endpoint: &Endpoint) -> Result<FactsCorrection, String>;

    /// Lists the containers in any state that have all of these labels (`name` or `name=value`).
    ///
    /// # Errors
    ///
    /// A message that says why the engine could not be queried.
    async fn list(
        &self,
        endpoint: &Endpoint,
        labels: &[String],
    ) -> Result<Vec<ListedContainer>, String>;

    /// The id of the image that the engine's own command would use for `reference`, if any.
    ///
    /// # Errors
    ///
    /// A message that says why the engine could not be queried.
    async fn image(&self, endpoint: &Endpoint, reference: &str) -> Result<Option<String>, String>;
}

/// A family as a type parameter, so that each backend is a separate type.
pub trait EngineFamily: fmt::Debug + Send + Sync + 'static {
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

    /// The tier without a policy.
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

    /// A family for tests.
    pub(crate) const FAMILY: &Family = &Family {
        tier: "docker",
        unsafe_tier: "docker_unsafe",
        engine: "Docker",
        command: "docker",
        start: "start Docker",
        denied: "use a rootless engine",
        is_member: |_| true,
        candidates: |_| Ok(Candidates::usual([])),
        cgroups: &["/docker/{id}", "/system.slice/docker-{id}.scope"],
        writable_folders: &[],
        no_network_in_builds: "none",
        skips_network: true,
        keeps_ids: false,
        full_tmpfs: true,
        profile_form: ProfileForm::Text,
        path_options: PathOptions::Lists,
        chooses_runtime: true,
        private_users: false,
        native: None,
    };

    /// A family for tests that differs from [`FAMILY`] in every fact.
    pub(crate) const OTHER: &Family = &Family {
        tier: "podman",
        unsafe_tier: "podman_unsafe",
        engine: "Podman",
        command: "podman",
        writable_folders: &["/run", "/tmp", "/var/tmp"],
        no_network_in_builds: "NetworkDisabled",
        skips_network: false,
        keeps_ids: true,
        full_tmpfs: false,
        profile_form: ProfileForm::File,
        path_options: PathOptions::Masks,
        chooses_runtime: false,
        private_users: true,
        ..*FAMILY
    };

    /// The tier of [`FAMILY`] with a policy.
    pub(crate) const TIER: Tier = FAMILY.confined();
}
