//! A package cache of one test.

use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bollard::query_parameters::ListContainersOptions;
use sandbox_container::{ContainerConfig, PackageSettings, PackageSource};
use sandbox_core::spi::Backend;
use sandbox_core::{Error, SandboxClient, SandboxSpec};

use super::TestEngine;
use crate::contract::PYTHON;
use crate::contract::packages::{PackageBackend, PackageCache, index_at, policy_with, settings};

/// A private package cache of tests on one engine.
pub struct TestCache {
    engine: &'static TestEngine,
    cache: PackageCache,
}

impl Deref for TestCache {
    type Target = PackageCache;

    fn deref(&self) -> &PackageCache {
        &self.cache
    }
}

impl DerefMut for TestCache {
    fn deref_mut(&mut self) -> &mut PackageCache {
        &mut self.cache
    }
}

impl TestCache {
    pub fn new(engine: &'static TestEngine, source: PackageSource) -> Self {
        let cache = PackageCache::new(source);
        Self { engine, cache }
    }

    /// A cache that installs from a folder of wheels with `demo` 1.0 and 2.0.
    pub fn with_wheels(engine: &'static TestEngine) -> Self {
        let cache = PackageCache::with_wheels();
        Self { engine, cache }
    }

    pub fn config(&self) -> ContainerConfig {
        self.engine
            .config()
            .packages(self.settings.clone())
            .default_image(PYTHON)
    }

    pub fn client(&self, packages: &[&str]) -> SandboxClient {
        self.engine
            .client_with(self.config(), policy_with(packages))
    }

    pub async fn creation_error(&self, packages: &[&str]) -> Error {
        creation_error(self.engine, &self.client(packages)).await
    }

    /// Waits until no container uses the cache's folder, and no folder of an installation is left.
    pub async fn wait_clean(&self) {
        let start = Instant::now();
        while self.left("staging") > 0 || is_mounted(self.engine, self.folder.path()).await {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "something is left"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[async_trait]
impl PackageBackend for TestEngine {
    fn with_packages(
        &self,
        settings: &PackageSettings,
        hosts: &[(&str, IpAddr)],
        trusted: Option<&Path>,
        state: Option<&Path>,
    ) -> Arc<dyn Backend> {
        let config = self
            .config()
            .packages(settings.clone())
            .default_image(PYTHON);
        let config = hosts.iter().fold(config, |config, (name, address)| {
            config.host_address(*name, *address)
        });
        let config = trusted
            .into_iter()
            .fold(config, ContainerConfig::certificates);
        let config = state
            .into_iter()
            .fold(config, ContainerConfig::state_folder);
        self.backend(config)
    }

    fn spec(&self) -> SandboxSpec {
        TestEngine::spec(self)
    }

    async fn uses(&self, folder: &Path) -> bool {
        is_mounted(self, folder).await
    }
}

/// Installs from an index on the host's loopback, with the cache in `folder`.
pub fn over_host_network(config: ContainerConfig, index: &str, folder: &Path) -> ContainerConfig {
    config
        .packages(settings(index_at(index), folder))
        .package_network("host")
        .default_image(PYTHON)
}

/// The error of creating a sandbox with `client`.
pub async fn creation_error(engine: &'static TestEngine, client: &SandboxClient) -> Error {
    client
        .create(&engine.spec())
        .await
        .expect_err("not installed")
}

/// Whether a container mounts this host folder or one below it.
pub async fn is_mounted(engine: &TestEngine, folder: &Path) -> bool {
    let options = ListContainersOptions {
        all: true,
        ..ListContainersOptions::default()
    };
    let start = Instant::now();
    let containers = loop {
        match engine.api().list_containers(Some(options.clone())).await {
            Ok(containers) => break containers,
            // Podman reports a container that is ending with a state that Docker's clients do not
            // know.
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let mounts = containers
        .into_iter()
        .filter_map(|container| container.mounts);
    let mut sources = mounts.flatten().filter_map(|mount| mount.source);
    sources.any(|source| Path::new(&source).starts_with(folder))
}
