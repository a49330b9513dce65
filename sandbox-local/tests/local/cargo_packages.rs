//! Packages of cargo, from a registry on this machine.

use std::process::Command;
use std::time::Duration;

use sandbox_core::{ErrorKind, OneShot, SandboxHandle};
use sandbox_lang::packages::RegistrySource;
use sandbox_lang::{CodeRequest, RunCode as _, RunCodeOnce as _};
use sandbox_testing::package_index::PackageIndex;
use sandbox_testing::registries;

use crate::harness::{Need, Test, block_on, has_sparse_cargo, rust_toolchain, test};
use crate::libraries::{RegistryFixture, assert_kept, files};
use crate::support::{policy, sh, spec};

const CARGO: Need = Need::Cargo;
const COMPILER: Need = Need::Program("cc");

pub const TESTS: &[Test] = &[
    test!(sync packages_of_cargo_are_found_by_code_and_read_only, CARGO, COMPILER),
    test!(sync cargo_runs_no_code_of_packages, CARGO, COMPILER),
    test!(sync library_of_rust_is_installed_for_one_run, CARGO, COMPILER),
    test!(sync failure_of_cargo_is_typed, CARGO),
];

/// For a compiler on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Set in the process of a test that sees a toolchain in `/usr/local`.
const SHOWN: &str = "SANDBOX_TEST_CARGO_SHOWN";

/// Runs a test where sandboxes see cargo. Where it is not in `/usr`, the test runs in a process of
/// its own, whose mount namespace has the toolchain of rustup at `/usr/local`.
fn with_cargo(name: &str, test: impl AsyncFnOnce()) {
    const SHOW: &str = "mount --make-rprivate / && mount --bind \"$0\" /usr/local && exec \"$@\"";
    if has_sparse_cargo() {
        return block_on(test());
    }
    assert!(std::env::var_os(SHOWN).is_none(), "no cargo in /usr/local");
    let name = format!("cargo_packages::{name}");
    let ended = Command::new("unshare")
        .args(["-m", "sh", "-c", SHOW])
        .arg(rust_toolchain().expect("it is needed"))
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", &name, "--nocapture"])
        .env(SHOWN, "1")
        .status();
    assert!(ended.expect("started").success(), "{name}");
}

fn fixture_of(registry: &PackageIndex) -> RegistryFixture {
    fixture(&format!("sparse+{}/", registry.root()))
}

fn fixture(registry: &str) -> RegistryFixture {
    let mut place = RegistryFixture::new();
    place.settings.cargo = Some(RegistrySource::cargo(registry));
    place
}

async fn sandbox(place: &RegistryFixture, packages: &[&str]) -> SandboxHandle {
    let mut policy = policy().timeout(LIMIT);
    policy.packages = packages.iter().map(|name| (*name).to_owned()).collect();
    let created = place.client_with(policy).create(&spec()).await;
    created.unwrap_or_else(|error| panic!("{packages:?}: {error}"))
}

async fn output(sandbox: &SandboxHandle, code: &str) -> String {
    let result = sandbox.run_code(CodeRequest::new("rust", code)).await;
    let result = result.expect("it runs");
    result.check().expect("it succeeds").stdout_text()
}

fn packages_of_cargo_are_found_by_code_and_read_only() {
    with_cargo(
        "packages_of_cargo_are_found_by_code_and_read_only",
        async || {
            let registry = registries::cargo();
            let place = fixture_of(&registry);
            let wanted = ["cargo:demo@2", "cargo:needs[extra]"];
            let one = sandbox(&place, &wanted).await;
            let code = "#![allow(dead_code)]\nuse demo::VERSION;\n\
        fn main() { println!(\"{} {} {}\", VERSION, needs::VERSION, needs::EXTRA) }\n";
            assert_eq!(output(&one, code).await, "2.0.0 1.0.0 true\n");
            let wrong = CodeRequest::new("rust", "fn main() { absent::f() }");
            let ended = one.run_code(wrong).await.expect("it is compiled");
            let error = ended.check().expect_err("no such package").to_string();
            assert!(error.contains("absent"), "{error}");
            let own = CodeRequest::new("rust", code).module("Cargo.toml", "");
            let error = one.run_code(own).await.expect_err("it is needed");
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
            let attack = "d=$(dirname $CARGO_HOME); f=$d/vendor/demo-2.0.0/src/lib.rs; cat $f || exit 0; \
                  echo > $f; rm -f $f; touch $d/new; chmod 777 $f $d; mv $d/vendor /tmp; ln -s /etc $d/link";
            let tried = one.exec(&sh(attack)).await.expect("it runs");
            assert!(
                tried.stdout_text().contains("VERSION"),
                "{}",
                tried.output()
            );
            assert!(!tried.success(), "{}", tried.output());
            one.kill().await.expect("it ends");

            let requests = registry.requests().len();
            let again = sandbox(&place, &wanted).await;
            assert_eq!(output(&again, code).await, "2.0.0 1.0.0 true\n");
            assert_kept(&registry, requests);
        },
    );
}

fn cargo_runs_no_code_of_packages() {
    with_cargo("cargo_runs_no_code_of_packages", async || {
        let registry = registries::cargo();
        let place = fixture_of(&registry);
        let one = sandbox(&place, &["cargo:built"]).await;
        // The build script runs in the sandbox of the code, where it cannot write beside itself.
        let code = "fn main() { println!(\"{}\", built::VERSION) }\n";
        assert_eq!(output(&one, code).await, "false\n");
        let found = files(&place.part("entries"));
        let named = |name: &str| found.iter().any(|path| path.ends_with(name));
        assert!(named("build.rs") && !named("ran"), "{found:?}");
    });
}

fn library_of_rust_is_installed_for_one_run() {
    with_cargo("library_of_rust_is_installed_for_one_run", async || {
        let registry = registries::cargo();
        let place = fixture_of(&registry);
        let policy_of_any = policy().timeout(LIMIT).package_installation(true);
        let client = place.client_with(policy_of_any);
        let code = "fn main() { println!(\"{}\", demo::VERSION) }\n";
        for (library, version) in [("demo@1", "1.0.0\n"), ("cargo:demo", "2.0.0\n")] {
            let request = CodeRequest::new("rust", code).library(library);
            let ended = client.run_code(request, OneShot::default()).await;
            let code = ended.expect("it runs").code;
            assert_eq!(code.check().expect("it succeeds").stdout_text(), version);
        }
        for library in ["npm:demo", "demo@latest", "./demo", "https://example.org/x"] {
            let request = CodeRequest::new("rust", code).library(library);
            let error = client.run_code(request, OneShot::default()).await;
            let error = error.expect_err(library);
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        }
        let allowed = place.client(&["cargo:demo@1"]);
        let request = CodeRequest::new("rust", code).library("needs");
        let error = allowed.run_code(request, OneShot::default()).await;
        let error = error.expect_err("another");
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded);
    });
}

fn failure_of_cargo_is_typed() {
    with_cargo("failure_of_cargo_is_typed", async || {
        let registry = registries::cargo();
        let place = fixture_of(&registry);
        let error = place
            .refused("cargo:missing", ErrorKind::PackageNotFound)
            .await;
        let words = error.context();
        assert!(words.contains("`missing`"), "cargo's own words: {error}");
        for package in ["cargo:demo@3", "cargo:needs[absent]"] {
            place.refused(package, ErrorKind::PackageNotFound).await;
        }
        place
            .refused("cargo:denied", ErrorKind::RegistryUnreachable)
            .await;
        drop(registry);
        let nowhere = fixture("sparse+http://127.0.0.1:1/");
        nowhere
            .refused("cargo:demo", ErrorKind::RegistryUnreachable)
            .await;
    });
}
