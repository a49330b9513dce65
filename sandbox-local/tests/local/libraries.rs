//! Packages of npm and gem, from registries on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::{
    CapabilityPolicy, Error, ErrorKind, ExecRequest, OneShot, SandboxClient, SandboxHandle,
};
use sandbox_lang::packages::RegistrySource;
use sandbox_lang::{CodeRequest, RunCodeOnce};
use sandbox_local::{LocalBackend, PackageSettings, PackageSource};
use sandbox_testing::package_index::{PackageIndex, wheel};
use sandbox_testing::registries;
use sandbox_testing::users::open_folder;

use crate::harness::{Need, Test, test};
use crate::support::{config, namespaces, policy, sh, spec};

const NPM: Need = Need::Program("npm");
const RUBY: Need = Need::Program("ruby");

pub const TESTS: &[Test] = &[
    test!(async npm_packages_are_found_by_code_and_read_only, NPM),
    test!(async npm_runs_no_code_of_packages, NPM),
    test!(async failure_of_npm_is_typed, NPM),
    test!(async npm_writes_only_into_its_folder, NPM),
    test!(async library_of_javascript_is_installed_for_one_run, NPM),
    test!(async gems_are_found_by_code_and_read_only, RUBY),
    test!(async gem_runs_no_code_of_packages, RUBY),
    test!(async failure_of_gem_is_typed, RUBY),
    test!(async library_of_ruby_is_installed_for_one_run, RUBY),
    test!(async one_sandbox_has_packages_of_all_installers, NPM, RUBY, Need::Pip),
];

/// The test's own cache and registries.
pub struct RegistryFixture {
    pub folder: tempfile::TempDir,
    pub settings: PackageSettings,
}

impl RegistryFixture {
    pub fn new() -> Self {
        let folder = open_folder();
        let mut settings = PackageSettings::default();
        settings.folder = Some(folder.path().join("cache/packages"));
        settings.timeout = Duration::from_secs(120);
        // Nothing listens there.
        settings.npm = Some(RegistrySource::npm("http://127.0.0.1:1"));
        settings.gem = Some(RegistrySource::gem(["http://127.0.0.1:1"]));
        settings.go = Some(RegistrySource::go("http://127.0.0.1:1"));
        settings.cargo = Some(RegistrySource::cargo("sparse+http://127.0.0.1:1/"));
        settings.cran = Some(RegistrySource::cran(["http://127.0.0.1:1"]));
        Self { folder, settings }
    }

    fn npm(registry: &PackageIndex) -> Self {
        let mut place = Self::new();
        place.settings.npm = Some(RegistrySource::npm(registry.root()));
        place
    }

    fn gem(registry: &PackageIndex) -> Self {
        let mut place = Self::new();
        place.settings.gem = Some(RegistrySource::gem([registry.root()]));
        place
    }

    pub fn client_with(&self, policy: CapabilityPolicy) -> SandboxClient {
        let backend = LocalBackend::new(config().packages(self.settings.clone()));
        SandboxClient::with_backend(Arc::new(backend), policy).expect("a valid policy")
    }

    pub fn client(&self, packages: &[&str]) -> SandboxClient {
        let mut policy = policy();
        policy.packages = packages.iter().map(|name| (*name).to_owned()).collect();
        self.client_with(policy)
    }

    pub async fn sandbox(&self, packages: &[&str]) -> SandboxHandle {
        let created = self.client(packages).create(&spec()).await;
        created.unwrap_or_else(|error| panic!("{packages:?}: {error}"))
    }

    pub async fn refused(&self, package: &str, kind: ErrorKind) -> Error {
        let created = self.client(&[package]).create(&spec()).await;
        let error = created.expect_err(package);
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(files(&self.part("entries")), Vec::<PathBuf>::new());
        assert_eq!(files(&self.part("staging")), Vec::<PathBuf>::new());
        error
    }

    pub fn part(&self, name: &str) -> PathBuf {
        self.folder.path().join("cache/packages").join(name)
    }
}

/// Asserts that what is in the cache was used. With Landlock alone, the attack before has changed
/// permission bits of it, so it is installed again.
pub fn assert_kept(registry: &PackageIndex, requests: usize) {
    if namespaces() {
        assert_eq!(registry.requests().len(), requests, "from the cache");
    }
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => files.extend(self::files(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

async fn output(sandbox: &SandboxHandle, request: &ExecRequest) -> String {
    let result = sandbox.exec(request).await.expect("it runs");
    assert!(result.success(), "{}", result.output());
    result.stdout_text()
}

async fn node(sandbox: &SandboxHandle, code: &str) -> String {
    output(sandbox, &ExecRequest::new("node").arg("-e").arg(code)).await
}

async fn ruby(sandbox: &SandboxHandle, code: &str) -> String {
    output(sandbox, &ExecRequest::new("ruby").arg("-e").arg(code)).await
}

async fn npm_packages_are_found_by_code_and_read_only() {
    let registry = registries::npm();
    let place = RegistryFixture::npm(&registry);
    let wanted = ["npm:demo@^1", "npm:@scope/demo", "npm:needs"];
    let sandbox = place.sandbox(&wanted).await;
    let code =
        "for (const name of ['demo', '@scope/demo', 'needs']) console.log(require(name).version)";
    assert_eq!(node(&sandbox, code).await, "1.0.0\n1.0.0\n1.0.0\n");
    assert_eq!(
        output(&sandbox, &ExecRequest::new("demo")).await,
        "ran 1.0.0\n"
    );
    if namespaces() {
        let module = "import demo from 'demo'; console.log(demo.version)";
        sandbox
            .write("/tmp/x/a.mjs", module)
            .await
            .expect("written");
        let request = ExecRequest::new("node").arg("/tmp/x/a.mjs");
        assert_eq!(output(&sandbox, &request).await, "1.0.0\n");
    }
    let attack = "f=$(node -p 'require.resolve(\"demo\")'); d=$(dirname $f); echo > $f; rm -f $f; touch $d/new; \
                  chmod 777 $f; mv $d /tmp; touch $d/../new; ln -s /etc $d/../link";
    let tried = sandbox.exec(&sh(attack)).await.expect("it runs");
    assert!(!tried.success(), "{}", tried.output());
    sandbox.kill().await.expect("it ends");

    let requests = registry.requests().len();
    let again = place.sandbox(&wanted).await;
    assert_eq!(node(&again, code).await, "1.0.0\n1.0.0\n1.0.0\n");
    assert_kept(&registry, requests);
    let newest = place.sandbox(&["npm:demo"]).await;
    let show = "console.log(require('demo').version)";
    assert_eq!(node(&newest, show).await, "2.0.0\n");
    let none = place.sandbox(&[]).await;
    let result = none
        .exec(&ExecRequest::new("node").arg("-e").arg(show))
        .await;
    assert!(!result.expect("it runs").success());
}

async fn npm_runs_no_code_of_packages() {
    let registry = registries::npm();
    let place = RegistryFixture::npm(&registry);
    let sandbox = place.sandbox(&["npm:scripted"]).await;
    let ran = |path: &PathBuf| path.file_name().is_some_and(|name| name == "ran");
    let found = files(&place.part("entries"));
    assert!(!found.is_empty() && !found.iter().any(ran), "{found:?}");
    let says = |sandbox: &SandboxHandle| sandbox.enforcement().notes().join("\n");
    let note = says(&sandbox);
    assert!(
        note.contains("scripts") && note.contains("scripted"),
        "{note}"
    );
    let again = place.sandbox(&["npm:scripted"]).await;
    assert_eq!(says(&again), note, "also from the cache");

    let place = RegistryFixture::npm(&registry);
    let error = place
        .refused("npm:native", ErrorKind::PackageNeedsBuild)
        .await;
    assert!(error.to_string().contains("native"), "{error}");
    let error = place.refused("npm:git", ErrorKind::PackageNeedsBuild).await;
    assert!(error.to_string().contains("Git"), "{error}");
}

async fn failure_of_npm_is_typed() {
    let registry = registries::npm();
    let place = RegistryFixture::npm(&registry);
    let error = place
        .refused("npm:missing", ErrorKind::PackageNotFound)
        .await;
    assert!(
        error.context().contains("missing"),
        "npm's own words: {error}"
    );
    place
        .refused("npm:demo@^3", ErrorKind::PackageNotFound)
        .await;
    place
        .refused("npm:denied", ErrorKind::RegistryUnreachable)
        .await;
    let mut slow = RegistryFixture::npm(&registry);
    slow.settings.timeout = Duration::from_secs(3);
    slow.refused("npm:silent", ErrorKind::InstallTimedOut).await;
    drop(registry);
    let nowhere = RegistryFixture::new();
    nowhere
        .refused("npm:demo", ErrorKind::RegistryUnreachable)
        .await;
}

async fn npm_writes_only_into_its_folder() {
    let registry = registries::npm();
    let place = RegistryFixture::npm(&registry);
    let sandbox = place.sandbox(&["npm:outside", "npm:linked"]).await;
    let outside = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "outside");
    for path in files(place.folder.path()).iter().filter(outside) {
        assert!(path.starts_with(place.part("entries")), "{path:?}");
    }
    // What a package links to is the sandbox's own, not the host's.
    let host = std::fs::read_to_string("/etc/shadow").unwrap_or_default();
    let seen = sandbox.exec(&sh("cat $NODE_PATH/x/shadow")).await;
    let seen = seen.expect("it runs");
    assert!(!seen.success() || host.is_empty(), "{}", seen.output());
}

async fn library_of_javascript_is_installed_for_one_run() {
    let registry = registries::npm();
    let place = RegistryFixture::npm(&registry);
    let client = place.client_with(policy().package_installation(true));
    let code = "console.log(require('demo').version)";
    for (library, version) in [("demo@1.0.0", "1.0.0\n"), ("npm:demo", "2.0.0\n")] {
        let request = CodeRequest::new("javascript", code).library(library);
        let ended = client.run_code(request, OneShot::default()).await;
        let code = ended.expect("it runs").code;
        assert_eq!(code.check().expect("it succeeds").stdout_text(), version);
    }
    for library in [
        "gem:demo",
        "demo@latest",
        "./demo",
        "https://example.org/x.tgz",
    ] {
        let request = CodeRequest::new("javascript", code).library(library);
        let error = client.run_code(request, OneShot::default()).await;
        let error = error.expect_err(library);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
    let allowed = place.client(&["npm:demo@1.0.0"]);
    let request = CodeRequest::new("javascript", code).library("needs");
    let error = allowed.run_code(request, OneShot::default()).await;
    assert_eq!(
        error.expect_err("another").kind(),
        ErrorKind::PolicyExceeded
    );
}

async fn gems_are_found_by_code_and_read_only() {
    let registry = registries::gem();
    let place = RegistryFixture::gem(&registry);
    let sandbox = place.sandbox(&["gem:demo~>1.0", "gem:needs"]).await;
    let code = "require 'demo'; require 'needs'; puts Demo::VERSION, Needs::VERSION";
    assert_eq!(ruby(&sandbox, code).await, "1.0.0\n1.0.0\n");
    assert_eq!(
        output(&sandbox, &ExecRequest::new("demo")).await,
        "ran 1.0.0\n"
    );
    // Ruby's own satisfies a dependency.
    let asked = registry.requests();
    assert!(
        !asked.iter().any(|path| path.contains("json-99")),
        "{asked:?}"
    );
    let attack = "d=$(ruby -e 'puts Gem.loaded_specs[\"demo\"]&.gem_dir || Gem::Specification.find_by_name(\"demo\").gem_dir'); \
                  f=$d/lib/demo.rb; cat $f || exit 0; echo > $f; rm -f $f; touch $d/new; chmod 777 $f; mv $d /tmp";
    let tried = sandbox.exec(&sh(attack)).await.expect("it runs");
    assert!(!tried.success(), "{}", tried.output());
    sandbox.kill().await.expect("it ends");

    let requests = registry.requests().len();
    let again = place.sandbox(&["gem:needs", "gem:demo~>1.0"]).await;
    assert_eq!(ruby(&again, code).await, "1.0.0\n1.0.0\n");
    assert_kept(&registry, requests);
    let own = ruby(&again, "require 'json'; require 'set'; puts JSON.dump([1])").await;
    assert_eq!(own, "[1]\n");
}

async fn gem_runs_no_code_of_packages() {
    let registry = registries::gem();
    let place = RegistryFixture::gem(&registry);
    for name in ["native", "plugin"] {
        let error = place
            .refused(&format!("gem:{name}"), ErrorKind::PackageNeedsBuild)
            .await;
        assert!(error.to_string().contains(name), "{error}");
    }
}

async fn failure_of_gem_is_typed() {
    let registry = registries::gem();
    let place = RegistryFixture::gem(&registry);
    let error = place
        .refused("gem:missing", ErrorKind::PackageNotFound)
        .await;
    assert!(
        error.context().contains("missing"),
        "gem's own words: {error}"
    );
    place
        .refused("gem:demo~>3.0", ErrorKind::PackageNotFound)
        .await;
    drop(registry);
    let mut nowhere = RegistryFixture::new();
    let url = "http://me:secret@127.0.0.1:1";
    nowhere.settings.gem = Some(RegistrySource::gem([url]));
    let error = nowhere
        .refused("gem:demo", ErrorKind::RegistryUnreachable)
        .await;
    assert!(!error.to_string().contains("secret"), "{error}");
}

async fn library_of_ruby_is_installed_for_one_run() {
    let registry = registries::gem();
    let place = RegistryFixture::gem(&registry);
    let client = place.client_with(policy().package_installation(true));
    let request = CodeRequest::new("ruby", "require 'demo'; puts Demo::VERSION").library("demo<2");
    let ended = client.run_code(request, OneShot::default()).await;
    let code = ended.expect("it runs").code;
    assert_eq!(code.check().expect("it succeeds").stdout_text(), "1.0.0\n");
}

async fn one_sandbox_has_packages_of_all_installers() {
    let (npm, gem) = (registries::npm(), registries::gem());
    let mut place = RegistryFixture::npm(&npm);
    place.settings.gem = Some(RegistrySource::gem([gem.root()]));
    let wheels = place.folder.path().join("wheels");
    std::fs::create_dir(&wheels).expect("made");
    wheel(&wheels, "demo", "3.0", 0);
    place.settings.source = Some(PackageSource::folder(wheels));
    let sandbox = place
        .sandbox(&["demo", "npm:demo@1.0.0", "gem:demo==2.0.0"])
        .await;
    let python = ExecRequest::new("python3").args(["-c", "import demo; print(demo.version)"]);
    assert_eq!(output(&sandbox, &python).await, "3.0\n");
    let code = "console.log(require('demo').version)";
    assert_eq!(node(&sandbox, code).await, "1.0.0\n");
    let code = "require 'demo'; puts Demo::VERSION";
    assert_eq!(ruby(&sandbox, code).await, "2.0.0\n");
    assert_eq!(
        std::fs::read_dir(place.part("entries"))
            .expect("there")
            .count(),
        3
    );
}
