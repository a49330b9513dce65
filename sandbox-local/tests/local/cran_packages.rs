//! Packages of R, from repositories on this machine.

use sandbox_core::{ErrorKind, OneShot, SandboxHandle};
use sandbox_lang::packages::RegistrySource;
use sandbox_lang::{CodeRequest, RunCode as _, RunCodeOnce as _};
use sandbox_testing::package_index::PackageIndex;
use sandbox_testing::registries;

use crate::harness::{Need, Test, test};
use crate::libraries::{RegistryFixture, assert_kept};
use crate::support::{policy, sh};

const R: Need = Need::Program("Rscript");

pub const TESTS: &[Test] = &[
    test!(async packages_of_r_are_found_by_code_and_read_only, R),
    test!(async package_of_r_is_built_without_a_network, R),
    test!(async library_of_r_is_installed_for_one_run, R),
    test!(async repository_of_r_may_be_a_folder, R),
    test!(async failure_of_r_is_typed, R),
];

fn fixture(repository: String) -> RegistryFixture {
    let mut place = RegistryFixture::new();
    place.settings.cran = Some(RegistrySource::cran([repository]));
    place
}

fn fixture_of(registry: &PackageIndex) -> RegistryFixture {
    fixture(registry.root())
}

async fn shows(sandbox: &SandboxHandle, code: &str) -> String {
    let result = sandbox.run_code(CodeRequest::new("r", code)).await;
    let result = result.expect("it runs");
    result.check().expect("it succeeds").stdout_text()
}

async fn packages_of_r_are_found_by_code_and_read_only() {
    let registry = registries::cran();
    let place = fixture_of(&registry);
    let wanted = ["cran:demo==1.0", "cran:needs"];
    let sandbox = place.sandbox(&wanted).await;
    let code = "library(needs)\ncat(demo::version(), version(), '\\n')";
    assert_eq!(shows(&sandbox, code).await, "1.0 needs 1.0 \n");
    let attack = "d=$R_LIBS/demo; cat $d/DESCRIPTION || exit 0; echo > $d/DESCRIPTION; rm -f $d/DESCRIPTION; \
                  touch $R_LIBS/new; chmod 777 $d; mv $d /tmp; ln -s /etc $R_LIBS/link";
    let tried = sandbox.exec(&sh(attack)).await.expect("it runs");
    let read = tried.stdout_text();
    assert!(read.contains("Package: demo"), "{}", tried.output());
    assert!(!tried.success(), "{}", tried.output());
    sandbox.kill().await.expect("it ends");

    let requests = registry.requests().len();
    let again = place.sandbox(&wanted).await;
    assert_eq!(shows(&again, code).await, "1.0 needs 1.0 \n");
    assert_kept(&registry, requests);
    let newest = place.sandbox(&["cran:demo>=1.5"]).await;
    assert_eq!(shows(&newest, "cat(demo::version())").await, "2.0");
    let missing = CodeRequest::new("r", "library(needs)");
    let ended = newest.run_code(missing).await.expect("it runs");
    let error = ended.check().expect_err("not installed").to_string();
    assert!(error.contains("needs"), "{error}");
}

/// What installs it runs its code. The repository would see a request.
async fn package_of_r_is_built_without_a_network() {
    let registry = registries::cran();
    let place = fixture_of(&registry);
    let sandbox = place.sandbox(&["cran:built"]).await;
    let shown = shows(&sandbox, "cat(built:::reached, built:::wrote)").await;
    assert_eq!(shown, "FALSE FALSE");
    let requests = registry.requests();
    let asked = |part: &str| requests.iter().any(|request| request.contains(part));
    assert!(
        asked("built_1.0.tar.gz") && !asked("reached"),
        "{requests:?}"
    );
}

async fn library_of_r_is_installed_for_one_run() {
    let registry = registries::cran();
    let place = fixture_of(&registry);
    let client = place.client_with(policy().package_installation(true));
    let code = "cat(demo::version())";
    for (library, version) in [("demo==1.0", "1.0"), ("cran:demo", "2.0")] {
        let request = CodeRequest::new("r", code).library(library);
        let ended = client.run_code(request, OneShot::default()).await;
        let code = ended.expect("it runs").code;
        assert_eq!(code.check().expect("it succeeds").stdout_text(), version);
    }
    for library in ["npm:demo", "demo@1.0", "./demo", "user/demo"] {
        let request = CodeRequest::new("r", code).library(library);
        let error = client.run_code(request, OneShot::default()).await;
        let error = error.expect_err(library);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
    let allowed = place.client(&["cran:demo"]);
    let request = CodeRequest::new("r", code).library("needs");
    let error = allowed.run_code(request, OneShot::default()).await;
    assert_eq!(
        error.expect_err("another").kind(),
        ErrorKind::PolicyExceeded
    );
}

async fn repository_of_r_may_be_a_folder() {
    let place = RegistryFixture::new();
    let folder = place.folder.path().join("repository");
    std::fs::create_dir(&folder).expect("made");
    registries::cran_folder(&folder);
    let place = fixture(format!("file://{}", folder.display()));
    let sandbox = place.sandbox(&["cran:demo"]).await;
    assert_eq!(shows(&sandbox, "cat(demo::version())").await, "2.0");
}

async fn failure_of_r_is_typed() {
    let registry = registries::cran();
    let place = fixture_of(&registry);
    for (package, kind, words) in [
        ("cran:absent", ErrorKind::PackageNotFound, "absent"),
        ("cran:lost", ErrorKind::PackageNotFound, "missing"),
        ("cran:newer", ErrorKind::PackageNotFound, "R (>= 99.0)"),
        ("cran:demo==7.0", ErrorKind::PackageNotFound, "demo 7.0"),
        ("cran:demo>=7.0", ErrorKind::PackageNotFound, "newest demo"),
        ("cran:changed", ErrorKind::InstallFailed, "not the file"),
        ("cran:broken", ErrorKind::InstallFailed, "on purpose"),
    ] {
        let error = place.refused(package, kind).await;
        assert!(error.context().contains(words), "{error}");
    }
    drop(registry);
    let nowhere = fixture("http://me:secret@127.0.0.1:1".into());
    let error = nowhere
        .refused("cran:demo", ErrorKind::RegistryUnreachable)
        .await;
    assert!(!error.to_string().contains("secret"), "{error}");
}
