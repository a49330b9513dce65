//! Packages of Python that are installed before code runs.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::Backend;
use sandbox_core::{
    Capability, CapabilityPolicy, Error, ErrorKind, ExecRequest, SandboxClient, SandboxHandle,
    SandboxSpec,
};
use sandbox_lang::packages::{PackageSettings, PackageSource};

use super::{TestResult, client_of, run, shell};
use crate::package_index::{FILES, INDEX, SplitIndex, wheel};

/// A backend that installs packages. Its sandboxes have Python with pip.
#[async_trait]
pub trait PackageBackend: Sync {
    /// The backend, with these settings. Names have these addresses. The host trusts the authority
    /// in the file `trusted`. `state` is its state folder, if it can have another one.
    fn with_packages(
        &self,
        settings: &PackageSettings,
        hosts: &[(&str, IpAddr)],
        trusted: Option<&Path>,
        state: Option<&Path>,
    ) -> Arc<dyn Backend>;

    /// A specification of a new sandbox.
    fn spec(&self) -> SandboxSpec;

    /// Changes what an installation may use.
    fn adapt(&self, settings: &mut PackageSettings) {
        let _ = settings;
    }

    /// Whether a sandbox uses this folder of the host.
    async fn uses(&self, folder: &Path) -> bool {
        let _ = folder;
        false
    }
}

impl dyn PackageBackend {
    /// A cache that installs from a folder of wheels.
    fn cache(&self) -> PackageCache {
        let mut cache = PackageCache::with_wheels();
        self.adapt(&mut cache.settings);
        cache
    }

    fn client(&self, cache: &PackageCache, packages: &[&str]) -> SandboxClient {
        let backend = self.with_packages(&cache.settings, &[], None, None);
        client_of(backend, policy_with(packages))
    }

    async fn error(&self, cache: &PackageCache, packages: &[&str]) -> Error {
        let created = self.client(cache, packages).create(&self.spec()).await;
        created.expect_err("not installed")
    }
}

/// A test's name and its function.
pub type PackageTest = (&'static str, fn(&'static dyn PackageBackend) -> TestResult);

/// All tests.
pub const TESTS: &[PackageTest] = &[
    ("packages::can_be_imported_and_not_changed", found),
    ("packages::of_one_sandbox_are_not_those_of_another", apart),
    (
        "packages::outlive_the_creator_of_a_detached_sandbox",
        detached,
    ),
    (
        "packages::a_missing_package_is_an_error_on_every_call",
        missing,
    ),
    (
        "packages::an_installation_reaches_its_registries_alone",
        registries,
    ),
];

/// A private package cache, and the settings of the installation.
pub struct PackageCache {
    /// Removed with this value.
    pub folder: tempfile::TempDir,
    /// Their cache is in the folder.
    pub settings: PackageSettings,
}

impl PackageCache {
    /// An empty cache.
    ///
    /// # Panics
    ///
    /// If its folder cannot be made.
    pub fn new(source: PackageSource) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("mode");
        let settings = settings(source, folder.path());
        Self { folder, settings }
    }

    /// A cache that installs from a folder of wheels with `demo` 1.0 and 2.0.
    ///
    /// # Panics
    ///
    /// If they cannot be made.
    pub fn with_wheels() -> Self {
        let mut cache = Self::new(PackageSource::default());
        std::fs::create_dir(cache.wheels()).expect("made");
        wheel(&cache.wheels(), "demo", "1.0", 0);
        wheel(&cache.wheels(), "demo", "2.0", 0);
        cache.settings.source = Some(PackageSource::folder(cache.wheels()));
        cache
    }

    /// The folder of wheels.
    pub fn wheels(&self) -> PathBuf {
        self.folder.path().join("wheels")
    }

    /// The number of entries in a folder of the cache.
    pub fn left(&self, name: &str) -> usize {
        let folder = self.folder.path().join("cache/packages").join(name);
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Asserts that a failed installation leaves nothing.
    ///
    /// # Panics
    ///
    /// If it left something.
    pub fn assert_clean(&self) {
        assert_eq!((self.left("entries"), self.left("staging")), (0, 0));
    }
}

/// The settings of a cache in `folder`.
pub fn settings(source: PackageSource, folder: &Path) -> PackageSettings {
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

/// A policy with these packages.
pub fn policy_with(packages: &[&str]) -> CapabilityPolicy {
    let mut policy = CapabilityPolicy::new();
    policy.packages = packages.iter().map(|name| (*name).to_owned()).collect();
    policy
}

/// Prints the version of the installed package.
pub const SHOW: &str = "import demo; print(demo.version)";

/// The output of this Python program, which must succeed.
///
/// # Panics
///
/// If it fails.
pub async fn python(sandbox: &SandboxHandle, code: &str) -> sandbox_core::Result<String> {
    let request = ExecRequest::new("python3").arg("-c").arg(code);
    let result = sandbox.exec(&request).await?;
    assert!(result.success(), "{code}: {}", result.stderr_text());
    Ok(result.stdout_text())
}

fn found(backend: &'static dyn PackageBackend) -> TestResult {
    run(async {
        let cache = backend.cache();
        let client = backend.client(&cache, &["Demo==1.0"]);
        let sandbox = client.create(&backend.spec()).await?;
        // A folder of wheels needs no network.
        for status in ["packages", "package_installation"] {
            let capability = status.parse().expect("a capability");
            let enforcement = sandbox.enforcement().get(capability).expect("reported");
            assert!(enforcement.is_enforced(), "{enforcement}");
        }
        assert_eq!(python(&sandbox, SHOW).await?, "1.0\n");
        let program = sandbox.exec(&ExecRequest::new("demo")).await?;
        assert_eq!(
            program.stdout_text(),
            "ran 1.0\n",
            "{}",
            program.stderr_text()
        );
        let attack = "d=$(python3 -c 'import demo; print(demo.__file__)'); echo 'version = 3' > $d; \
                      rm -f $d; touch $(dirname $d)/new; chmod 777 $d; mv $d /tmp; touch /packages/new";
        assert!(!shell(&sandbox, attack).await?.success());
        sandbox.kill().await?;

        let again = client.create(&backend.spec()).await?;
        assert_eq!(python(&again, SHOW).await?, "1.0\n");
        assert_eq!((cache.left("entries"), cache.left("staging")), (1, 0));

        // Another version has another folder, and no packages have no folder.
        let newest = backend
            .client(&cache, &["demo"])
            .create(&backend.spec())
            .await?;
        assert_eq!(python(&newest, SHOW).await?, "2.0\n");
        let none = backend.client(&cache, &[]).create(&backend.spec()).await?;
        assert!(!shell(&none, "python3 -c 'import demo'").await?.success());
        for sandbox in [again, newest, none] {
            sandbox.kill().await?;
        }
        assert!(!backend.uses(cache.folder.path()).await);
        Ok(())
    })
}

fn apart(backend: &'static dyn PackageBackend) -> TestResult {
    run(async {
        let cache = backend.cache();
        let client = backend.client(&cache, &["demo==1.0"]);
        let one = client.create(&backend.spec()).await?;
        // Every way to change what another sandbox finds, each on its own.
        let attack = "cd /packages || exit 1; ok=; \
                      for d in $(find . -type d); do touch $d/new && ok=1; chmod 777 $d && ok=1; done; \
                      for f in $(find . -type f); do echo 3 >> $f && ok=1; chmod 777 $f && ok=1; \
                      touch $f && ok=1; ln $f /tmp/link && ok=1; mv $f $f.old && ok=1; done; \
                      test -z \"$ok\"";
        let tried = shell(&one, attack).await?;
        assert!(tried.success(), "{}", tried.output());
        let other = client.create(&backend.spec()).await?;
        for sandbox in [&one, &other] {
            assert_eq!(python(sandbox, SHOW).await?, "1.0\n");
            let found = shell(sandbox, "find /packages -name new -o -name '*.old'").await?;
            assert_eq!(found.stdout_text(), "");
        }
        one.kill().await?;
        other.kill().await
    })
}

fn detached(backend: &'static dyn PackageBackend) -> TestResult {
    run(async {
        let cache = backend.cache();
        let state = tempfile::tempdir().expect("a folder");
        let client = |packages: &[&str]| {
            let state = state.path().join("state");
            let backend = backend.with_packages(&cache.settings, &[], None, Some(&state));
            client_of(backend, policy_with(packages))
        };
        let spec = backend
            .spec()
            .detached(true)
            .lifetime(Duration::from_secs(60));
        drop(client(&["demo==1.0"]).create(&spec).await?);
        let found = client(&[]).get(&spec.name).await?;
        assert_eq!(python(&found, SHOW).await?, "1.0\n");
        client(&[]).remove(&spec.name).await
    })
}

fn missing(backend: &'static dyn PackageBackend) -> TestResult {
    run(async {
        let cache = backend.cache();
        for _ in 0..2 {
            let error = backend.error(&cache, &["no-such-package"]).await;
            assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
            assert!(error.context().contains("no-such-package"), "{error}");
        }
        let error = backend.error(&cache, &["demo==99"]).await;
        assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
        assert!(
            error.context().contains("1.0, 2.0"),
            "pip's own words: {error}"
        );
        cache.assert_clean();
        assert!(!backend.uses(cache.folder.path()).await);
        Ok(())
    })
}

fn registries(backend: &'static dyn PackageBackend) -> TestResult {
    run(async {
        let registry = SplitIndex::start();
        let mut source = index_at(&registry.url());
        source.trusted_hosts = vec![INDEX.into(), FILES.into()];
        let mut cache = PackageCache::new(source);
        backend.adapt(&mut cache.settings);
        let client = |cache: &PackageCache| {
            let hosts = [INDEX, FILES].map(|name| (name, IpAddr::from(Ipv4Addr::LOCALHOST)));
            let backend = backend.with_packages(&cache.settings, &hosts, None, None);
            client_of(backend, policy_with(&["demo"]))
        };
        cache.settings.hosts = vec!["other.test".parse()?];
        let error = client(&cache).create(&backend.spec()).await;
        let error = error.expect_err("the files are elsewhere");
        assert_eq!(error.kind(), ErrorKind::RegistryUnreachable, "{error}");
        assert_eq!(registry.files.requests(), Vec::<String>::new());
        cache.settings.hosts = vec![registry.files_rule().parse()?];
        let sandbox = client(&cache).create(&backend.spec()).await?;
        let report = sandbox.enforcement().get(Capability::PackageInstallation);
        let report = report.expect("reported").to_string();
        assert!(
            report.contains("only the servers of files.test, index.test"),
            "{report}"
        );
        assert_eq!(python(&sandbox, SHOW).await?, "1.0\n");
        sandbox.kill().await
    })
}
