//! Installs a plan's packages in a container of the same image, and mounts them into the sandbox.

use async_trait::async_trait;
use bollard::models::ImageInspect;
use sandbox_core::spi::{Backend, Finding, Instance};
use sandbox_core::{EnforcementReport, Error, ErrorKind, Plan, Result};
use sandbox_host::egress::ENDS_TLS;
use sandbox_host::{PATH, state};
use sandbox_lang::packages::{Interpreter, PackageProvider};

use crate::engine::{Engine, EngineFacts};
use crate::quota::QuotaTrial;
use crate::{ContainerBackend, ContainerConfig, EngineFamily, Tier};
use crate::{egress, lowering};

/// Why containers cannot see this user's package cache, and the fix; `None` if they can.
pub(crate) fn cache_unreachable(facts: &EngineFacts) -> Option<(String, &'static str)> {
    if !facts.local {
        return Some((
            "the engine runs on another host, and packages are installed into a folder of this one"
                .into(),
            "use a local engine, or an image that has the packages",
        ));
    }
    let owner = facts.engine_user.map(|(user, _)| user);
    let owner = owner.filter(|owner| facts.rootless && *owner != state::user())?;
    Some((
        format!("the engine runs as user {owner}, which cannot read this user's cache of packages"),
        "run as the user that runs the engine, or use an image that has the packages",
    ))
}

/// The image and engine to install packages with.
#[derive(Debug)]
pub(crate) struct Provisioner<'a, F> {
    pub backend: &'a ContainerBackend<F>,
    pub config: &'a ContainerConfig,
    pub tier: Tier,
    pub engine: &'a Engine,
    pub image: &'a ImageInspect,
}

impl<F: EngineFamily> Provisioner<'_, F> {
    /// Adds the folders with the installed packages, and the variables that make code find them, to
    /// the plan. Also returns notes for the report.
    ///
    /// # Errors
    ///
    /// See [`PackageProvider::provide`]; `Unsupported` if the engine's containers would not see the
    /// folders.
    pub(crate) async fn provide(&self, plan: &Plan) -> Result<(Plan, Vec<String>)> {
        if let Some((why, fix)) = cache_unreachable(&self.engine.facts) {
            let error = Error::new(ErrorKind::Unsupported, "install packages", why);
            return Err(error.on(self.tier).with_fix(fix));
        }
        let image = self.image.id.as_deref().unwrap_or_default();
        let folder = state::folder(self.config.state_folder.as_deref(), state::user());
        state::prepare(self.tier.name, &folder, state::user())?;
        let provider = PackageProvider {
            settings: &self.config.packages,
            state: &state::resolved(folder),
            failed: &self.backend.failed_packages,
            find: &|installer| Some(Interpreter::of_image(installer, image)),
            path: PATH,
            own_root: true,
            carries_rules: self.config.package_network.is_none()
                && egress::can_carry_rules(&self.engine.facts),
            ends_tls: ENDS_TLS,
            sees_host: true,
        };
        provider.provide(self, plan).await
    }

    fn network_error(&self, network: &str, why: &Error) -> Error {
        let context = format!(
            "the engine cannot make a container with the network {network:?}: {}",
            why.context()
        );
        Error::new(ErrorKind::RegistryUnreachable, "install packages", context)
            .on(self.tier)
            .with_fix(format!(
                "see whether `{} run --network {network}` works, or name another network in the backend's configuration",
                self.tier.family.command
            ))
    }
}

/// Whether the engine reports that it could not create a container because of its network.
fn is_about_network(error: &Error) -> bool {
    const NETWORK_WORDS: [&str; 4] = ["network", "netns", "pasta", "slirp"];
    let is_engine_error = matches!(error.kind(), ErrorKind::Io | ErrorKind::SetupFailed);
    is_engine_error
        && NETWORK_WORDS
            .iter()
            .any(|word| error.context().contains(word))
}

/// The provision sandbox uses the same backend and image, on the network that the operator chose.
#[async_trait]
impl<F: EngineFamily> Backend for Provisioner<'_, F> {
    fn name(&self) -> &str {
        self.tier.name
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.backend
            .assess_on(plan, self.engine, QuotaTrial::CachedOnly)
            .await
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        // Every engine's name for its default network, which without root is not a bridge.
        let network = self.config.package_network.as_deref().unwrap_or("default");
        let created = self
            .backend
            .create_sandbox(plan, self.engine, self.image, Some(network));
        match created.await {
            Ok(instance) => Ok(Box::new(instance)),
            Err(error) if lowering::has_network(plan) && is_about_network(&error) => {
                Err(self.network_error(network, &error))
            }
            Err(error) => Err(error),
        }
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.backend.diagnose().await
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        self.backend.profile().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_need_a_cache_that_containers_see() {
        let facts = EngineFacts::sample();
        assert_eq!(cache_unreachable(&facts), None);
        let elsewhere = EngineFacts {
            local: false,
            ..facts.clone()
        };
        assert!(cache_unreachable(&elsewhere).is_some());
        let of = |user| EngineFacts {
            rootless: true,
            engine_user: Some((user, user)),
            ..facts.clone()
        };
        assert_eq!(cache_unreachable(&of(state::user())), None);
        assert!(cache_unreachable(&of(state::user() + 1)).is_some());
    }
}
