//! Packages of every installer but pip, from registries on this machine, in the image of all
//! languages.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use sandbox_core::{ByteSize, Capability, Cpus, Enforcement, ErrorKind, SandboxClient};
use sandbox_lang::packages::{PackageSettings, RegistrySource};
use sandbox_lang::{CodeRequest, RunCode as _};

use super::egress::TlsServer;
use super::packages::{PackageBackend, PackageCache, PackageTest, policy_with};
use super::{LANGUAGES, PYTHON, TestResult, client_of, run_within, shell};
use crate::package_index::PackageIndex;
use crate::registries;

/// The name of every registry, which the host resolves for its provision sandboxes.
const REGISTRY: &str = "registry.test";

/// For a compiler in a small pod on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// All tests.
pub const TESTS: &[PackageTest] = &[
    ("installers::npm_packages_are_read_only", |backend| {
        InstallerCase {
            registry: registries::npm,
            configure: |settings, url| settings.npm = Some(RegistrySource::npm(url)),
            wanted: &["npm:demo@1.0.0", "npm:needs"],
            language: "javascript",
            code: "console.log(require('demo').version, require('needs').version)",
            shown: "1.0.0 1.0.0\n",
            file: "/node_modules/demo/index.js",
            absent: "npm:absent",
        }
        .check(backend)
    }),
    ("installers::gems_are_read_only", |backend| {
        InstallerCase {
            registry: registries::gem,
            configure: |settings, url| settings.gem = Some(RegistrySource::gem([url])),
            wanted: &["gem:demo==1.0.0"],
            language: "ruby",
            code: "require 'demo'; puts Demo::VERSION",
            shown: "1.0.0\n",
            file: "/gems/gems/demo-1.0.0/lib/demo.rb",
            absent: "gem:absent",
        }
        .check(backend)
    }),
    ("installers::modules_of_go_are_read_only", |backend| {
        InstallerCase {
            registry: registries::go,
            configure: |settings, url| {
                let mut source = RegistrySource::go(url);
                // The database of checksums is not on this machine.
                source.environment.insert("GOSUMDB".into(), "off".into());
                settings.go = Some(source);
            },
            wanted: &["go:example.org/demo@v1.0.0", "go:example.org/needs"],
            language: "go",
            code: "package main\nimport \"example.org/demo\"\nimport \"example.org/needs/sub\"\nimport \"fmt\"\n\
                   func main() { fmt.Println(demo.Version, sub.Version) }\n",
            shown: "v1.0.0 needs v1.0.0\n",
            file: "/go-packages/cache/example.org/demo@v1.0.0/demo.go",
            absent: "go:example.org/absent",
        }
        .check(backend)
    }),
    ("installers::packages_of_r_are_read_only", |backend| {
        InstallerCase {
            registry: registries::cran,
            configure: |settings, url| settings.cran = Some(RegistrySource::cran([url])),
            wanted: &["cran:built", "cran:demo==1.0", "cran:needs"],
            language: "r",
            code: "cat(demo::version(), needs::version(), built:::reached, '\\n')",
            shown: "1.0 needs 1.0 FALSE \n",
            file: "/r-packages/demo/DESCRIPTION",
            absent: "cran:absent",
        }
        .check(backend)
    }),
    ("installers::packages_of_cargo_are_read_only", cargo),
    ("installers::a_missing_installer_is_an_error", missing),
    ("installers::a_missing_compiler_is_an_error", native),
];

/// Packages of one installer.
struct InstallerCase {
    registry: fn() -> PackageIndex,
    configure: fn(&mut PackageSettings, String),
    wanted: &'static [&'static str],
    language: &'static str,
    code: &'static str,
    shown: &'static str,
    /// A file of a package.
    file: &'static str,
    /// A package that the registry has not.
    absent: &'static str,
}

impl InstallerCase {
    fn check(self, backend: &'static dyn PackageBackend) -> TestResult {
        let registry = (self.registry)();
        let tls = TlsServer::before(REGISTRY, registry.port());
        let url = format!("https://{REGISTRY}:{}", tls.port);
        let cache = cache(backend, |settings| (self.configure)(settings, url));
        self.check_in(backend, &cache, Some(tls.certificate()))
    }

    fn check_in(
        &self,
        backend: &'static dyn PackageBackend,
        cache: &PackageCache,
        trusted: Option<&Path>,
    ) -> TestResult {
        run_within(TIME_LIMIT, async {
            let client = client(backend, cache, trusted, self.wanted);
            let spec = spec(backend, LANGUAGES);
            let sandbox = client.create(&spec).await?;
            let report = sandbox.enforcement();
            let installation = report.get(Capability::PackageInstallation);
            assert!(
                installation.is_some_and(Enforcement::is_enforced),
                "{installation:?}"
            );
            let request = CodeRequest::new(self.language, self.code);
            let result = sandbox.run_code(request).await?;
            assert_eq!(result.check()?.stdout_text(), self.shown);
            let attack = format!(
                "f={}; d=$(dirname $f); cat $f || exit 0; \
                 echo > $f || rm -f $f || touch $d/new || chmod 777 $d || mv $d /tmp",
                self.file
            );
            let tried = shell(&sandbox, &attack).await?;
            assert!(!tried.success(), "{}", tried.output());
            assert!(!tried.stdout.bytes.is_empty(), "{}", tried.output());
            sandbox.kill().await?;
            let absent = self::client(backend, cache, trusted, &[self.absent]);
            let error = absent.create(&spec).await.expect_err("absent");
            assert_eq!(error.kind(), ErrorKind::PackageNotFound, "{error}");
            Ok(())
        })
    }
}

/// Debian's cargo is too old for a registry that is served, and not for a folder.
fn cargo(backend: &'static dyn PackageBackend) -> TestResult {
    let cache = cache(backend, |_| ());
    let folder = cache.folder.path().join("registry");
    std::fs::create_dir(&folder)?;
    registries::cargo_folder(&folder);
    let mut source = RegistrySource::default();
    let registry = format!("local-registry={}", folder.display());
    let environment = &mut source.environment;
    environment.insert("SANDBOX_CARGO_SOURCE".into(), registry);
    let mut cache = cache;
    cache.settings.cargo = Some(source);
    InstallerCase {
        registry: registries::cargo,
        configure: |_, _| (),
        wanted: &["cargo:demo@=1.0.0", "cargo:needs[extra]"],
        language: "rust",
        code: "fn main() { println!(\"{} {} {}\", demo::VERSION, needs::VERSION, needs::EXTRA) }\n",
        shown: "1.0.0 1.0.0 true\n",
        file: "/cargo-packages/vendor/demo-1.0.0/Cargo.toml",
        absent: "cargo:absent",
    }
    .check_in(backend, &cache, None)
}

fn missing(backend: &'static dyn PackageBackend) -> TestResult {
    run_within(TIME_LIMIT, async {
        let cache = cache(backend, |_| ());
        for (package, fix) in [("go:example.org/demo", "golang"), ("cran:demo", "r-ver")] {
            let client = client(backend, &cache, None, &[package]);
            let error = client.create(&spec(backend, PYTHON)).await;
            let error = error.expect_err("the image has no such program");
            assert_eq!(error.kind(), ErrorKind::InstallFailed, "{error}");
            assert!(error.fix().is_some_and(|it| it.contains(fix)), "{error}");
        }
        Ok(())
    })
}

fn native(backend: &'static dyn PackageBackend) -> TestResult {
    run_within(TIME_LIMIT, async {
        let registry = registries::cran();
        let url = registry.root().replace("127.0.0.1", REGISTRY);
        let source = RegistrySource::cran([url]);
        let cache = cache(backend, |settings| settings.cran = Some(source));
        let client = client(backend, &cache, None, &["cran:native"]);
        let error = client.create(&spec(backend, LANGUAGES)).await;
        let error = error.expect_err("the image has no make");
        assert_eq!(error.kind(), ErrorKind::PackageNeedsBuild, "{error}");
        Ok(())
    })
}

fn cache(
    backend: &'static dyn PackageBackend,
    configure: impl FnOnce(&mut PackageSettings),
) -> PackageCache {
    let mut cache = PackageCache::with_wheels();
    configure(&mut cache.settings);
    cache.settings.timeout = TIME_LIMIT;
    backend.adapt(&mut cache.settings);
    cache
}

fn client(
    backend: &'static dyn PackageBackend,
    cache: &PackageCache,
    trusted: Option<&Path>,
    packages: &[&str],
) -> SandboxClient {
    let hosts = [(REGISTRY, IpAddr::from(Ipv4Addr::LOCALHOST))];
    let backend = backend.with_packages(&cache.settings, &hosts, trusted, None);
    client_of(backend, policy_with(packages).timeout(TIME_LIMIT))
}

/// Compilers need more than other code.
fn spec(backend: &'static dyn PackageBackend, image: &str) -> sandbox_core::SandboxSpec {
    let spec = backend.spec().image(image);
    spec.memory(ByteSize::mib(512)).cpus(Cpus::milli(500))
}
