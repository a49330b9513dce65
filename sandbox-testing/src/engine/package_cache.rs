//! A package cache of one test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bollard::query_parameters::ListContainersOptions;
use sandbox_container::{ContainerConfig, PackageSettings, PackageSource};
use sandbox_core::{CapabilityPolicy, Error, SandboxClient};

use super::TestEngine;
use crate::contract::PYTHON;
use crate::package_index::wheel;

/// A private package cache, and the settings of the installation.
pub struct TestCache {
    engine: &'static TestEngine,
    pub folder: tempfile::TempDir,
    pub settings: PackageSettings,
}

impl TestCache {
    pub fn new(engine: &'static TestEngine, source: PackageSource) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("mode");
        let settings = settings(source, folder.path());
        Self {
            engine,
            folder,
            settings,
        }
    }

    /// A cache that installs from a folder of wheels with `demo` 1.0 and 2.0.
    pub fn with_wheels(engine: &'static TestEngine) -> Self {
        let mut cache = Self::new(engine, PackageSource::default());
        std::fs::create_dir(cache.wheels()).expect("made");
        wheel(&cache.wheels(), "demo", "1.0", 0);
        wheel(&cache.wheels(), "demo", "2.0", 0);
        cache.settings.source = Some(PackageSource::folder(cache.wheels()));
        cache
    }

    pub fn wheels(&self) -> PathBuf {
        self.folder.path().join("wheels")
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

    /// The number of entries in a folder of the cache.
    pub fn left(&self, name: &str) -> usize {
        let folder = self.folder.path().join("cache/packages").join(name);
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Asserts that a failed installation leaves nothing.
    pub fn assert_clean(&self) {
        assert_eq!((self.left("entries"), self.left("staging")), (0, 0));
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

fn settings(source: PackageSource, folder: &Path) -> PackageSettings {
    let mut settings = PackageSettings::default();
    settings.folder = Some(folder.join("cache/packages"));
    settings.source = Some(source);
    settings.timeout = Duration::from_secs(60);
    settings
}

/// Installs from the index at this URL.
pub fn index_at(url: &str) -> PackageSource {
    let mut source = PackageSource::default();
    source.index_url = Some(url.to_owned());
    source.connect_timeout = Some(60);
    source
}

/// Installs from an index on the host's loopback, with the cache in `folder`.
pub fn over_host_network(config: ContainerConfig, index: &str, folder: &Path) -> ContainerConfig {
    config
        .packages(settings(index_at(index), folder))
        .package_network("host")
        .default_image(PYTHON)
}

/// A policy with these packages.
pub fn policy_with(packages: &[&str]) -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.packages = packages.iter().map(|name| (*name).to_owned()).collect();
    policy
}

/// The error of creating a sandbox with `client`.
pub async fn creation_error(engine: &'static TestEngine, client: &SandboxClient) -> Error {
    client
        .create(&engine.spec())
        .await
        .expect_err("not installed")
}

/// Whether a container mounts this host folder or one below it.
pub async fn is_mounted(engine: &'static TestEngine, folder: &Path) -> bool {
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
