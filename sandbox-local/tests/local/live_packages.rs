//! Packages that are installed into a running sandbox.

use std::path::PathBuf;
use std::sync::Arc;

use sandbox_core::{ByteSize, CapabilityPolicy, Error, ErrorKind, SandboxClient};
use sandbox_lang::packages::RegistrySource;
use sandbox_lang::{CodeRequest, LiveSandbox, RunCode, SessionRequest, Sessions};
use sandbox_local::LocalBackend;
use sandbox_testing::package_index::wheel;
use sandbox_testing::registries;

use crate::harness::{Need, Test, test};
use crate::libraries::RegistryFixture;
use crate::packages::{PackageFixture, SHOW, naming, python};
use crate::support::{config, policy, sh, spec};

pub const TESTS: &[Test] = &[
    test!(async packages_appear_in_a_running_sandbox, Need::Pip),
    test!(async live_installation_stays_within_the_policy, Need::Pip),
    test!(async packages_of_npm_appear_in_a_running_sandbox, Need::Program("npm")),
    test!(async packages_of_gem_appear_in_a_running_sandbox, Need::Program("ruby")),
    test!(async packages_of_r_appear_in_a_running_sandbox, Need::Program("Rscript")),
];

/// Sandboxes of these packages, with one more wheel: `other` 1.0.
fn live_place() -> PackageFixture {
    let place = PackageFixture::with_wheels();
    wheel(&place.folder.path().join("wheels"), "other", "1.0", 0);
    place
}

async fn live(place: &PackageFixture, policy: CapabilityPolicy) -> Result<LiveSandbox, Error> {
    let backend = LocalBackend::new(config().packages(place.settings.clone()));
    let client = SandboxClient::with_backend(Arc::new(backend), policy).expect("a valid policy");
    LiveSandbox::create_with(&client, &spec(), place.settings.clone()).await
}

async fn packages_appear_in_a_running_sandbox() {
    let place = live_place();
    let created = live(&place, policy().package_installation(true)).await;
    let sandbox = created.expect("created");
    let run = async |code: &str| {
        let ran = sandbox.run_code(CodeRequest::new("python", code)).await;
        let code = ran.expect("it runs");
        code.check().map(|result| result.stdout_text())
    };
    run(SHOW).await.expect_err("not there yet");
    let state = format!("{}/state", sandbox.temporary_folder());
    sandbox.write(&state, "kept").await.expect("written");
    let variables = sandbox.install(["demo==1.0"]).await.expect("installed");
    assert_eq!(run(SHOW).await.expect("there"), "1.0\n");
    let mut command = python(SHOW);
    command.env.extend(variables.clone());
    let result = sandbox.exec(&command).await.expect("it runs");
    assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    let named = CodeRequest::new("python", SHOW).library("demo");
    sandbox.run_code(named).await.expect("it is there");

    let folder = &variables["PYTHONUSERBASE"];
    let attack = format!(
        "d={folder}; chmod -R 777 $d; touch $d/new || touch $d/../new || mkdir $d/../1 || rm -r $d || mv $d /tmp || \
         for f in $d/lib/*/site-packages/demo.py; do echo > $f; done"
    );
    let tried = sandbox.exec(&sh(&attack)).await.expect("it runs");
    assert!(!tried.success(), "{}", tried.output());
    // Nothing of these is installed, and what is there stays.
    for (package, kind) in [
        ("demo==2.0", ErrorKind::InvalidRequest),
        ("--index-url=http://x", ErrorKind::InvalidRequest),
        ("apt:gcc", ErrorKind::LibrariesNotSupported),
        ("no-such-package", ErrorKind::PackageNotFound),
    ] {
        let error = sandbox.install([package]).await.expect_err(package);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            kind != ErrorKind::LibrariesNotSupported
                || error.fix().is_some_and(|fix| fix.contains("image build"))
        );
    }
    let session = sandbox.session(SessionRequest::new("python")).await;
    let session = session.expect("started");
    let cell = session.run("kept = demo = __import__('demo').version; demo");
    let cell = cell.await.expect("it runs");
    cell.check().expect("a new session finds what is there");
    let installed = sandbox.install_in(&session, ["other"]).await;
    installed.expect("installed");
    let cell = session.run("import other; assert (kept, other.version) == ('1.0', '1.0')");
    cell.await.expect("it runs").check().expect("it is there");
    let both = "import demo, other; print(demo.version, other.version)";
    assert_eq!(run(both).await.expect("there"), "1.0 1.0\n");
    // Programs that use the first ones still find them.
    let result = sandbox.exec(&command).await.expect("it runs");
    assert_eq!(result.stdout_text(), "1.0\n", "{}", result.stderr_text());
    assert_eq!(sandbox.read(&state).await.expect("there"), b"kept");
    sandbox.kill().await.expect("it ends");
    drop(sandbox);
    assert_eq!(place.left("live"), Vec::<PathBuf>::new());
}

/// A sandbox with packages of a registry, in which a library can be loaded once it is installed, and
/// cannot be changed.
async fn appears(
    place: &RegistryFixture,
    language: &str,
    library: &str,
    load: &str,
    folder: &str,
) -> LiveSandbox {
    let client = place.client_with(policy().package_installation(true));
    let created = LiveSandbox::create_with(&client, &spec(), place.settings.clone()).await;
    let sandbox = created.expect("created");
    let run = async || {
        let ran = sandbox.run_code(CodeRequest::new(language, load)).await;
        let code = ran.expect("it runs");
        code.check().map(|result| result.stdout_text())
    };
    run().await.expect_err("not there yet");
    let variables = sandbox.install([library]).await.expect("installed");
    assert_eq!(run().await.expect("there"), "1.0\n");
    let seen = variables[folder].trim_end_matches(':');
    let attack = format!("touch {seen}/new || rm -r {seen} || mv {seen} /tmp");
    let tried = sandbox.exec(&sh(&attack)).await.expect("it runs");
    assert!(!tried.success(), "{}", tried.output());
    sandbox
}

async fn packages_of_npm_appear_in_a_running_sandbox() {
    let registry = registries::npm();
    let mut place = RegistryFixture::new();
    place.settings.npm = Some(RegistrySource::npm(registry.root()));
    let load = "console.log(require('demo').version.slice(0, 3))";
    let sandbox = appears(&place, "javascript", "npm:demo@1.0.0", load, "NODE_PATH").await;
    let session = sandbox.session(SessionRequest::new("javascript")).await;
    let session = session.expect("started");
    let cell = session.run("const kept = require('demo').version").await;
    cell.expect("it runs").check().expect("it is there");
    let installed = sandbox
        .install_in(&session, ["npm:needs", "npm:@scope/demo"])
        .await;
    installed.expect("installed");
    let cell =
        session.run("[kept, require('needs').version, require('@scope/demo').version].join()");
    let cell = cell.await.expect("it runs");
    let value = cell.result.expect("a value");
    assert_eq!(value.text("text/plain"), Some("'1.0.0,1.0.0,1.0.0'"));
}

async fn packages_of_gem_appear_in_a_running_sandbox() {
    let registry = registries::gem();
    let mut place = RegistryFixture::new();
    place.settings.gem = Some(RegistrySource::gem([registry.root()]));
    let load = "require 'demo'; puts Demo::VERSION[0, 3]";
    appears(&place, "ruby", "gem:demo==1.0.0", load, "GEM_PATH").await;
}

async fn packages_of_r_appear_in_a_running_sandbox() {
    let registry = registries::cran();
    let mut place = RegistryFixture::new();
    place.settings.cran = Some(RegistrySource::cran([registry.root()]));
    let load = "cat(demo::version(), '\\n', sep = '')";
    let sandbox = appears(&place, "r", "cran:demo==1.0", load, "R_LIBS").await;
    let session = sandbox.session(SessionRequest::new("r")).await;
    let session = session.expect("started");
    let cell = session.run("kept <- demo::version()").await;
    cell.expect("it runs").check().expect("it is there");
    let installed = sandbox.install_in(&session, ["cran:needs"]).await;
    installed.expect("installed");
    let cell = session.run("cat(kept, needs::version())").await;
    let cell = cell.expect("it runs");
    assert_eq!(cell.stdout.text(), "1.0 needs 1.0", "{cell:?}");
}

async fn live_installation_stays_within_the_policy() {
    let place = live_place();
    let sandbox = live(&place, naming(&["demo==1.0"])).await.expect("created");
    let error = sandbox.install(["other"]).await.expect_err("not allowed");
    assert_eq!(error.kind(), ErrorKind::PolicyExceeded, "{error}");
    sandbox.install(["demo"]).await.expect("it is there");
    let refused = live(&place, policy().package_installation(false)).await;
    assert_eq!(refused.expect_err("none").kind(), ErrorKind::PolicyExceeded);
    let mut small = live_place();
    wheel(
        &small.folder.path().join("wheels"),
        "large",
        "1.0",
        32 << 20,
    );
    let created = live(&small, policy().package_installation(true)).await;
    drop(created.expect("created"));
    small.settings.storage = ByteSize::mib(4);
    let created = live(&small, policy().package_installation(true)).await;
    let error = created.expect("created").install(["large"]).await;
    assert_eq!(error.expect_err("too large").kind(), ErrorKind::StorageFull);
    let backend = LocalBackend::new(config().packages(place.settings.clone()));
    let client = SandboxClient::with_backend(Arc::new(backend), policy()).expect("valid");
    let detached = spec().detached(true);
    let error = LiveSandbox::create_with(&client, &detached, place.settings.clone()).await;
    assert_eq!(error.expect_err("detached").kind(), ErrorKind::Unsupported);
}
